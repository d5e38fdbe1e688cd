"""backward_passes_per_step of Keras optimizers: the helper of graphs works there too."""

from __future__ import annotations

from typing import Any, Callable, List

from cohort.common.process_sets import ProcessSet, global_process_set
from cohort.tensorflow.gradient_aggregation import LocalGradientAggregationHelper


class LocalGradientAggregationHelperEager(LocalGradientAggregationHelper):
    def __init__(self, backward_passes_per_step: int, allreduce_func: Callable[..., List[Any]], sparse_as_dense: bool,
                 average_aggregated_gradients: bool = False, process_set: ProcessSet = global_process_set,
                 scale_local_gradients: bool = True) -> None:  # fmt: skip
        super().__init__(backward_passes_per_step, allreduce_func, sparse_as_dense, average_aggregated_gradients,
                         process_set=process_set, scale_local_gradients=scale_local_gradients)  # fmt: skip
