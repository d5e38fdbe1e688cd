"""The names under which an optimizer's gradients are exchanged, and groups of them that go together."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Optional, Sequence, Set, Tuple

import torch

from cohort.common import objects
from cohort.common.process_sets import ProcessSet
from cohort.common.util import split_list

Group = Tuple[torch.Tensor, ...]


def find_duplicates(names: Iterable[str]) -> Set[str]:
    seen: Set[str] = set()
    return {name for name in names if name in seen or seen.add(name)}  # type: ignore[func-returns-value]


def name_parameters(param_groups: Sequence[Dict[str, Any]], named_parameters: Any) -> Dict[torch.Tensor, str]:
    """The name of each parameter. ValueError for names that are given twice, or to some parameters only."""
    if named_parameters is None:
        named = [(f"allreduce.noname.{i}.{j}", parameter) for i, group in enumerate(param_groups)
                 for j, parameter in enumerate(group["params"])]  # fmt: skip
    else:
        named = list(named_parameters)
    if any(not isinstance(entry, tuple) for entry in named):
        raise ValueError(
            "named_parameters should be a sequence of tuples (name, parameter), as model.named_parameters() makes"
        )
    twice = find_duplicates(name for name, _ in named)
    if twice:
        raise ValueError(
            f"Parameter names in named_parameters must be unique. Found duplicates: {', '.join(sorted(twice))}. "
            "Add the name of the model before each"
        )
    names = {parameter: name for name, parameter in sorted(named, key=lambda entry: entry[0])}
    unnamed = [tuple(p.shape) for group in param_groups for p in group["params"] if p not in names]
    if unnamed:
        raise ValueError(
            f"named_parameters was specified, but {len(unnamed)} parameters of the optimizer were not named, of shapes "
            f"{unnamed[:8]}. Name all of them, or leave named_parameters out"
        )
    return names


def check_groups(groups: Any) -> None:
    """ValueError for what is neither a number of groups nor a list of lists of tensors without one twice."""
    if groups is None:
        return
    if not isinstance(groups, list):
        if not isinstance(groups, int) or groups <= 0:
            raise ValueError(f"groups is {groups!r}. Give a positive number, or a list of lists of torch.Tensor")
        return
    seen: Set[int] = set()
    for group in groups:
        for parameter in group:
            if not isinstance(parameter, torch.Tensor):
                raise ValueError(f"groups must consist of torch.Tensor, not {type(parameter).__name__}")
            if id(parameter) in seen:
                raise ValueError("A parameter can only appear once in groups.")
            seen.add(id(parameter))


def make_groups(groups: Any, parameters: Sequence[torch.Tensor], names: Dict[torch.Tensor, str],
                process_set: ProcessSet) -> Dict[torch.Tensor, Group]:  # fmt: skip
    """The group of each parameter, the same on all ranks of the set: in the order of the set's first rank."""
    assert process_set.ranks is not None
    order: List[str] = objects.broadcast_object([names[p] for p in parameters], process_set.ranks[0],
                                                process_set=process_set)  # fmt: skip
    place = {name: i for i, name in enumerate(order)}
    ordered = sorted(parameters, key=lambda p: place[names[p]])
    made: List[Sequence[torch.Tensor]]
    if isinstance(groups, list):
        with_gradient = {id(parameter) for parameter in ordered}
        made = [[p for p in group if id(p) in with_gradient] for group in groups]
        grouped = {id(parameter) for group in made for parameter in group}
        made += [[p] for p in ordered if id(p) not in grouped]
    else:
        made = split_list(ordered, groups)
    return {parameter: tuple(group) for group in made for parameter in group}


Groups = Optional[Dict[torch.Tensor, Group]]
