"""DistributedOptimizer for optimizers of TensorFlow 1 (tf.compat.v1.train), and the way to the one for Keras."""

from __future__ import annotations

from typing import Any, List, Optional, Set

import tensorflow as tf

from cohort.common.process_sets import ProcessSet, global_process_set
from cohort.tensorflow.collectives import allreduce
from cohort.tensorflow.compression import Compression
from cohort.tensorflow.gradient_aggregation import LocalGradientAggregationHelper
from cohort.tensorflow.gradients import Exchange, Groups, reduce_but_local, reduce_gradients
from cohort.tensorflow.mpi_ops import Adasum, Average
from cohort.tensorflow.util import _executing_eagerly, key_of, unzip

_LegacyOptimizer: Any = tf.compat.v1.train.Optimizer


class _DistributedOptimizer(tf.compat.v1.train.Optimizer):  # type: ignore[misc]
    """Computes the gradients of another optimizer, combines them over the ranks, and lets that one apply them."""

    def __init__(self, optimizer: Any, exchange: Exchange, use_locking: bool, backward_passes_per_step: int,
                 average_aggregated_gradients: bool) -> None:  # fmt: skip
        super().__init__(name=exchange.name, use_locking=use_locking)
        self._optimizer = optimizer
        self._exchange = exchange
        self._local_vars: Set[Any] = set()
        self._agg_helper: Optional[LocalGradientAggregationHelper] = None
        if backward_passes_per_step > 1:
            if _executing_eagerly():
                raise ValueError("backward_passes_per_step > 1 with an optimizer of TensorFlow 1 needs a graph: "
                                 "use a Keras optimizer in eager execution")  # fmt: skip
            self._agg_helper = LocalGradientAggregationHelper(
                backward_passes_per_step, lambda grads, variables: reduce_gradients(exchange, grads, variables),
                exchange.sparse_as_dense, average_aggregated_gradients, process_set=exchange.process_set,
                optimizer_type=LocalGradientAggregationHelper._OPTIMIZER_TYPE_LEGACY,
                scale_local_gradients=exchange.scale_local_gradients, name=exchange.name)  # fmt: skip

    def register_local_var(self, var: Any) -> None:
        """The gradient of this variable stays this rank's own."""
        if self._agg_helper:
            self._agg_helper.register_local_var(var)
        else:
            self._local_vars.add(key_of(var))

    def compute_gradients(self, *args: Any, **kwargs: Any) -> List[Any]:
        grads, variables = unzip(self._optimizer.compute_gradients(*args, **kwargs))
        if self._agg_helper:
            reduced = self._agg_helper.compute_gradients(grads, variables)
        else:
            reduced = reduce_but_local(self._exchange, grads, variables, self._local_vars)
        return list(zip(reduced, variables))

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: Optional[str] = None) -> Any:
        pairs = list(grads_and_vars)

        def apply() -> Any:
            return self._optimizer.apply_gradients(pairs, global_step=global_step, name=name)

        if self._agg_helper:
            return self._agg_helper.apply_gradients(apply, self._optimizer, pairs, global_step=global_step)
        return apply()

    def get_slot(self, *args: Any, **kwargs: Any) -> Any:
        return self._optimizer.get_slot(*args, **kwargs)

    def get_slot_names(self, *args: Any, **kwargs: Any) -> Any:
        return self._optimizer.get_slot_names(*args, **kwargs)

    def variables(self, *args: Any, **kwargs: Any) -> Any:
        return self._optimizer.variables(*args, **kwargs)


