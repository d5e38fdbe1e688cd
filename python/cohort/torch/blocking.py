"""Collectives that block and leave their arguments as they are; without gradients. See gradients.py for those."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

import torch

from cohort.common import requests
from cohort.common.basics import Sum
from cohort.common.process_sets import ProcessSet, root_in_set
from cohort.torch.collectives import (
    ALLGATHER, ALLREDUCE, ALLTOALL, BROADCAST, REDUCESCATTER, check_scatter_op, key_of, received, results_like,
)  # fmt: skip
from cohort.torch.tensors import all_of, into, like, on_host, result_of, source, split_sizes


def reduce(tensor: torch.Tensor, name: Optional[str], op: int, prescale: float, postscale: float,
           process_set: ProcessSet) -> torch.Tensor:  # fmt: skip
    used = on_host(tensor, reduced=True)
    output = torch.empty_like(used)
    key, number = key_of("allreduce", name, process_set)
    requests.run(ALLREDUCE, key, (into(used, output),), op, number, 0, prescale, postscale)
    return like(output, tensor)


def reduce_group(tensors: Sequence[torch.Tensor], name: Optional[str], op: int, prescale: float, postscale: float,
                 process_set: ProcessSet) -> List[torch.Tensor]:  # fmt: skip
    tensors = all_of(tensors)
    used = [on_host(tensor, reduced=True) for tensor in tensors]
    outputs = [torch.empty_like(one) for one in used]
    key, number = key_of("grouped_allreduce", name, process_set)
    requests.run(ALLREDUCE, key, list(map(into, used, outputs)), op, number, 0, prescale, postscale)
    return list(map(like, outputs, tensors))


def gather(tensor: torch.Tensor, name: Optional[str], process_set: ProcessSet) -> torch.Tensor:
    used = on_host(tensor)
    key, number = key_of("allgather", name, process_set)
    handle = requests.run(ALLGATHER, key, (source(used),), Sum, number)
    assert handle is not None
    return like(result_of(handle, 0, used), tensor)


def gather_group(tensors: Sequence[torch.Tensor], name: Optional[str], process_set: ProcessSet) -> List[torch.Tensor]:
    tensors = all_of(tensors)
    used = [on_host(tensor) for tensor in tensors]
    key, number = key_of("grouped_allgather", name, process_set)
    handle = requests.run(ALLGATHER, key, list(map(source, used)), Sum, number)
    assert handle is not None
    return results_like(handle, used, tensors)


def send(tensor: torch.Tensor, root_rank: int, name: Optional[str], process_set: ProcessSet) -> torch.Tensor:
    """The broadcast."""
    used = on_host(tensor)
    output = torch.empty_like(used)
    key, number = key_of("broadcast", name, process_set)
    requests.run(BROADCAST, key, (into(used, output),), Sum, number, root_in_set(process_set, root_rank))
    return like(output, tensor)


def exchange(tensor: torch.Tensor, splits: Any, name: Optional[str],
             process_set: ProcessSet) -> Tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """The alltoall, with the received splits."""
    rows, sizes = split_sizes(splits, tensor)
    used = on_host(rows)
    key, number = key_of("alltoall", name, process_set)
    handle = requests.run(ALLTOALL, key, (source(used),), Sum, number, splits=sizes)
    assert handle is not None
    output, counts = received(handle, used, tensor, splits)
    return output, counts


def scatter(tensor: torch.Tensor, name: Optional[str], op: int, process_set: ProcessSet, prescale: float,
            postscale: float) -> torch.Tensor:  # fmt: skip
    """The reducescatter."""
    check_scatter_op(op)
    used = on_host(tensor, reduced=True)
    key, number = key_of("reducescatter", name, process_set)
    handle = requests.run(REDUCESCATTER, key, (source(used),), op, number, 0, prescale, postscale)
    assert handle is not None
    return like(result_of(handle, 0, used), tensor)


def scatter_group(tensors: Sequence[torch.Tensor], name: Optional[str], op: int, process_set: ProcessSet,
                  prescale: float, postscale: float) -> List[torch.Tensor]:  # fmt: skip
    check_scatter_op(op)
    tensors = all_of(tensors)
    used = [on_host(tensor, reduced=True) for tensor in tensors]
    key, number = key_of("grouped_reducescatter", name, process_set)
    handle = requests.run(REDUCESCATTER, key, list(map(source, used)), op, number, 0, prescale, postscale)
    assert handle is not None
    return results_like(handle, used, tensors)
