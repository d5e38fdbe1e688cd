"""What cohort.keras does where Keras 3 runs on torch."""

# mypy: ignore-errors
from __future__ import annotations

import torch

from cohort import torch as cohort_torch
from cohort._keras.torch_exchange import TorchExchange
from cohort.common.basics import Average


def exchange(optimizer, name=None, device_dense="", device_sparse="", sparse_as_dense=False, groups=None, num_groups=0,
             op=Average, gradient_predivide_factor=1.0, **arguments):  # fmt: skip
    """How gradients of this optimizer are combined; all of them travel as one request."""
    if gradient_predivide_factor != 1.0 and op != Average:
        raise ValueError("gradient_predivide_factor splits an average: it needs op=Average")
    return TorchExchange(name or f"Distributed{type(optimizer).__name__}", op=op,
                         gradient_predivide_factor=gradient_predivide_factor, **arguments)  # fmt: skip


def _tensor(value):
    return value.detach() if isinstance(value, torch.Tensor) else torch.as_tensor(value)


def broadcast_global_variables(root_rank):
    raise RuntimeError("broadcast_global_variables works on graphs of TensorFlow 1: use the callback "
                       "BroadcastGlobalVariablesCallback")  # fmt: skip


def allreduce(value, name, average, prescale_factor, postscale_factor, op, compression):
    return cohort_torch.allreduce(_tensor(value), average=average, name=name, op=op, compression=compression,
                                  prescale_factor=prescale_factor, postscale_factor=postscale_factor)  # fmt: skip


def allgather(value, name=None):
    return cohort_torch.allgather(_tensor(value), name=name)


def broadcast(value, root_rank, name=None):
    return cohort_torch.broadcast(_tensor(value), root_rank, name=name)


def reducescatter(value, name=None, op=Average):
    return cohort_torch.reducescatter(_tensor(value), name=name, op=op)
