"""Collectives on torch tensors, and the functions of the world, under the names that Horovod's scripts import."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence

import torch

from cohort.common import objects
from cohort.common.basics import (
    Adasum, Average, HorovodBasics, Max, Min, Product, Sum, ccl_built, cross_rank, cross_size, cuda_built, ddl_built,
    gloo_built, gloo_enabled, init, is_homogeneous, is_initialized, local_rank, local_size, mpi_built, mpi_enabled,
    mpi_threads_supported, nccl_built, rank, rocm_built, shutdown, size, start_timeline, stop_timeline,
)  # fmt: skip
from cohort.common.exceptions import HorovodInternalError
from cohort.common.process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set
from cohort.torch import blocking
from cohort.torch.collectives import (
    allgather_async, allreduce_, allreduce_async, allreduce_async_, alltoall_async, broadcast_, broadcast_async,
    broadcast_async_, grouped_allgather_async, grouped_allreduce_, grouped_allreduce_async, grouped_allreduce_async_,
    grouped_reducescatter_async, handle_average_backwards_compatibility, reducescatter_async, sparse_allreduce_async,
)  # fmt: skip
from cohort.torch.compression import Compression
from cohort.torch.gradients import (
    HorovodAllgather, HorovodAllreduce, HorovodAlltoall, HorovodBroadcast, HorovodGroupedAllgather,
    HorovodGroupedAllreduce, HorovodGroupedReducescatter, HorovodReducescatter, needs_gradient,
)  # fmt: skip
from cohort.torch.handles import poll, synchronize
from cohort.torch.tensors import all_of

_basics = HorovodBasics()


def allreduce(tensor: torch.Tensor, average: Optional[bool] = None, name: Optional[str] = None,
              compression: Any = Compression.none, op: Optional[int] = None, prescale_factor: float = 1.0,
              postscale_factor: float = 1.0, process_set: ProcessSet = global_process_set) -> torch.Tensor:  # fmt: skip
    """The average of the ranks' tensors, or what `op` says, as a new tensor. All ranks give one shape and dtype.

    Contributions are multiplied by `prescale_factor` before the reduction, and the result by `postscale_factor`.
    `average` is the old name of op=Average (True) and op=Sum (False).
    """
    op = handle_average_backwards_compatibility(op, average)
    used, ctx = compression.compress(tensor)
    if isinstance(used, torch.Tensor) and needs_gradient(used):
        result = HorovodAllreduce.apply(used, None, name, op, prescale_factor, postscale_factor, process_set)
    else:
        result = blocking.reduce(used, name, op, prescale_factor, postscale_factor, process_set)
    output: torch.Tensor = compression.decompress(result, ctx)
    return output


def grouped_allreduce(tensors: Sequence[torch.Tensor], average: Optional[bool] = None, name: Optional[str] = None,
                      compression: Any = Compression.none, op: Optional[int] = None, prescale_factor: float = 1.0,
                      postscale_factor: float = 1.0,
                      process_set: ProcessSet = global_process_set) -> List[torch.Tensor]:  # fmt: skip
    """As `allreduce` for each of the tensors, all in one call; tensors of one place in the list belong together."""
    op = handle_average_backwards_compatibility(op, average)
    used, ctxs = _compressed(compression, tensors)
    if needs_gradient(*used):
        results = HorovodGroupedAllreduce.apply(None, name, op, prescale_factor, postscale_factor, process_set, *used)
    else:
        results = blocking.reduce_group(used, name, op, prescale_factor, postscale_factor, process_set)
    return [compression.decompress(result, ctx) for result, ctx in zip(results, ctxs)]


def _compressed(compression: Any, tensors: Sequence[torch.Tensor]) -> Any:
    pairs = [compression.compress(tensor) for tensor in all_of(tensors)]
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def allgather(tensor: torch.Tensor, name: Optional[str] = None,
              process_set: ProcessSet = global_process_set) -> torch.Tensor:  # fmt: skip
    """The ranks' tensors, one after the other in their first dimension, in which they may differ."""
    if isinstance(tensor, torch.Tensor) and needs_gradient(tensor):
        output: torch.Tensor = HorovodAllgather.apply(tensor, name, process_set)
        return output
    return blocking.gather(tensor, name, process_set)


def grouped_allgather(tensors: Sequence[torch.Tensor], name: Optional[str] = None,
                      process_set: ProcessSet = global_process_set) -> List[torch.Tensor]:  # fmt: skip
    """As `allgather` for each of the tensors, all in one call."""
    tensors = all_of(tensors)
    if needs_gradient(*tensors):
        return list(HorovodGroupedAllgather.apply(name, process_set, *tensors))
    return blocking.gather_group(tensors, name, process_set)