class _DistributedAdasumOptimizer(tf.compat.v1.train.Optimizer):  # type: ignore[misc]
    """Lets another optimizer update the variables, and every `backward_passes_per_step` updates combines, with Adasum,
    by how much they changed."""

    def __init__(self, optimizer: Any, name: str, use_locking: bool, device_dense: str, device_sparse: str,
                 compression: Any, backward_passes_per_step: int) -> None:  # fmt: skip
        super().__init__(name=name, use_locking=use_locking)
        self._optimizer = optimizer
        self._reduce = {"device_dense": device_dense, "device_sparse": device_sparse, "compression": compression}
        self._passes = backward_passes_per_step
        self._starts: List[Any] = []
        self._count: Any = None

    def compute_gradients(self, *args: Any, **kwargs: Any) -> Any:
        return self._optimizer.compute_gradients(*args, **kwargs)

    def _make_variables(self, variables: List[Any]) -> None:
        if self._count is None:
            with tf.init_scope() if tf.inside_function() else tf.name_scope("adasum"):
                self._count = tf.Variable(0, trainable=False, dtype=tf.int64, name="adasum_count")
                self._starts = [tf.Variable(tf.zeros(variable.shape, variable.dtype), trainable=False,
                                            name="adasum_start") for variable in variables]  # fmt: skip

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: Optional[str] = None) -> Any:
        pairs = list(grads_and_vars)
        variables = [variable for grad, variable in pairs if grad is not None]
        self._make_variables(variables)
        first = tf.equal(self._count.read_value(), 0)
        started = [start.assign(tf.where(first, variable, start)) for variable, start in zip(variables, self._starts)]
        with tf.control_dependencies([] if _executing_eagerly() else started):
            applied = self._optimizer.apply_gradients(pairs, global_step=global_step, name=name)

        def combine() -> Any:
            deltas = [allreduce(variable.read_value() - start, op=Adasum, **self._reduce)
                      for variable, start in zip(variables, self._starts)]  # fmt: skip
            moved = [start.assign_add(delta) for start, delta in zip(self._starts, deltas)]
            written = [variable.assign(value) for variable, value in zip(variables, moved)]
            with tf.control_dependencies([] if _executing_eagerly() else written):
                return tf.constant(0)

        if _executing_eagerly():
            if int(self._count.assign_add(1)) % self._passes == 0:
                combine()
            return None
        with tf.control_dependencies([applied]):
            count = self._count.assign_add(1)
            return tf.group(tf.cond(tf.equal(count % self._passes, 0), combine, lambda: tf.constant(0)))

    def get_slot(self, *args: Any, **kwargs: Any) -> Any:
        return self._optimizer.get_slot(*args, **kwargs)

    def get_slot_names(self, *args: Any, **kwargs: Any) -> Any:
        return self._optimizer.get_slot_names(*args, **kwargs)

    def variables(self, *args: Any, **kwargs: Any) -> Any:
        return self._optimizer.variables(*args, **kwargs)


def DistributedOptimizer(optimizer: Any, name: Optional[str] = None, use_locking: bool = False, device_dense: str = "",
                         device_sparse: str = "", compression: Any = Compression.none, sparse_as_dense: bool = False,
                         backward_passes_per_step: int = 1, op: int = Average, gradient_predivide_factor: float = 1.0,
                         average_aggregated_gradients: bool = False, num_groups: int = 0, groups: Groups = None,
                         process_set: ProcessSet = global_process_set,
                         scale_local_gradients: bool = True) -> Any:  # fmt: skip
    """An optimizer as `optimizer` that combines gradients over the ranks before it applies them.

    optimizer: of tf.compat.v1.train, of Keras 2 (tf.keras, tf_keras, also the legacy ones) or of Keras 3.
    backward_passes_per_step: so many gradients are added up before they are combined and applied;
    average_aggregated_gradients divides the sum by their number.
    """
    exchange = Exchange(name or f"Distributed{type(optimizer).__name__}", device_dense, device_sparse, compression,
                        sparse_as_dense, op, gradient_predivide_factor, groups, process_set,
                        scale_local_gradients).checked(num_groups)  # fmt: skip
    if op == Adasum and average_aggregated_gradients:
        raise ValueError("average_aggregated_gradients does not go with op=Adasum")
    if isinstance(optimizer, _LegacyOptimizer):
        if op == Adasum:
            if process_set.process_set_id != 0:
                raise NotImplementedError("Adasum combines all ranks: process sets are not supported with it")
            return _DistributedAdasumOptimizer(
                optimizer, name or f"DistributedDelta{type(optimizer).__name__}", use_locking, device_dense,
                device_sparse, compression, backward_passes_per_step)  # fmt: skip
        return _DistributedOptimizer(optimizer, exchange, use_locking, backward_passes_per_step,
                                     average_aggregated_gradients)  # fmt: skip
    from cohort import _keras

    if not _keras.is_optimizer(optimizer):
        raise ValueError(f"{optimizer!r} is neither an optimizer of tf.compat.v1.train nor one of Keras")
    return _keras.distribute(optimizer, exchange, name, backward_passes_per_step, average_aggregated_gradients)
