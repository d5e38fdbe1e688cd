"""backward_passes_per_step: gradients are added up locally and exchanged every so many passes."""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Sequence, Set

import tensorflow as tf

from cohort.common.process_sets import ProcessSet, global_process_set
from cohort.tensorflow.gradients import Exchange, scale_local
from cohort.tensorflow.util import _executing_eagerly, key_of


class LocalGradientAggregationHelper:
    """Adds up gradients, and every `backward_passes_per_step` calls exchanges the sums with `allreduce_func`.

    Works in eager execution, in a tf.function and in graphs of TensorFlow 1; `counter` is how many passes are in
    the sums. One helper serves one list of variables.
    """

    _OPTIMIZER_TYPE_KERAS = "optimizer_type_keras"
    _OPTIMIZER_TYPE_LEGACY = "optimizer_type_legacy"

    def __init__(self, backward_passes_per_step: int, allreduce_func: Callable[..., List[Any]], sparse_as_dense: bool,
                 average_aggregated_gradients: bool = False, rank: int = 0,
                 optimizer_type: str = _OPTIMIZER_TYPE_KERAS, process_set: ProcessSet = global_process_set,
                 scale_local_gradients: bool = True, name: str = "") -> None:  # fmt: skip
        if backward_passes_per_step < 1:
            raise ValueError(f"backward_passes_per_step is {backward_passes_per_step}: give 1 or more")
        self.backward_passes_per_step = backward_passes_per_step
        self.average_aggregated_gradients = average_aggregated_gradients
        self.sparse_as_dense = sparse_as_dense
        self.counter: Any = None
        self._allreduce_func = allreduce_func
        self._exchange = Exchange(name or "aggregation", process_set=process_set,
                                  scale_local_gradients=scale_local_gradients)  # fmt: skip
        self._local_vars: Set[Any] = set()
        self._sums: List[Optional[Any]] = []

    def register_local_var(self, var: Any) -> None:
        """The gradient of this variable stays this rank's own."""
        self._local_vars.add(key_of(var))

    def _make_variables(self, grads: Sequence[Any]) -> None:
        if self.counter is not None:
            if len(self._sums) != len(grads):
                raise ValueError(f"gradients of {len(grads)} variables after gradients of {len(self._sums)}: "
                                 "backward_passes_per_step needs the same variables every time")  # fmt: skip
            return
        with tf.init_scope() if _in_function() else tf.name_scope("cohort_aggregation"):
            self.counter = tf.Variable(0, trainable=False, dtype=tf.int32, name="aggregation_counter")
            self._sums = [
                None if grad is None else
                tf.Variable(tf.zeros(grad.shape, grad.dtype), trainable=False, name=f"aggregated_gradient_{place}")
                for place, grad in enumerate(grads)
            ]  # fmt: skip

    def _dense(self, grads: Sequence[Any]) -> List[Any]:
        if not self.sparse_as_dense and any(isinstance(grad, tf.IndexedSlices) for grad in grads):
            raise ValueError("backward_passes_per_step > 1 adds gradients up, which tf.IndexedSlices cannot be: "
                             "give sparse_as_dense=True")  # fmt: skip
        return [tf.convert_to_tensor(grad) if isinstance(grad, tf.IndexedSlices) else grad for grad in grads]

    def _exchanged(self, sums: Sequence[Any], variables: Sequence[Any]) -> List[Any]:
        places = [place for place, variable in enumerate(variables) if key_of(variable) not in self._local_vars]
        results = list(sums)
        reduced = self._allreduce_func([sums[place] for place in places], [variables[place] for place in places])
        for place, result in zip(places, reduced):
            results[place] = result
        results = scale_local(self._exchange, results, variables, self._local_vars)
        if self.average_aggregated_gradients:
            results = [None if grad is None else grad / self.backward_passes_per_step for grad in results]
        return results

    def compute_gradients(self, grads: Sequence[Any], vars: Sequence[Any]) -> List[Any]:
        """Adds these gradients. In the pass that completes a step the exchanged sums, else the sums so far, which
        apply_gradients does not apply."""
        grads = self._dense(grads)
        self._make_variables(grads)
        present = [place for place, grad in enumerate(grads) if grad is not None]
        added = [self._sums[place].assign_add(grads[place]) for place in present]  # type: ignore[union-attr]
        with tf.control_dependencies([] if _executing_eagerly() else added):
            passes = self.counter.assign_add(1)

        def complete() -> List[Any]:
            sums: List[Any] = [None] * len(grads)
            for place, value in zip(present, self._read(added)):
                sums[place] = value
            results = self._exchanged(sums, vars)
            with tf.control_dependencies([] if _executing_eagerly() else [results[place] for place in present]):
                cleared = [self.counter.assign(0)]
                for place in present:
                    total: Any = self._sums[place]
                    cleared.append(total.assign(tf.zeros_like(total)))
            with tf.control_dependencies([] if _executing_eagerly() else cleared):
                return [tf.identity(results[place]) for place in present]

        def wait() -> List[Any]:
            return [tf.identity(value) for value in self._read(added)]

        due = tf.equal(passes, self.backward_passes_per_step)
        if _executing_eagerly():
            values = complete() if bool(due) else wait()
        else:
            values = tf.cond(due, complete, wait)
        results: List[Any] = [None] * len(grads)
        for place, value in zip(present, values):
            results[place] = value
        return results

    @staticmethod
    def _read(added: Sequence[Any]) -> List[Any]:
        return [tf.convert_to_tensor(value) for value in added]

    def apply_gradients(self, apply_grads_closure: Callable[[], Any], optimizer: Any, *args: Any,
                        **kwargs: Any) -> Any:  # fmt: skip
        """Calls the closure in the pass that completed a step; in others only counts an iteration."""
        gradients = [grad for grad, _ in (list(args[0]) if args else kwargs["grads_and_vars"]) if grad is not None]

        def skip() -> Any:
            iterations = getattr(optimizer, "iterations", None)
            step = kwargs.get("global_step")
            counted = step if step is not None else iterations
            if counted is None:
                return tf.no_op()
            return counted.assign_add(1)

        if _executing_eagerly():
            return apply_grads_closure() if int(self.counter) == 0 else skip()

        def apply() -> Any:
            apply_grads_closure()
            return tf.constant(0)

        def count() -> Any:
            skip()
            return tf.constant(0)

        with tf.control_dependencies(gradients):
            done = tf.cond(tf.equal(self.counter.read_value(), 0), _with_effects(apply), _with_effects(count))
        return tf.group(done)


def _with_effects(function: Callable[[], Any]) -> Callable[[], Any]:
    """For branches of graphs of TensorFlow 1, where what is done must be a dependency of what is returned."""

    def branch() -> Any:
        graph = tf.compat.v1.get_default_graph()
        before = len(graph.get_operations())
        value = function()
        made = [op for op in graph.get_operations()[before:] if not op.outputs or op.op_def.is_stateful]
        with tf.control_dependencies([op for op in made if op.type not in ("Placeholder", "VarHandleOp")]):
            return tf.identity(value)

    return branch


def _in_function() -> bool:
    return not _executing_eagerly() and tf.inside_function()
