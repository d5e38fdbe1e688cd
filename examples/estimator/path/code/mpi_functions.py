"""The functions of horovod.tensorflow that averaged_gradients.py needs, on mpi4py: for machines without Horovod.
Correct, not fast: tensors go through memory of the host, one at a time."""

import numpy as np
import tensorflow as tf
from mpi4py import MPI


def init():
    """mpi4py has called MPI_Init when it was imported."""


def rank():
    return MPI.COMM_WORLD.Get_rank()


def size():
    return MPI.COMM_WORLD.Get_size()


def allreduce(tensor):
    """The mean over all processes."""
    total = np.empty_like(tensor.numpy())
    MPI.COMM_WORLD.Allreduce(np.ascontiguousarray(tensor.numpy()), total, op=MPI.SUM)
    return tf.constant(total / size())


def broadcast(tensor, root_rank):
    """The tensor of one process, in all of them."""
    values = np.ascontiguousarray(tensor.numpy())
    MPI.COMM_WORLD.Bcast(values, root=root_rank)
    return tf.constant(values)
