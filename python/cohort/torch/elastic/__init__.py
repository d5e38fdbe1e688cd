"""Elastic training in PyTorch: see cohort.common.elastic."""

from __future__ import annotations

from typing import Any, Callable

from cohort.common.elastic import reset_world, run_fn
from cohort.torch.elastic.sampler import ElasticSampler
from cohort.torch.elastic.state import TorchState

__all__ = ["ElasticSampler", "TorchState", "run"]


def run(func: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a training function, whose first argument is a State: it is called again when workers change.

    Collectives belong inside of it, or after it; a worker that joins later runs nothing of what stands before it
    at the same time as the others.
    """
    return run_fn(func, reset_world)
