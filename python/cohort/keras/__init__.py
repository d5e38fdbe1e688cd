"""Horovod's API for Keras, 2 or 3, whichever `import keras` finds: `import cohort.keras as hvd`.

Keras 3 runs on TensorFlow or torch (KERAS_BACKEND); with torch, TensorFlow is not needed.
"""

# mypy: ignore-errors
import keras

from cohort import _keras as _impl
from cohort.common.basics import (  # noqa: F401
    Adasum, Average, Sum, ccl_built, cross_rank, cross_size, cuda_built, ddl_built, gloo_built, gloo_enabled, init,
    is_initialized, local_rank, local_size, mpi_built, mpi_enabled, mpi_threads_supported, nccl_built, rank, rocm_built,
    shutdown, size, start_timeline, stop_timeline,
)  # fmt: skip
from cohort.common.process_sets import (  # noqa: F401
    ProcessSet, add_process_set, global_process_set, remove_process_set,
)  # fmt: skip
from cohort.keras import callbacks, elastic  # noqa: F401

if getattr(keras.backend, "backend", lambda: "tensorflow")() == "torch":
    from cohort.keras import on_torch as _backend
    from cohort.torch.compression import Compression
else:
    from cohort.keras import on_tensorflow as _backend
    from cohort.tensorflow.compression import Compression


def DistributedOptimizer(optimizer, name=None, device_dense="", device_sparse="", compression=Compression.none,
                         sparse_as_dense=False, gradient_predivide_factor=1.0, op=Average, num_groups=0, groups=None,
                         *, backward_passes_per_step=1, average_aggregated_gradients=False,
                         process_set=global_process_set, scale_local_gradients=True):  # fmt: skip
    """An optimizer as `optimizer` that combines gradients over the ranks before it applies them."""
    exchange = _backend.exchange(
        optimizer, name=name, device_dense=device_dense, device_sparse=device_sparse, compression=compression,
        sparse_as_dense=sparse_as_dense, gradient_predivide_factor=gradient_predivide_factor, op=op, groups=groups,
        num_groups=num_groups, process_set=process_set, scale_local_gradients=scale_local_gradients)  # fmt: skip
    return _impl.distribute(optimizer, exchange, name, backward_passes_per_step, average_aggregated_gradients)


def PartialDistributedOptimizer(optimizer, name=None, device_dense="", device_sparse="", compression=Compression.none,
                                sparse_as_dense=False, gradient_predivide_factor=1.0, op=Average,
                                backward_passes_per_step=1, average_aggregated_gradients=False, groups=None,
                                process_set=global_process_set, local_layers=None,
                                scale_local_gradients=True):  # fmt: skip
    """DistributedOptimizer that leaves the gradients of `local_layers` (a layer or several) alone."""
    local = _impl.local_variables(local_layers, keras)
    made = DistributedOptimizer(
        optimizer, name, device_dense, device_sparse, compression, sparse_as_dense, gradient_predivide_factor, op, 0,
        groups, backward_passes_per_step=backward_passes_per_step, process_set=process_set,
        average_aggregated_gradients=average_aggregated_gradients,
        scale_local_gradients=scale_local_gradients)  # fmt: skip
    for variable in local:
        made.register_local_var(variable)
    return made


def broadcast_global_variables(root_rank):
    """Gives all global variables of a graph of TensorFlow 1 the values of rank `root_rank`."""
    return _backend.broadcast_global_variables(root_rank)


def allreduce(value, name=None, average=True, prescale_factor=1.0, postscale_factor=1.0, op=None,
              compression=Compression.none):  # fmt: skip
    """The combination (average) of a number or tensor over the ranks."""
    return _backend.allreduce(value, name, average if op is None else None, prescale_factor, postscale_factor, op,
                              compression)  # fmt: skip


def allgather(value, name=None):
    """The values of all ranks, concatenated by the first dimension."""
    return _backend.allgather(value, name)


def broadcast(value, root_rank, name=None):
    """The value of rank `root_rank`."""
    return _backend.broadcast(value, root_rank, name)


def reducescatter(value, name=None, op=Average):
    """This rank's part of the combination of the values."""
    return _backend.reducescatter(value, name, op)


def load_model(filepath, custom_optimizers=None, custom_objects=None, compression=Compression.none, legacy_opts=False):
    """A saved model whose optimizer exchanges gradients. `legacy_opts` is accepted: what was saved is loaded."""
    exchange = _backend.exchange(None, compression=compression)
    return _impl.load_model(keras, exchange, filepath, custom_optimizers, custom_objects)
