"""What the cases of this folder share: every rank runs all of them, in the same order, in one process."""

import unittest

import numpy as np
import tensorflow as tf

import cohort.tensorflow as hvd

FLOATS = (tf.float16, tf.bfloat16, tf.float32, tf.float64)
INTEGERS = (tf.uint8, tf.int8, tf.int32, tf.int64)
REDUCED = INTEGERS + FLOATS
MOVED = REDUCED + (tf.bool, tf.int16, tf.uint16, tf.uint32, tf.uint64, tf.complex64, tf.complex128)
SHAPES = ((), (1,), (17,), (5, 3), (3, 4, 5), (2, 0, 3))


class Case(unittest.TestCase):
    """`rank` and `size` are those of the world, which is open."""

    def setUp(self):
        hvd.init()
        self.rank, self.size = hvd.rank(), hvd.size()

    def need_ranks(self, count=2):
        if self.size < count:
            self.skipTest(f"needs {count} ranks")

    def values(self, shape, dtype=tf.float32, rank=None):
        """Numbers that only this rank has, small and whole: sums of a few are exact in every type."""
        generator = np.random.RandomState(99 + (self.rank if rank is None else rank))
        whole = generator.randint(0, 5, size=shape)
        if dtype == tf.bool:
            return tf.constant(whole % 2 == 0)
        return tf.cast(tf.constant(whole, tf.int32), dtype)

    def of_all(self, shape, dtype=tf.float32):
        return [self.values(shape, dtype, rank) for rank in range(self.size)]

    def numbers(self, tensor):
        """As numpy, in a type that numpy can compare."""
        tensor = tf.convert_to_tensor(tensor)
        if tensor.dtype in (tf.bfloat16, tf.float16):
            tensor = tf.cast(tensor, tf.float64)
        return tensor.numpy()

    def assert_equal(self, tensor, expected, tolerance=0.0):
        got, want = self.numbers(tensor), self.numbers(expected)
        self.assertEqual(got.shape, want.shape)
        got, want = got.astype(np.complex128), want.astype(np.complex128)
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


class Eager:
    """Cases call collectives directly."""

    graph = False

    def call(self, function, *arguments):
        return function(*arguments)

    def each(self, function, tensors):
        """The function's results for each tensor."""
        return [function(tensor) for tensor in tensors]


class Graph:
    """Cases call them in a tf.function."""

    graph = True

    def call(self, function, *arguments):
        return tf.function(function)(*arguments)

    def each(self, function, tensors):
        """The function's results for each tensor, all in one graph."""
        return tf.function(lambda inputs: [function(tensor) for tensor in inputs])(list(tensors))
