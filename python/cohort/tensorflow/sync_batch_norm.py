"""Batch normalization with the mean and variance over the batches of all ranks."""

from __future__ import annotations

from typing import Any, Tuple

import tensorflow as tf

from cohort.tensorflow.mpi_ops import Average, _grouped_allreduce, size
from cohort.tensorflow.util import is_elastic


class SyncBatchNormalization(tf.keras.layers.BatchNormalization):  # type: ignore[misc]
    """tf.keras.layers.BatchNormalization whose statistics in training are those of all ranks' batches together."""

    def __init__(self, fused: bool = False, **kwargs: Any) -> None:
        if fused in (True, None):
            raise ValueError("SyncBatchNormalization does not support fused=True: it computes the statistics itself")
        if not kwargs.get("name"):
            kwargs["name"] = "sync_batch_normalization"
        if _is_keras_2():
            kwargs["fused"] = fused
        super().__init__(**kwargs)

    def _combined(self, mean: Any, variance: Any) -> Tuple[Any, Any]:
        """From this rank's mean and variance: E[x^2] - E[x]^2 over all, each rank's batch with the same weight."""
        if size() == 1 and not is_elastic():
            return mean, variance
        dtype = mean.dtype
        if dtype in (tf.float16, tf.bfloat16):
            mean, variance = tf.cast(mean, tf.float32), tf.cast(variance, tf.float32)
        square = variance + tf.square(mean)
        # An average, not a sum over a number of ranks that the graph would keep: elastic jobs change it.
        mean, square = _grouped_allreduce([mean, square], op=Average, name=f"SyncBatchNormalization_{self.name}")
        return tf.cast(mean, dtype), tf.cast(square - tf.square(mean), dtype)

    def _moments(self, inputs: Any, *args: Any, **kwargs: Any) -> Tuple[Any, Any]:
        """Keras 2 and Keras 3 both compute the statistics of a training batch here."""
        mean, variance = super()._moments(inputs, *args, **kwargs)
        return self._combined(mean, variance)


def _is_keras_2() -> bool:
    return not hasattr(tf.keras, "ops")
