"""What cohort.keras does where Keras runs on TensorFlow."""

# mypy: ignore-errors
from __future__ import annotations

from cohort.tensorflow.gradients import Exchange
from cohort.tensorflow.keras import (  # noqa: F401
    allgather, allreduce, broadcast, broadcast_global_variables, reducescatter,
)  # fmt: skip
from cohort.tensorflow.mpi_ops import Average


def exchange(optimizer, name=None, num_groups=0, op=Average, **arguments):
    """How gradients of this optimizer are combined."""
    return Exchange(name or f"Distributed{type(optimizer).__name__}", op=op, **arguments).checked(num_groups)