def broadcast(tensor: torch.Tensor, root_rank: int, name: Optional[str] = None,
              process_set: ProcessSet = global_process_set) -> torch.Tensor:  # fmt: skip
    """The tensor of the rank `root_rank` of the world, as a new one, on all ranks. Shapes and dtypes are the same."""
    if isinstance(tensor, torch.Tensor) and needs_gradient(tensor):
        output: torch.Tensor = HorovodBroadcast.apply(tensor, root_rank, name, process_set)
        return output
    return blocking.send(tensor, root_rank, name, process_set)


def alltoall(tensor: torch.Tensor, splits: Any = None, name: Optional[str] = None,
             process_set: ProcessSet = global_process_set) -> Any:  # fmt: skip
    """Sends `splits[r]` rows of `tensor` to rank r, equal parts without splits; returns the rows that came, by rank.

    With `splits` the result is (tensor, received_splits): how many rows came from each rank, as int32.
    """
    if isinstance(tensor, torch.Tensor) and needs_gradient(tensor):
        return HorovodAlltoall.apply(tensor, splits, name, process_set)
    output, counts = blocking.exchange(tensor, splits, name, process_set)
    return output if splits is None else (output, counts)


def reducescatter(tensor: torch.Tensor, name: Optional[str] = None, compression: Any = Compression.none,
                  op: int = Average, process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                  postscale_factor: float = 1.0) -> torch.Tensor:  # fmt: skip
    """This rank's part of the reduced tensor: its rows are cut over the ranks, of which the first ones get one more."""
    used, ctx = compression.compress(tensor)
    if isinstance(used, torch.Tensor) and needs_gradient(used):
        result = HorovodReducescatter.apply(used, name, op, process_set, prescale_factor, postscale_factor)
    else:
        result = blocking.scatter(used, name, op, process_set, prescale_factor, postscale_factor)
    output: torch.Tensor = compression.decompress(result, ctx)
    return output


def grouped_reducescatter(tensors: Sequence[torch.Tensor], name: Optional[str] = None,
                          compression: Any = Compression.none, op: int = Average,
                          process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                          postscale_factor: float = 1.0) -> List[torch.Tensor]:  # fmt: skip
    """As `reducescatter` for each of the tensors, all in one call."""
    used, ctxs = _compressed(compression, tensors)
    if needs_gradient(*used):
        results = HorovodGroupedReducescatter.apply(name, op, process_set, prescale_factor, postscale_factor, *used)
    else:
        results = blocking.scatter_group(used, name, op, process_set, prescale_factor, postscale_factor)
    return [compression.decompress(result, ctx) for result, ctx in zip(results, ctxs)]


def join(device: int = -1) -> int:
    """This rank is out of data: it takes part in the others' allreduces with zeros until all have joined.

    Returns the rank that joined last. `device` is taken for Horovod's sake: nothing depends on it.
    """
    return objects.join()


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Returns when every rank of the set has called it."""
    objects.barrier(process_set)


__all__ = [
    "Adasum", "Average", "Compression", "HorovodAllgather", "HorovodAllreduce", "HorovodAlltoall", "HorovodBroadcast",
    "HorovodGroupedAllgather", "HorovodGroupedAllreduce", "HorovodGroupedReducescatter", "HorovodInternalError",
    "HorovodReducescatter", "Max", "Min", "ProcessSet", "Product", "Sum", "add_process_set", "allgather",
    "allgather_async", "allreduce", "allreduce_", "allreduce_async", "allreduce_async_", "alltoall", "alltoall_async",
    "barrier", "broadcast", "broadcast_", "broadcast_async", "broadcast_async_", "ccl_built", "cross_rank",
    "cross_size", "cuda_built", "ddl_built", "global_process_set", "gloo_built", "gloo_enabled", "grouped_allgather",
    "grouped_allgather_async", "grouped_allreduce", "grouped_allreduce_", "grouped_allreduce_async",
    "grouped_allreduce_async_", "grouped_reducescatter", "grouped_reducescatter_async",
    "handle_average_backwards_compatibility", "init", "is_homogeneous", "is_initialized", "join", "local_rank",
    "local_size", "mpi_built", "mpi_enabled", "mpi_threads_supported", "nccl_built", "poll", "rank", "reducescatter",
    "reducescatter_async", "remove_process_set", "rocm_built", "shutdown", "size", "sparse_allreduce_async",
    "start_timeline", "stop_timeline", "synchronize",
]  # fmt: skip
