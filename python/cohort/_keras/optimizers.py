"""Distributed optimizers: what is put in front of a Keras optimizer's own methods."""

from __future__ import annotations

from typing import Any, List, NamedTuple, Sequence, Set


class Settings(NamedTuple):
    exchange: Any  # cohort.tensorflow.gradients.Exchange, or TorchExchange
    backend: str  # "tensorflow" or "torch"
    backward_passes_per_step: int
    average_aggregated_gradients: bool


class Distributed:
    """State of a distributed optimizer, beside Keras's own, which tracks and saves attributes."""

    _settings: Settings

    def _state(self, name: str, make: Any) -> Any:
        state = self.__dict__.setdefault("_cohort_state", {})
        if name not in state:
            state[name] = make()
        return state[name]

    @property
    def _local_vars(self) -> Set[Any]:
        local: Set[Any] = self._state("local_vars", set)
        return local

    @property
    def process_set(self) -> Any:
        return self._settings.exchange.process_set

    @property
    def _agg_helper(self) -> Any:
        """Adds up gradients over backward_passes_per_step; None for one pass a step."""
        if self._settings.backward_passes_per_step <= 1:
            return None
        return self._state("helper", self._make_helper)

    def _make_helper(self) -> Any:
        settings = self._settings
        if settings.backend == "torch":
            from cohort._keras.torch_exchange import AggregationHelper

            return AggregationHelper(settings, self._reduce)
        from cohort.tensorflow.gradient_aggregation import LocalGradientAggregationHelper

        exchange = settings.exchange
        return LocalGradientAggregationHelper(
            settings.backward_passes_per_step, self._reduce, exchange.sparse_as_dense,
            settings.average_aggregated_gradients, process_set=exchange.process_set,
            scale_local_gradients=exchange.scale_local_gradients, name=exchange.name)  # fmt: skip

    def register_local_var(self, var: Any) -> None:
        """The gradient of this variable stays this rank's own."""
        if self._agg_helper is not None:
            self._agg_helper.register_local_var(var)
        else:
            self._local_vars.add(self._key_of(var))

    def _key_of(self, variable: Any) -> Any:
        if self._settings.backend == "torch":
            return id(variable)
        from cohort.tensorflow.util import key_of

        return key_of(variable)

    def _reduce(self, grads: Sequence[Any], variables: Sequence[Any]) -> List[Any]:
        settings = self._settings
        if settings.backend == "torch":
            reduced: List[Any] = settings.exchange.reduce(grads, variables, self._local_vars)
            return reduced
        from cohort.tensorflow.gradients import is_exchanged, reduce_but_local

        results = list(grads)
        places = [place for place, grad in enumerate(grads) if not is_exchanged(grad, self.process_set)]
        reduced = reduce_but_local(settings.exchange, [grads[place] for place in places],
                                   [variables[place] for place in places], self._local_vars)  # fmt: skip
        for place, result in zip(places, reduced):
            results[place] = result
        return results

    def _allreduce(self, grads: Sequence[Any], variables: Sequence[Any]) -> List[Any]:
        """The gradients to apply; with backward_passes_per_step those that are not applied, most of the time."""
        helper = self._agg_helper
        return helper.compute_gradients(grads, variables) if helper is not None else self._reduce(grads, variables)


class DistributedKeras2(Distributed):
    """minimize() computes gradients, then applies them: they are exchanged in between, once. Gradients that were
    computed elsewhere are exchanged when they are applied, but not those that a DistributedGradientTape gave, which
    are exchanged already. What is computed from these (clipped, say) counts as computed elsewhere."""

    def _exchanged_pairs(self, grads_and_vars: Any) -> Any:
        pairs = list(grads_and_vars)
        reduced = self._allreduce([grad for grad, _ in pairs], [variable for _, variable in pairs])
        self.__dict__["_exchanged"] = True
        return [(grad, variable) for grad, (_, variable) in zip(reduced, pairs)]

    def _compute_gradients(self, loss: Any, var_list: Any, grad_loss: Any = None, tape: Any = None) -> Any:
        """Of the legacy optimizers. The others have compute_gradients instead; programs call it by either name."""
        base: Any = super()
        if not hasattr(base, "_compute_gradients"):
            if grad_loss is not None:
                raise ValueError(f"{type(self).__name__} takes no grad_loss: the legacy optimizers of Keras 2 do")
            return self.compute_gradients(loss, var_list, tape=tape)
        return self._exchanged_pairs(base._compute_gradients(loss, var_list, grad_loss, tape))

    def compute_gradients(self, *args: Any, **kwargs: Any) -> Any:
        return self._exchanged_pairs(super().compute_gradients(*args, **kwargs))  # type: ignore[misc]

    def get_gradients(self, loss: Any, params: Any) -> Any:
        """Of graphs of TensorFlow 1."""
        grads = super().get_gradients(loss, params)  # type: ignore[misc]
        return [grad for grad, _ in self._exchanged_pairs(zip(grads, params))]

    def apply_gradients(self, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
        pairs = list(grads_and_vars)
        if not self.__dict__.pop("_exchanged", False):
            pairs = self._exchanged_pairs(pairs)
            self.__dict__.pop("_exchanged")

        def apply() -> Any:
            return super(DistributedKeras2, self).apply_gradients(pairs, *args, **kwargs)  # type: ignore[misc]

        helper = self._agg_helper
        if helper is None:
            return apply()
        self._build_for([variable for _, variable in pairs])
        return helper.apply_gradients(apply, self, pairs)

    def _build_for(self, variables: List[Any]) -> None:
        """Makes the optimizer's variables, which must not happen in a branch of a graph."""
        import tensorflow as tf

        with tf.init_scope():
            if hasattr(self, "_create_all_weights"):
                self._create_all_weights(variables)
            else:
                self.build(variables)  # type: ignore[attr-defined]


class DistributedKeras3(Distributed):
    """Trainers call apply_gradients or apply, and the first calls the second: gradients are exchanged there."""

    def apply(self, grads: Any, trainable_variables: Any = None) -> Any:
        grads = list(grads)
        known: Any = getattr(self, "_trainable_variables", ())
        variables = list(known if trainable_variables is None else trainable_variables)
        reduced = self._allreduce(grads, variables)

        def apply() -> Any:
            return super(DistributedKeras3, self).apply(reduced, trainable_variables)  # type: ignore[misc]

        helper = self._agg_helper
        if helper is None:
            return apply()
        if not self.built:  # type: ignore[has-type]
            self.build(variables)  # type: ignore[attr-defined]
            self.built = True
        return helper.apply_gradients(apply, self, list(zip(reduced, variables)))
