"""Horovod's API for TensorFlow's Keras: `import cohort.tensorflow.keras as hvd`."""

# mypy: ignore-errors
import tensorflow as tf
from tensorflow import keras

from cohort import _keras as _impl
from cohort import tensorflow as _tf
from cohort.tensorflow import (  # noqa: F401
    Average, Sum, ccl_built, cross_rank, cross_size, cuda_built, ddl_built, gloo_built, gloo_enabled, init,
    is_initialized, local_rank, local_size, mpi_built, mpi_enabled, mpi_threads_supported, nccl_built, rank, rocm_built,
    shutdown, size, start_timeline, stop_timeline,
)  # fmt: skip
from cohort.tensorflow.compression import Compression
from cohort.tensorflow.gradients import Exchange
from cohort.tensorflow.hooks import broadcast_global_variables as _broadcast_global_variables
from cohort.tensorflow.keras import callbacks, elastic  # noqa: F401
from cohort.tensorflow.mpi_ops import (  # noqa: F401
    ProcessSet, add_process_set, global_process_set, remove_process_set,
)  # fmt: skip


def DistributedOptimizer(optimizer, name=None, device_dense="", device_sparse="", compression=Compression.none,
                         sparse_as_dense=False, gradient_predivide_factor=1.0, op=Average, backward_passes_per_step=1,
                         average_aggregated_gradients=False, num_groups=0, groups=None, process_set=global_process_set,
                         scale_local_gradients=True):  # fmt: skip
    """An optimizer as `optimizer`, of Keras 2 or 3, that combines gradients over the ranks before it applies them."""
    _impl.check_op(op)
    return _tf.DistributedOptimizer(
        optimizer, name, False, device_dense, device_sparse, compression, sparse_as_dense, backward_passes_per_step, op,
        gradient_predivide_factor, average_aggregated_gradients, num_groups, groups, process_set,
        scale_local_gradients)  # fmt: skip


def _evaluate(result):
    return result if tf.executing_eagerly() else tf.compat.v1.keras.backend.get_session().run(result)


def broadcast_global_variables(root_rank):
    """Gives all global variables of a graph of TensorFlow 1 the values of rank `root_rank`."""
    return _evaluate(_broadcast_global_variables(root_rank))


def allreduce(value, name=None, average=None, prescale_factor=1.0, postscale_factor=1.0, op=None,
              compression=Compression.none):  # fmt: skip
    """The combination (average) of a number or tensor over the ranks."""
    return _evaluate(_tf.allreduce(tf.constant(value, name=name), average=average, prescale_factor=prescale_factor,
                                   postscale_factor=postscale_factor, op=op, compression=compression,
                                   name=name))  # fmt: skip


def allgather(value, name=None):
    """The values of all ranks, concatenated by the first dimension."""
    return _evaluate(_tf.allgather(tf.constant(value, name=name), name=name))


def broadcast(value, root_rank, name=None):
    """The value of rank `root_rank`."""
    return _evaluate(_tf.broadcast(tf.constant(value, name=name), root_rank, name=name))


def reducescatter(value, name=None, op=Average):
    """This rank's part of the combination of the values."""
    return _evaluate(_tf.reducescatter(tf.constant(value, name=name), op=op, name=name))


def load_model(filepath, custom_optimizers=None, custom_objects=None, compression=Compression.none, legacy_opts=False):
    """A saved model whose optimizer exchanges gradients. `legacy_opts` is accepted: what was saved is loaded."""
    return _impl.load_model(keras, Exchange("DistributedOptimizer", compression=compression), filepath,
                            custom_optimizers, custom_objects)  # fmt: skip
