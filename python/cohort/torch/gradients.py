"""The collectives as functions through which gradients flow. Every rank's backward must reach them, in any order.

The gradient of allreduce and reducescatter is that of the sum of all ranks' losses; that of allgather and broadcast is
the average over the ranks, as in Horovod since 0.21.
"""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

import torch

from cohort.common import basics
from cohort.common.basics import Average, Sum
from cohort.common.process_sets import ProcessSet
from cohort.torch import blocking
from cohort.torch.collectives import handle_average_backwards_compatibility


class HorovodAllreduce(torch.autograd.Function):
    """allreduce of a tensor."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, average: Optional[bool], name: Optional[str], op: Optional[int],
                prescale_factor: float, postscale_factor: float, process_set: ProcessSet) -> Any:  # fmt: skip
        ctx.arguments = (handle_average_backwards_compatibility(op, average), prescale_factor, postscale_factor,
                         process_set)  # fmt: skip
        return blocking.reduce(tensor, name, *ctx.arguments)

    @staticmethod
    def backward(ctx: Any, grad_output: torch.Tensor) -> Any:  # type: ignore[override]
        op, prescale, postscale, process_set = ctx.arguments
        reduced = HorovodAllreduce.apply(grad_output, None, None, op, prescale, postscale, process_set)
        return reduced, None, None, None, None, None, None


class HorovodGroupedAllreduce(torch.autograd.Function):
    """allreduce of several tensors."""

    @staticmethod
    def forward(ctx: Any, average: Optional[bool], name: Optional[str], op: Optional[int], prescale_factor: float,
                postscale_factor: float, process_set: ProcessSet, *tensors: torch.Tensor) -> Any:  # fmt: skip
        ctx.arguments = (handle_average_backwards_compatibility(op, average), prescale_factor, postscale_factor,
                         process_set)  # fmt: skip
        return tuple(blocking.reduce_group(tensors, name, *ctx.arguments))

    @staticmethod
    def backward(ctx: Any, *grad_output: torch.Tensor) -> Any:
        op, prescale, postscale, process_set = ctx.arguments
        reduced = HorovodGroupedAllreduce.apply(None, None, op, prescale, postscale, process_set, *grad_output)
        return (None, None, None, None, None, None, *reduced)


def _own_rows(gathered: List[torch.Tensor], rows: List[int], process_set: ProcessSet) -> List[torch.Tensor]:
    """Of each tensor, the rows that this rank had brought."""
    counts = blocking.gather(torch.tensor([rows]), None, process_set)
    before = counts[: process_set.rank()].sum(0).tolist()
    return [one.narrow(0, start, length) for one, start, length in zip(gathered, before, rows)]


class HorovodAllgather(torch.autograd.Function):
    """allgather of a tensor."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, name: Optional[str], process_set: ProcessSet) -> Any:
        ctx.rows, ctx.process_set = tensor.shape[:1], process_set
        return blocking.gather(tensor, name, process_set)

    @staticmethod
    def backward(ctx: Any, grad_output: torch.Tensor) -> Any:  # type: ignore[override]
        reduced = blocking.reduce(grad_output, None, Average, 1.0, 1.0, ctx.process_set)
        return _own_rows([reduced], list(ctx.rows), ctx.process_set)[0], None, None


class HorovodGroupedAllgather(torch.autograd.Function):
    """allgather of several tensors."""

    @staticmethod
    def forward(ctx: Any, name: Optional[str], process_set: ProcessSet, *tensors: torch.Tensor) -> Any:
        ctx.rows, ctx.process_set = [tensor.shape[0] for tensor in tensors], process_set
        return tuple(blocking.gather_group(tensors, name, process_set))

    @staticmethod
    def backward(ctx: Any, *grad_output: torch.Tensor) -> Any:
        reduced = blocking.reduce_group(grad_output, None, Average, 1.0, 1.0, ctx.process_set)
        return (None, None, *_own_rows(reduced, ctx.rows, ctx.process_set))


class HorovodBroadcast(torch.autograd.Function):
    """broadcast of a tensor."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, root_rank: int, name: Optional[str], process_set: ProcessSet) -> Any:
        ctx.root_rank, ctx.process_set = root_rank, process_set
        return blocking.send(tensor, root_rank, name, process_set)

    @staticmethod
    def backward(ctx: Any, grad_output: torch.Tensor) -> Any:  # type: ignore[override]
        reduced = blocking.reduce(grad_output, None, Average, 1.0, 1.0, ctx.process_set)
        if basics.rank() != ctx.root_rank:
            reduced.zero_()
        return reduced, None, None, None


class HorovodAlltoall(torch.autograd.Function):
    """alltoall of a tensor."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, splits: Any, name: Optional[str], process_set: ProcessSet) -> Any:
        output, counts = blocking.exchange(tensor, splits, name, process_set)
        ctx.recvsplits, ctx.process_set, ctx.rows = counts, process_set, tensor.shape[0]
        if splits is None:
            return output
        ctx.mark_non_differentiable(counts)
        return output, counts

    @staticmethod
    def backward(ctx: Any, grad_output: torch.Tensor, *dead_gradients: Any) -> Any:  # type: ignore[override]
        sent, _ = blocking.exchange(grad_output, ctx.recvsplits, None, ctx.process_set)
        if sent.shape[0] < ctx.rows:  # the splits did not cover all rows
            rest = sent.new_zeros((ctx.rows - sent.shape[0], *sent.shape[1:]))
            sent = torch.cat([sent, rest])
        return sent, None, None, None


def _scale_of(op: int, process_set: ProcessSet, prescale: float, postscale: float) -> float:
    return (process_set.size() or 1 if op == Sum else 1) * prescale * postscale


class HorovodReducescatter(torch.autograd.Function):
    """reducescatter of a tensor."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, name: Optional[str], op: int, process_set: ProcessSet,
                prescale_factor: float, postscale_factor: float) -> Any:  # fmt: skip
        ctx.process_set, ctx.scale = process_set, _scale_of(op, process_set, prescale_factor, postscale_factor)
        return blocking.scatter(tensor, name, op, process_set, prescale_factor, postscale_factor)

    @staticmethod
    def backward(ctx: Any, grad_output: torch.Tensor) -> Any:  # type: ignore[override]
        gathered = blocking.gather(grad_output * ctx.scale, None, ctx.process_set)
        return gathered, None, None, None, None, None


class HorovodGroupedReducescatter(torch.autograd.Function):
    """reducescatter of several tensors."""

    @staticmethod
    def forward(ctx: Any, name: Optional[str], op: int, process_set: ProcessSet, prescale_factor: float,
                postscale_factor: float, *tensors: torch.Tensor) -> Any:  # fmt: skip
        ctx.process_set, ctx.scale = process_set, _scale_of(op, process_set, prescale_factor, postscale_factor)
        return tuple(blocking.scatter_group(tensors, name, op, process_set, prescale_factor, postscale_factor))

    @staticmethod
    def backward(ctx: Any, *grad_output: torch.Tensor) -> Any:
        gathered = blocking.gather_group([one * ctx.scale for one in grad_output], None, ctx.process_set)
        return (None, None, None, None, None, *gathered)


def needs_gradient(*tensors: torch.Tensor) -> bool:
    """Whether a call has to be recorded; without, its fast form can be used."""
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)


__all__: Tuple[str, ...] = (
    "HorovodAllgather", "HorovodAllreduce", "HorovodAlltoall", "HorovodBroadcast", "HorovodGroupedAllgather",
    "HorovodGroupedAllreduce", "HorovodGroupedReducescatter", "HorovodReducescatter", "needs_gradient",
)  # fmt: skip
