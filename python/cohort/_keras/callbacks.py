"""The callbacks, for any Keras: the packages derive classes from these and their Keras's Callback."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Union

import numpy as np

from cohort.common import arrays
from cohort.common.basics import Average, rank, size


def _array(value: Any) -> np.ndarray[Any, Any]:
    """Of a variable, a tensor, a number or a list of numbers."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
    return np.asarray(value.numpy() if hasattr(value, "numpy") else value)


def _number(value: Any) -> float:
    return float(_array(value))


def _is_variable(value: Any) -> bool:
    return hasattr(value, "assign") and hasattr(value, "dtype")


def _variables(owner: Any) -> List[Any]:
    """Of a model or an optimizer, whose `variables` are a method in older versions."""
    found = getattr(owner, "variables", [])
    return list(found() if callable(found) else found)


class BroadcastGlobalVariablesCallbackImpl:
    """After the first batch, when all variables exist, gives them the values of rank `root_rank`."""

    model: Any

    def __init__(self, backend: Any, root_rank: int, device: str = "", local_variables: Any = None,
                 *args: Any) -> None:  # fmt: skip
        super().__init__(*args)
        self.root_rank = root_rank
        self.device = device
        self.broadcast_done = False
        self._local: Dict[Any, Any] = {}
        self._keras_backend = backend
        if local_variables is None:
            local_variables = ()
        elif _is_variable(local_variables):
            local_variables = (local_variables,)
        elif not hasattr(local_variables, "__iter__"):
            raise ValueError(f"local_variables must be variables, not {local_variables!r}")
        for variable in local_variables:
            self.register_local_var(variable)

    def register_local_var(self, var: Any) -> None:
        """This variable keeps the value that it has on this rank."""
        if not _is_variable(var):
            raise ValueError(f"local variables must be variables of TensorFlow or Keras, not {var!r}")
        self._local[self._key(var)] = var

    @staticmethod
    def _key(variable: Any) -> Any:
        if not hasattr(getattr(variable, "_value", variable), "ref"):  # Keras 3 on torch
            return id(variable)
        from cohort.tensorflow.util import key_of

        return key_of(variable)

    def on_batch_end(self, batch: int, logs: Any = None) -> None:
        if self.broadcast_done:
            return
        self.broadcast_done = True
        variables = [*_variables(self.model), *_variables(getattr(self.model, "optimizer", None))]
        chosen: Dict[Any, Any] = {self._key(variable): variable for variable in variables}
        self._broadcast([variable for key, variable in chosen.items() if key not in self._local])

    def _broadcast(self, variables: List[Any]) -> None:
        values = getattr(variables[0], "value", None) if variables else None
        if hasattr(values, "detach"):  # Keras 3 on torch
            from cohort.torch import broadcast_parameters

            tensors = [(str(place), variable.value.detach()) for place, variable in enumerate(variables)]
            broadcast_parameters(tensors, root_rank=self.root_rank)
            return
        import tensorflow as tf

        from cohort.tensorflow import broadcast_variables

        with tf.device(self.device):
            operation = broadcast_variables(variables, self.root_rank)
        if operation is not None:
            tf.compat.v1.keras.backend.get_session().run(operation)


class MetricAverageCallbackImpl:
    """At the end of an epoch replaces the metrics by their average over the ranks. Put it before callbacks that read
    them (ReduceLROnPlateau, TensorBoard, ...)."""

    def __init__(self, backend: Any = None, device: str = "", *args: Any) -> None:
        super().__init__(*args)

    def on_epoch_end(self, epoch: int, logs: Optional[Dict[str, Any]] = None) -> None:
        if not logs or size() == 1:
            return
        names = sorted(logs)
        values = [_array(logs[name]) for name in names]
        flat = np.concatenate([value.astype(np.float64).ravel() for value in values])
        averaged = arrays.allreduce(flat, name="MetricAverageCallback:" + ",".join(names), op=Average)
        ends = np.cumsum([value.size for value in values])
        for name, value, end in zip(names, values, ends):
            mean = averaged[end - value.size : end].reshape(value.shape)
            kind = value.dtype if np.issubdtype(value.dtype, np.floating) else np.float64
            logs[name] = mean.astype(kind) if value.ndim else float(mean)


