"""The exchange of gradients of Keras 3 on torch."""

from __future__ import annotations

from typing import Any, Callable, List, NamedTuple, Sequence, Set

import torch

from cohort import torch as cohort_torch
from cohort._keras.optimizers import Settings
from cohort.common.basics import Average
from cohort.common.process_sets import ProcessSet, global_process_set


class TorchExchange(NamedTuple):
    """As cohort.tensorflow.gradients.Exchange."""

    name: str
    compression: Any = cohort_torch.Compression.none
    op: int = Average
    gradient_predivide_factor: float = 1.0
    process_set: ProcessSet = global_process_set
    scale_local_gradients: bool = True

    def reduce(self, grads: Sequence[Any], variables: Sequence[Any], local: Set[int]) -> List[Any]:
        """The gradients combined over the ranks, but for those of local variables (by id)."""
        size = self.process_set.size() or 1
        results = list(grads)
        places = [place for place, grad in enumerate(grads) if grad is not None and id(variables[place]) not in local]
        if places and self.process_set.included() and size > 1:
            split = self.op == Average
            packed = [self.compression.compress(grads[place].detach().contiguous()) for place in places]
            reduced = cohort_torch.grouped_allreduce(
                [tensor for tensor, _ in packed], name=self.name, op=self.op, process_set=self.process_set,
                prescale_factor=1.0 / self.gradient_predivide_factor if split else 1.0,
                postscale_factor=self.gradient_predivide_factor if split else 1.0)  # fmt: skip
            for place, tensor, (_, context) in zip(places, reduced, packed):
                results[place] = self.compression.decompress(tensor, context)
        if self.scale_local_gradients:
            results = [grad / size if grad is not None and id(variable) in local else grad
                       for grad, variable in zip(results, variables)]  # fmt: skip
        return results


class AggregationHelper:
    """Adds up gradients, and every backward_passes_per_step calls exchanges the sums. `counter`: passes in them."""

    def __init__(self, settings: Settings, reduce: Callable[[Sequence[Any], Sequence[Any]], List[Any]]) -> None:
        self._settings = settings
        self._reduce = reduce
        self._sums: List[Any] = []
        self._local: Set[int] = set()
        self.counter = 0

    def register_local_var(self, var: Any) -> None:
        self._local.add(id(var))

    def compute_gradients(self, grads: Sequence[Any], variables: Sequence[Any]) -> List[Any]:
        with torch.no_grad():
            if self.counter == 0:
                self._sums = [None if grad is None else grad.detach().clone() for grad in grads]
            else:
                self._sums = [total if grad is None else grad.detach().clone() if total is None else total + grad
                              for total, grad in zip(self._sums, grads)]  # fmt: skip
            self.counter += 1
            if self.counter < self._settings.backward_passes_per_step:
                return self._sums
            self.counter = 0
            exchange = self._settings.exchange
            results: List[Any] = exchange.reduce(self._sums, variables, self._local)
            if self._settings.average_aggregated_gradients:
                passes = self._settings.backward_passes_per_step
                results = [None if grad is None else grad / passes for grad in results]
            return results

    def apply_gradients(self, apply: Callable[[], Any], optimizer: Any, *_: Any) -> Any:
        if self.counter == 0:
            return apply()
        optimizer.iterations.assign_add(1)
        return None
