"""allgather, broadcast, alltoall, reducescatter."""

import numpy as np
import tensorflow as tf
from conformance import MOVED, SHAPES, Case, Eager, Graph

import cohort.tensorflow as hvd


class Moving:
    def test_allgather_of_every_type(self):
        for dtype, result in zip(MOVED, self.each(hvd.allgather, [self.values([3, 2], dtype) for dtype in MOVED])):
            with self.subTest(dtype=dtype):
                self.assertEqual(result.dtype, dtype)
                self.assert_equal(result, np.concatenate([self.numbers(x) for x in self.of_all([3, 2], dtype)]))

    def test_allgather_of_different_lengths(self):
        result = self.call(hvd.allgather, tf.fill([self.rank + 1, 2], float(self.rank)))
        expected = np.concatenate([np.full((rank + 1, 2), rank) for rank in range(self.size)])
        self.assert_equal(result, expected)

    def test_allgather_where_some_have_nothing(self):
        rows = 0 if self.rank % 2 else 2
        result = self.call(hvd.allgather, tf.fill([rows, 3], float(self.rank)))
        expected = np.concatenate([np.full((0 if rank % 2 else 2, 3), rank) for rank in range(self.size)])
        self.assert_equal(result, expected)

    def test_grouped_allgather(self):
        results = self.call(lambda a, b: hvd.grouped_allgather([a, b]), tf.fill([self.rank + 1], self.rank),
                            tf.ones([1, 2], tf.float64))  # fmt: skip
        self.assert_equal(results[0], np.concatenate([np.full(rank + 1, rank) for rank in range(self.size)]))
        self.assert_equal(results[1], np.ones((self.size, 2)))

    def test_allgather_knows_all_but_the_first_dimension_in_a_graph(self):
        shapes = []

        def record(x):
            result = hvd.allgather(x)
            shapes.append(result.shape.as_list())
            return result

        self.call(record, tf.ones([2, 5, 7]))
        self.assertEqual(shapes[0][1:], [5, 7])

    def test_broadcast_of_every_type_and_root(self):
        for root in range(self.size):
            tensors = [self.values([4, 2], dtype) for dtype in MOVED]
            for dtype, result in zip(MOVED, self.each(lambda x, root=root: hvd.broadcast(x, root), tensors)):
                with self.subTest(dtype=dtype, root=root):
                    self.assertEqual(result.dtype, dtype)
                    self.assert_equal(result, self.values([4, 2], dtype, root))

    def test_broadcast_of_every_shape(self):
        results = self.each(lambda x: hvd.broadcast(x, 0), [self.values(shape) for shape in SHAPES])
        for shape, result in zip(SHAPES, results):
            with self.subTest(shape=shape):
                self.assert_equal(result, self.values(shape, rank=0))

    def test_broadcast_in_place(self):
        variables = [tf.Variable(self.values([3])), tf.Variable(self.values([2, 2], tf.int64))]
        results = self.call(lambda: hvd.broadcast_(variables, 0))
        for variable, result, shape in zip(variables, results, ([3], [2, 2])):
            self.assert_equal(variable, self.values(shape, variable.dtype, 0))
            self.assert_equal(result, variable)

    def test_broadcast_variables(self):
        root = self.size - 1
        for inplace in (False, True):
            variables = [tf.Variable(self.values([3])), tf.Variable(self.values([], tf.int64))]
            self.call(lambda variables=variables, i=inplace: hvd.broadcast_variables(variables, root, inplace=i))
            self.assert_equal(variables[0], self.values([3], rank=root))
            self.assert_equal(variables[1], self.values([], tf.int64, root))

    def test_alltoall_in_equal_parts(self):
        tensors = [self.values([self.size * 2, 3], dtype) for dtype in MOVED]
        for dtype, result in zip(MOVED, self.each(hvd.alltoall, tensors)):
            with self.subTest(dtype=dtype):
                parts = [self.numbers(x)[2 * self.rank:2 * self.rank + 2]
                         for x in self.of_all([self.size * 2, 3], dtype)]  # fmt: skip
                self.assert_equal(result, np.concatenate(parts))

    def test_alltoall_with_splits(self):
        splits = [self.rank + 1] * self.size
        result, received = self.call(lambda x, s: hvd.alltoall(x, splits=s),
                                     tf.fill([(self.rank + 1) * self.size, 2], float(self.rank)),
                                     tf.constant(splits, tf.int32))  # fmt: skip
        self.assertEqual(received.dtype, tf.int32)
        self.assert_equal(received, [rank + 1 for rank in range(self.size)])
        self.assert_equal(result, np.concatenate([np.full((rank + 1, 2), rank) for rank in range(self.size)]))

    def test_alltoall_all_to_one(self):
        splits = [0] * self.size
        splits[0] = 4
        result, received = self.call(lambda x, s: hvd.alltoall(x, splits=s), tf.fill([4], self.rank),
                                     tf.constant(splits, tf.int32))  # fmt: skip
        expected = np.repeat(np.arange(self.size), 4) if self.rank == 0 else np.zeros(0)
        self.assert_equal(result, expected)
        self.assert_equal(received, [4 if self.rank == 0 else 0] * self.size)

    def test_alltoall_with_a_list_of_splits(self):
        result, _ = self.call(lambda x: hvd.alltoall(x, splits=[1] * self.size), tf.range(self.size))
        self.assert_equal(result, [self.rank] * self.size)

    def test_alltoall_of_uneven_parts_is_refused(self):
        self.need_ranks()
        with self.assertRaises(tf.errors.InvalidArgumentError):
            self.call(hvd.alltoall, tf.ones([self.size + 1]))

    def test_alltoall_with_too_large_splits_is_refused(self):
        with self.assertRaises(tf.errors.InvalidArgumentError):
            self.call(lambda x: hvd.alltoall(x, splits=[5] * self.size), tf.ones([2]))

    def test_alltoall_keeps_rows_that_no_split_covers(self):
        result, received = self.call(lambda x: hvd.alltoall(x, splits=[1] * self.size), tf.range(self.size + 3))
        self.assert_equal(result, [self.rank] * self.size)
        self.assert_equal(received, [1] * self.size)

    def test_alltoall_where_only_one_rank_keeps_rows(self):
        rows = self.size + (2 if self.rank == 0 else 0)
        result, _ = self.call(lambda x: hvd.alltoall(x, splits=[1] * self.size), tf.range(rows))
        self.assert_equal(result, [self.rank] * self.size)

    def test_alltoall_with_empty_splits_is_in_equal_parts(self):
        result, received = self.call(lambda x: hvd.alltoall(x, splits=tf.zeros([0], tf.int32)), tf.range(self.size))
        self.assert_equal(result, [self.rank] * self.size)
        self.assert_equal(received, [1] * self.size)

    def test_alltoall_with_splits_of_another_type_is_refused(self):
        with self.assertRaises((tf.errors.InvalidArgumentError, TypeError, ValueError)):
            self.call(lambda x: hvd.alltoall(x, splits=tf.constant([1.0] * self.size)), tf.ones([self.size]))

    def test_reducescatter_sum(self):
        types = (tf.int32, tf.int64, tf.float16, tf.float32, tf.float64, tf.bfloat16)
        tensors = [self.values([self.size * 2, 3], dtype) for dtype in types]
        for dtype, result in zip(types, self.each(lambda x: hvd.reducescatter(x, op=hvd.Sum), tensors)):
            with self.subTest(dtype=dtype):
                self.assertEqual(result.dtype, dtype)
                total = sum(self.numbers(x) for x in self.of_all([self.size * 2, 3], dtype))
                self.assert_equal(result, total[2 * self.rank:2 * self.rank + 2])

    def test_reducescatter_averages_by_default(self):
        result = self.call(hvd.reducescatter, tf.fill([self.size, 2], float(self.rank)))
        self.assert_equal(result, np.full((1, 2), (self.size - 1) / 2))

    def test_reducescatter_gives_the_first_ranks_one_more(self):
        result = self.call(lambda x: hvd.reducescatter(x, op=hvd.Sum), tf.range(self.size + 1, dtype=tf.float32))
        parts = np.array_split(np.arange(self.size + 1.0) * self.size, self.size)
        self.assert_equal(result, parts[self.rank])

    def test_reducescatter_scaled(self):
        result = self.call(lambda x: hvd.reducescatter(x, op=hvd.Sum, prescale_factor=2.0, postscale_factor=0.25),
                           tf.ones([self.size]))  # fmt: skip
        self.assert_equal(result, [self.size / 2])

    def test_reducescatter_compressed(self):
        result = self.call(lambda x: hvd.reducescatter(x, op=hvd.Sum, compression=hvd.Compression.fp16),
                           tf.ones([self.size]))  # fmt: skip
        self.assertEqual(result.dtype, tf.float32)
        self.assert_equal(result, [self.size])

    def test_reducescatter_of_a_scalar_is_refused(self):
        with self.assertRaises((ValueError, tf.errors.InvalidArgumentError)):
            self.call(hvd.reducescatter, tf.constant(1.0))

    def test_grouped_reducescatter(self):
        results = self.call(lambda a, b: hvd.grouped_reducescatter([a, b], op=hvd.Sum), tf.ones([self.size, 2]),
                            tf.ones([self.size * 2], tf.float64))  # fmt: skip
        self.assert_equal(results[0], np.full((1, 2), self.size))
        self.assert_equal(results[1], np.full(2, self.size))
        self.assertEqual(results[1].dtype, tf.float64)


class EagerMoving(Eager, Moving, Case):
    pass


class GraphMoving(Graph, Moving, Case):
    def test_lengths_may_change_from_call_to_call(self):
        function = tf.function(hvd.allgather, input_signature=[tf.TensorSpec([None, 2])])
        for rows in (1, 4, 0, 2):
            self.assertEqual(function(tf.ones([rows + self.rank, 2])).shape[0],
                             sum(rows + rank for rank in range(self.size)))  # fmt: skip