class LearningRateScheduleCallbackImpl:
    """From `start_epoch` to before `end_epoch` the learning rate is initial_lr * multiplier(epoch): once an epoch
    (staircase), or every batch with a broken epoch. A number as the multiplier stands for its power of
    epoch - start_epoch. With momentum_correction an optimizer's momentum is scaled with the learning rate for the batch
    in which it changes."""

    model: Any
    params: Dict[str, Any]

    def __init__(self, backend: Any, initial_lr: float, multiplier: Union[float, Callable[[float], float]],
                 start_epoch: int = 0, end_epoch: Optional[int] = None, staircase: bool = True,
                 momentum_correction: bool = True, steps_per_epoch: Optional[int] = None,
                 *args: Any) -> None:  # fmt: skip
        super().__init__(*args)
        if initial_lr is None:
            raise ValueError("initial_lr is missing: give the learning rate that `multiplier` multiplies")
        self.initial_lr = initial_lr
        self.start_epoch = start_epoch
        self.end_epoch = end_epoch
        self.staircase = staircase
        self.momentum_correction = momentum_correction
        self.steps_per_epoch = steps_per_epoch
        self.current_epoch = 0
        self._momentum: Optional[float] = None
        if callable(multiplier):
            self.multiplier: Callable[[float], float] = multiplier
        else:
            base = float(multiplier)
            self.multiplier = lambda epoch: float(base ** (epoch - start_epoch))

    def _optimizer(self) -> Any:
        optimizer = self.model.optimizer
        return getattr(optimizer, "inner_optimizer", optimizer)

    def _learning_rate(self) -> float:
        optimizer = self._optimizer()
        return _number(optimizer.learning_rate if hasattr(optimizer, "learning_rate") else optimizer.lr)

    def _adjust(self, epoch: float) -> None:
        optimizer = self._optimizer()
        old = self._learning_rate()
        new = self.initial_lr * self.multiplier(epoch)
        optimizer.learning_rate = new
        momentum: Any = getattr(optimizer, "momentum", None)
        if self.momentum_correction and hasattr(momentum, "assign") and old > 0:
            self._momentum = _number(momentum)
            momentum.assign(self._momentum * new / old)

    def on_train_begin(self, logs: Any = None) -> None:
        if self.staircase or self.steps_per_epoch:
            return
        steps = self.params.get("steps")
        if not steps and self.params.get("samples") and self.params.get("batch_size"):
            steps = self.params["samples"] // self.params["batch_size"]
        if not steps:
            raise ValueError(f"{type(self).__name__} changes the learning rate every batch and cannot find out how "
                             "many an epoch has: give steps_per_epoch=...")  # fmt: skip
        self.steps_per_epoch = steps

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.current_epoch = epoch

    def on_batch_begin(self, batch: int, logs: Any = None) -> None:
        if self.current_epoch < self.start_epoch:
            return
        if self.end_epoch is not None and self.current_epoch >= self.end_epoch:
            return
        if self.staircase:
            if batch == 0:
                self._adjust(self.current_epoch)
        elif self.steps_per_epoch:
            self._adjust(self.current_epoch + float(batch) / self.steps_per_epoch)

    def on_batch_end(self, batch: int, logs: Any = None) -> None:
        if self._momentum is not None:
            self._optimizer().momentum.assign(self._momentum)
            self._momentum = None

    def on_epoch_end(self, epoch: int, logs: Optional[Dict[str, Any]] = None) -> None:
        if logs is not None:
            logs["lr"] = self._learning_rate()


class LearningRateWarmupCallbackImpl(LearningRateScheduleCallbackImpl):
    """Over `warmup_epochs` the learning rate rises from initial_lr / size to initial_lr, batch by batch."""

    def __init__(self, backend: Any, initial_lr: float, warmup_epochs: int = 5, momentum_correction: bool = True,
                 steps_per_epoch: Optional[int] = None, verbose: int = 0) -> None:  # fmt: skip
        def multiplier(epoch: float) -> float:
            # With one more batch, the last of an epoch has the whole number.
            done = epoch + 1.0 / (self.steps_per_epoch or 1)
            ranks = size()
            return (done * (ranks - 1) / warmup_epochs + 1) / ranks

        super().__init__(backend, initial_lr, multiplier, start_epoch=0, end_epoch=warmup_epochs, staircase=False,
                         momentum_correction=momentum_correction, steps_per_epoch=steps_per_epoch)  # fmt: skip
        self.verbose = verbose

    def on_epoch_end(self, epoch: int, logs: Optional[Dict[str, Any]] = None) -> None:
        super().on_epoch_end(epoch, logs)
        if self.end_epoch is not None and epoch == self.end_epoch - 1 and self.verbose > 0 and rank() == 0:
            print(f"\nEpoch {epoch + 1}: the learning rate has warmed up to {self._learning_rate():g}.")


def checkpoint_path(keras: Any, save_weights_only: bool) -> Optional[str]:
    """What ModelCheckpoint takes for a path that is set later: Keras 3 looks at how it ends."""
    if not hasattr(keras, "ops"):
        return None
    return "best.weights.h5" if save_weights_only else "best.keras"
