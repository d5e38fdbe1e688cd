"""Callbacks of the Keras that `import keras` finds, on TensorFlow or torch."""

# mypy: ignore-errors
from __future__ import annotations

import keras

from cohort._keras import callbacks as _impl


class BroadcastGlobalVariablesCallback(_impl.BroadcastGlobalVariablesCallbackImpl, keras.callbacks.Callback):
    """Gives all variables the values of rank `root_rank` after the first batch, but `local_variables`."""

    def __init__(self, root_rank, device="", local_variables=None):
        super().__init__(keras.backend, root_rank, device, local_variables)


class MetricAverageCallback(_impl.MetricAverageCallbackImpl, keras.callbacks.Callback):
    """Averages metrics over the ranks at the end of every epoch. Put it before callbacks that read them."""

    def __init__(self, device=""):
        super().__init__(keras.backend, device)


class LearningRateScheduleCallback(_impl.LearningRateScheduleCallbackImpl, keras.callbacks.Callback):
    """Multiplies `initial_lr` by `multiplier` in some epochs: a function of the epoch, or a number, which stands for
    its power of epoch - start_epoch."""

    def __init__(self, initial_lr, multiplier, start_epoch=0, end_epoch=None, staircase=True, momentum_correction=True,
                 steps_per_epoch=None):  # fmt: skip
        super().__init__(keras.backend, initial_lr, multiplier, start_epoch, end_epoch, staircase, momentum_correction,
                         steps_per_epoch)  # fmt: skip


class LearningRateWarmupCallback(_impl.LearningRateWarmupCallbackImpl, keras.callbacks.Callback):
    """Raises the learning rate from initial_lr / size to `initial_lr` over `warmup_epochs`."""

    def __init__(self, initial_lr, warmup_epochs=5, momentum_correction=True, steps_per_epoch=None, verbose=0):
        super().__init__(keras.backend, initial_lr, warmup_epochs, momentum_correction, steps_per_epoch, verbose)


class BestModelCheckpoint(keras.callbacks.ModelCheckpoint):
    """Keeps the best model. Set `filepath` before training."""

    def __init__(self, monitor="val_loss", verbose=0, mode="auto", save_freq="epoch"):
        super().__init__(filepath=_impl.checkpoint_path(keras, False), monitor=monitor, verbose=verbose,
                         save_best_only=True, save_weights_only=False, mode=mode, save_freq=save_freq)  # fmt: skip
