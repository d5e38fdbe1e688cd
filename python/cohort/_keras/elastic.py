"""What Keras 2 and Keras 3, on any backend, share in elastic training: the state of a model, and callbacks."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

import numpy

from cohort.common.basics import rank
from cohort.common.elastic import ObjectState
from cohort.common.objects import broadcast_object


def is_built(model: Any) -> bool:
    return bool(getattr(model, "built", True))


def variables_of(thing: Any) -> List[Any]:
    """Of a model or an optimizer; `variables` is a method in optimizers of older versions."""
    variables = thing.variables
    return list(variables() if callable(variables) else variables)


def build_optimizer(optimizer: Any, model: Any) -> None:
    """Makes the variables of an optimizer that has not stepped yet, so that it can take over those of another."""
    if getattr(optimizer, "built", False) or not model.trainable_variables:
        return
    for build in ("build", "_create_all_weights"):
        if hasattr(optimizer, build):
            getattr(optimizer, build)(model.trainable_variables)
            return


def values_of(variables: List[Any]) -> List[numpy.ndarray]:
    """Copies."""
    return [numpy.array(_as_array(variable)) for variable in variables]


def _as_array(variable: Any) -> Any:
    if not hasattr(variable, "numpy"):
        return variable
    try:
        return variable.numpy()
    except (RuntimeError, TypeError):  # Keras 3 on torch: the tensor needs a gradient, or is not in host memory
        return variable.value.detach().cpu().numpy()


def assign(variables: List[Any], values: List[numpy.ndarray]) -> None:
    for variable, value in zip(variables, values):
        variable.assign(value)


class ModelState(ObjectState):
    """The state of a Keras model, its optimizer, and further objects by name.

    Args:
        model: must be built.
        optimizer: the model's own when None.
        backend: not used; scripts for TensorFlow 1 give it.
        kwargs: picklable objects; each becomes an attribute.
    """

    def __init__(self, model: Any, optimizer: Any = None, backend: Any = None, **kwargs: Any) -> None:
        if not is_built(model):
            raise ValueError("the model has no weights yet. Call model.build(input_shape), or give it a first batch")
        self.model = model
        self.optimizer = optimizer or getattr(model, "optimizer", None)
        self.backend = backend
        if self.optimizer is not None:
            build_optimizer(self.optimizer, model)
        self._save_model()
        super().__init__(bcast_object=broadcast_object, get_rank=rank, **kwargs)

    def save(self) -> None:
        self._save_model()
        super().save()

    def restore(self) -> None:
        self._load_model()
        super().restore()

    def sync(self) -> None:
        values = broadcast_object([values_of(variables) for variables in self._variables()], root_rank=0)
        super().sync()
        # Not before all is there: a worker that is lost meanwhile must leave the last commit as it is.
        self._saved_model_state, self._saved_optimizer_state = values
        self._load_model()

    def _variables(self) -> List[List[Any]]:
        return [variables_of(thing) if thing is not None else [] for thing in (self.model, self.optimizer)]

    def _save_model(self) -> None:
        saved = [values_of(variables) for variables in self._variables()]
        self._saved_model_state, self._saved_optimizer_state = saved

    def _load_model(self) -> None:
        for variables, values in zip(self._variables(), (self._saved_model_state, self._saved_optimizer_state)):
            assign(variables, values)


class CommitStateCallbackImpl:
    """Commits `state` after every `batches_per_commit` batches, and after each epoch."""

    def __init__(self, backend: Any, state: Any, batches_per_commit: int, *args: Any) -> None:
        super().__init__(*args)
        self.backend = backend
        self.state = state
        self.batches_per_commit = batches_per_commit
        self.batches_remaining = batches_per_commit

    def on_train_begin(self, logs: Optional[Dict[str, Any]] = None) -> None:
        # All ranks, newcomers too, count from here.
        self.batches_remaining = self.batches_per_commit

    def on_batch_end(self, batch: int, logs: Optional[Dict[str, Any]] = None) -> None:
        self.batches_remaining -= 1
        if self.batches_remaining == 0:
            self.batches_remaining = self.batches_per_commit
            self.commit()

    def on_epoch_end(self, epoch: int, logs: Optional[Dict[str, Any]] = None) -> None:
        self.commit()

    def commit(self) -> None:
        self.state.commit()


class UpdateBatchStateCallbackImpl:
    """Keeps `state.batch`: the last batch of the epoch that was done; an epoch that goes on has fewer steps."""

    params: Dict[str, Any]

    def __init__(self, backend: Any, state: Any, *args: Any) -> None:
        super().__init__(*args)
        self.backend = backend
        self.state = state
        self.steps_per_epoch: Optional[int] = None

    def on_train_begin(self, logs: Optional[Dict[str, Any]] = None) -> None:
        self.steps_per_epoch = None

    def on_epoch_begin(self, epoch: int, logs: Optional[Dict[str, Any]] = None) -> None:
        steps = self.params.get("steps")
        if steps:
            self.steps_per_epoch = self.steps_per_epoch or steps
            self.params["steps"] = self.steps_per_epoch - self.state.batch

    def on_batch_end(self, batch: int, logs: Optional[Dict[str, Any]] = None) -> None:
        self.state.batch = batch

    def on_epoch_end(self, epoch: int, logs: Optional[Dict[str, Any]] = None) -> None:
        self.state.batch = 0


class UpdateEpochStateCallbackImpl:
    """Keeps `state.epoch`: how many epochs are done, in all calls of fit() together."""

    def __init__(self, backend: Any, state: Any, *args: Any) -> None:
        super().__init__(*args)
        self.backend = backend
        self.state = state
        self.initial_epoch = state.epoch

    def on_train_begin(self, logs: Optional[Dict[str, Any]] = None) -> None:
        self.initial_epoch = self.state.epoch

    def on_epoch_end(self, epoch: int, logs: Optional[Dict[str, Any]] = None) -> None:
        # Keras counts from 0 in every call of fit().
        self.state.epoch = self.initial_epoch + epoch + 1
