"""Elastic training in Keras 2 or 3, whichever `import keras` finds, on TensorFlow or torch. See cohort.common.elastic."""

from __future__ import annotations

from typing import Any

import keras

from cohort._keras import elastic as _impl
from cohort._keras.elastic import ModelState as TensorFlowKerasState

if getattr(keras.backend, "backend", lambda: "tensorflow")() == "tensorflow":
    from cohort.tensorflow.elastic import run
else:
    from cohort.torch.elastic import run

__all__ = ["CommitStateCallback", "KerasState", "UpdateBatchStateCallback", "UpdateEpochStateCallback", "run"]


class KerasState(TensorFlowKerasState):
    """A model, its optimizer, and further objects by name.

    Args:
        model: must be built.
        optimizer: the model's own when None.
        kwargs: picklable objects, such as batch=0 and epoch=0; each becomes an attribute.
    """

    def __init__(self, model: Any, optimizer: Any = None, **kwargs: Any) -> None:
        super().__init__(model, optimizer=optimizer, backend=keras.backend, **kwargs)


class CommitStateCallback(_impl.CommitStateCallbackImpl, keras.callbacks.Callback):
    """Commits `state` after every `batches_per_commit` batches, and after each epoch.

    Frequent commits cost time, rare ones cost what is done again when a worker is lost.
    """

    def __init__(self, state: Any, batches_per_commit: int = 1) -> None:
        super().__init__(keras.backend, state, batches_per_commit)


class UpdateBatchStateCallback(_impl.UpdateBatchStateCallbackImpl, keras.callbacks.Callback):
    """Keeps `state.batch`, which is 0 at the end of an epoch."""

    def __init__(self, state: Any) -> None:
        super().__init__(keras.backend, state)


class UpdateEpochStateCallback(_impl.UpdateEpochStateCallbackImpl, keras.callbacks.Callback):
    """Keeps `state.epoch`, the number of epochs that are done, over all calls of fit()."""

    def __init__(self, state: Any) -> None:
        super().__init__(keras.backend, state)
