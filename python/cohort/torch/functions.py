"""State from one rank to all: parameters, optimizers, objects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Dict, List, Optional, Tuple

import torch

from cohort.common import objects
from cohort.common.basics import rank
from cohort.common.process_sets import ProcessSet, global_process_set
from cohort.torch.collectives import broadcast_async_
from cohort.torch.handles import synchronize


def broadcast_parameters(params: Any, root_rank: int) -> None:
    """Writes the values of the rank `root_rank` to the tensors of `params` on every rank.

    `params` is `model.state_dict()`, a dict of tensors, or a list of tensors or of (name, tensor), as
    `model.named_parameters()` makes.
    """
    if isinstance(params, dict):
        named = sorted(params.items())
    elif isinstance(params, (list, Iterator)):
        named = [entry if isinstance(entry, tuple) else (None, entry) for entry in params]
    else:
        raise ValueError(f"invalid params of type: {type(params)}. Give a dict or a list of tensors")
    pending = []
    for name, tensor in named:
        if tensor is None:
            continue
        if not isinstance(tensor, torch.Tensor):
            raise ValueError(f"'{name}' of params is no tensor but {type(tensor)}; use hvd.broadcast_object() for it")
        pending.append(broadcast_async_(tensor, root_rank, name))
    for handle in pending:
        synchronize(handle)


class _TensorOf:
    """In what the root tells of its state: a tensor, which follows by itself."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.shape, self.dtype, self.on_host = tensor.shape, tensor.dtype, tensor.device.type == "cpu"

    def matches(self, value: Any) -> bool:
        return (isinstance(value, torch.Tensor) and value.shape == self.shape and value.dtype == self.dtype
                and value.layout is torch.strided)  # fmt: skip

    def make(self, parameter: torch.Tensor) -> torch.Tensor:
        return torch.zeros(self.shape, dtype=self.dtype, device="cpu" if self.on_host else parameter.device)


def _parameters_of(optimizer: torch.optim.Optimizer) -> List[torch.Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _is_dense(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.layout is torch.strided


def _described(optimizer: torch.optim.Optimizer) -> Tuple[List[Dict[str, Any]], List[Optional[Dict[Any, Any]]]]:
    """The options of the groups, and the state of each parameter with its dense tensors described, not contained."""
    options = [{key: value for key, value in group.items() if key != "params"} for group in optimizer.param_groups]
    states: List[Optional[Dict[Any, Any]]] = []
    for parameter in _parameters_of(optimizer):
        state = optimizer.state.get(parameter)
        if state is None:
            states.append(None)
        else:
            states.append({key: _TensorOf(value) if _is_dense(value) else value for key, value in state.items()})
    return options, states


def broadcast_optimizer_state(optimizer: torch.optim.Optimizer, root_rank: int, model: Any = None) -> None:
    """Gives every rank the options (learning rate, ...) and the state of the optimizer of the rank `root_rank`.

    A rank may have no state yet, or other state: it takes over what the root has. Where a rank has none, its
    parameters without a gradient get one of zeros. `model` is taken for Horovod's sake: nothing depends on it.
    """
    parameters = _parameters_of(optimizer)
    if not optimizer.state:
        for parameter in parameters:
            if parameter.requires_grad and parameter.grad is None:
                zeros = torch.zeros_like(parameter, requires_grad=False)
                parameter.grad = zeros.to_sparse() if isinstance(optimizer, torch.optim.SparseAdam) else zeros
    told = objects.broadcast_object(_described(optimizer) if rank() == root_rank else None, root_rank)
    options, states = told
    if len(options) != len(optimizer.param_groups) or len(states) != len(parameters):
        raise ValueError(
            f"the optimizer of rank {root_rank} has {len(options)} groups with {len(states)} parameters, that of rank "
            f"{rank()} {len(optimizer.param_groups)} with {len(parameters)}. Make the same optimizer on all ranks"
        )
    tensors: List[torch.Tensor] = []
    for parameter, state in zip(parameters, states):
        if state is None:
            optimizer.state.pop(parameter, None)
            continue
        own = optimizer.state[parameter]
        for key in [key for key in own if key not in state]:
            del own[key]
        for key, value in state.items():
            if isinstance(value, _TensorOf):
                if not value.matches(own.get(key)):
                    own[key] = value.make(parameter)
                tensors.append(own[key])
            elif rank() != root_rank:
                own[key] = value
    if rank() != root_rank:
        for group, chosen in zip(optimizer.param_groups, options):
            for key, value in chosen.items():
                _set_option(group, key, value)
    broadcast_parameters([(f"optimizer_state.{i}", tensor) for i, tensor in enumerate(tensors)], root_rank)


def _set_option(group: Dict[str, Any], key: str, value: Any) -> None:
    """A learning rate may be a tensor that compiled code holds on to: it is written to, not replaced."""
    if isinstance(value, torch.Tensor) and isinstance(group.get(key), torch.Tensor):
        with torch.no_grad():
            group[key].copy_(value)
    else:
        group[key] = value


def broadcast_object(obj: Any, root_rank: int = 0, name: Optional[str] = None,
                     process_set: ProcessSet = global_process_set) -> Any:  # fmt: skip
    """The object of the rank `root_rank`, pickled, on every rank of the set. The root gets its own."""
    return objects.broadcast_object(obj, root_rank, name, process_set)


def allgather_object(obj: Any, name: Optional[str] = None) -> List[Any]:
    """The objects of all ranks, pickled, in rank order."""
    return objects.allgather_object(obj, name)
