"""allreduce and grouped_allreduce."""

import numpy as np
import tensorflow as tf
from conformance import FLOATS, REDUCED, SHAPES, Case, Eager, Graph

import cohort.tensorflow as hvd


class Allreduce:
    def test_sum_of_every_type_and_shape(self):
        kinds = [(dtype, shape) for dtype in REDUCED for shape in SHAPES]
        results = self.each(lambda x: hvd.allreduce(x, op=hvd.Sum), [self.values(s, dtype) for dtype, s in kinds])
        for (dtype, shape), result in zip(kinds, results):
            with self.subTest(dtype=dtype, shape=shape):
                self.assertEqual(result.dtype, dtype)
                self.assert_equal(result, sum(self.numbers(x) for x in self.of_all(shape, dtype)))

    def test_average_is_the_default(self):
        for result in self.each(hvd.allreduce, [tf.cast(tf.fill([6], self.rank), dtype) for dtype in FLOATS]):
            self.assert_equal(result, np.full(6, (self.size - 1) / 2))

    def test_average_of_integers_has_their_type(self):
        result = self.call(lambda x: hvd.allreduce(x, op=hvd.Average), tf.fill([4], 3))
        self.assertEqual(result.dtype, tf.int32)
        self.assert_equal(result, [3] * 4)

    def test_minimum(self):
        result = self.call(lambda x: hvd.allreduce(x, op=hvd.Min), self.values([9]))
        self.assert_equal(result, np.min([self.numbers(x) for x in self.of_all([9])], axis=0))

    def test_maximum(self):
        result = self.call(lambda x: hvd.allreduce(x, op=hvd.Max), self.values([9]))
        self.assert_equal(result, np.max([self.numbers(x) for x in self.of_all([9])], axis=0))

    def test_product(self):
        result = self.call(lambda x: hvd.allreduce(x, op=hvd.Product), self.values([9], tf.float64))
        self.assert_equal(result, np.prod([self.numbers(x) for x in self.of_all([9], tf.float64)], axis=0))

    def test_adasum_of_equal_tensors_is_the_tensor(self):
        if self.size & (self.size - 1):
            with self.assertRaises(NotImplementedError):
                self.call(lambda x: hvd.allreduce(x, op=hvd.Adasum), tf.ones([4]))
            return
        self.assert_equal(self.call(lambda x: hvd.allreduce(x, op=hvd.Adasum), tf.ones([4])), np.ones(4), 1e-6)

    def test_average_true_and_false(self):
        self.assert_equal(self.call(lambda x: hvd.allreduce(x, average=False), tf.ones([2])), [self.size] * 2)
        self.assert_equal(self.call(lambda x: hvd.allreduce(x, average=True), tf.ones([2])), [1, 1])

    def test_op_and_average_together_are_refused(self):
        with self.assertRaises(ValueError):
            hvd.allreduce(tf.ones([2]), average=True, op=hvd.Sum)

    def test_prescale(self):
        result = self.call(lambda x: hvd.allreduce(x, op=hvd.Sum, prescale_factor=0.3), tf.fill([5], 7.0))
        self.assert_equal(result, np.full(5, np.float32(np.float32(0.3) * np.float32(7)) * self.size), 1e-6)

    def test_postscale(self):
        result = self.call(lambda x: hvd.allreduce(x, op=hvd.Sum, postscale_factor=0.5), tf.fill([5], 7.0))
        self.assert_equal(result, np.full(5, 3.5 * self.size))

    def test_scaling_of_integers_cuts_off(self):
        result = self.call(lambda x: hvd.allreduce(x, op=hvd.Sum, prescale_factor=0.5), tf.fill([5], 7))
        self.assert_equal(result, np.full(5, 3 * self.size))

    def test_scaling_of_float64_is_exact_to_its_precision(self):
        result = self.call(lambda x: hvd.allreduce(x, op=hvd.Sum, postscale_factor=1 / 3), tf.ones([2], tf.float64))
        self.assert_equal(result, np.full(2, self.size / 3), 1e-15)

    def test_compression_keeps_the_type(self):
        results = self.each(lambda x: hvd.allreduce(x, op=hvd.Sum, compression=hvd.Compression.fp16),
                            [tf.ones([8], dtype) for dtype in FLOATS])  # fmt: skip
        for dtype, result in zip(FLOATS, results):
            self.assertEqual(result.dtype, dtype)
            self.assert_equal(result, [self.size] * 8)

    def test_variable(self):
        variable = tf.Variable(tf.fill([3], float(self.rank)))
        self.assert_equal(self.call(lambda: hvd.allreduce(variable, op=hvd.Sum)),
                          [sum(range(self.size))] * 3)  # fmt: skip

    def test_input_is_left_alone(self):
        tensor = self.values([1000])
        before = tensor.numpy().copy()
        self.call(lambda x: hvd.allreduce(x, op=hvd.Sum), tensor)
        np.testing.assert_array_equal(tensor.numpy(), before)

    def test_many_at_once_with_names_of_their_own(self):
        def many(x):
            return [hvd.allreduce(x * float(i), op=hvd.Sum, name=f"many_{i}") for i in range(40)]

        for i, result in enumerate(self.call(many, tf.ones([3]))):
            self.assert_equal(result, [i * self.size] * 3)

    def test_large(self):
        result = self.call(lambda x: hvd.allreduce(x, op=hvd.Sum), tf.ones([1 << 20]))
        self.assertEqual(float(tf.reduce_min(result)), self.size)
        self.assertEqual(float(tf.reduce_max(result)), self.size)

    def test_indexed_slices_are_gathered(self):
        def reduce():
            slices = tf.IndexedSlices(tf.fill([2, 3], float(self.rank + 1)), tf.constant([self.rank, 5]),
                                      tf.constant([8, 3]))  # fmt: skip
            return hvd.allreduce(slices, op=hvd.Sum)

        result = tf.convert_to_tensor(self.call(reduce))
        expected = np.zeros((8, 3))
        for rank in range(self.size):
            expected[rank] += rank + 1
            expected[5] += rank + 1
        self.assert_equal(result, expected)

    def test_indexed_slices_average(self):
        def reduce():
            return hvd.allreduce(tf.IndexedSlices(tf.ones([1, 2]), tf.constant([0]), tf.constant([2, 2])))

        self.assert_equal(tf.convert_to_tensor(self.call(reduce)), [[1, 1], [0, 0]], 1e-6)

    def test_indexed_slices_refuse_other_operations(self):
        slices = tf.IndexedSlices(tf.ones([1, 2]), tf.constant([0]), tf.constant([2, 2]))
        for op in (hvd.Min, hvd.Adasum):
            with self.assertRaises(NotImplementedError):
                self.call(lambda op=op: hvd.allreduce(slices, op=op))
        with self.assertRaises(NotImplementedError):
            self.call(lambda: hvd.allreduce(slices, prescale_factor=2.0))

    def test_grouped_with_types_mixed(self):
        tensors = [self.values([4], tf.float32), self.values([2, 2], tf.int64), self.values([], tf.float64)]
        results = self.call(lambda *x: hvd.grouped_allreduce(list(x), op=hvd.Sum), *tensors)
        for result, tensor in zip(results, tensors):
            self.assertEqual(result.dtype, tensor.dtype)
            alike = self.of_all(tuple(tensor.shape), tensor.dtype)
            self.assert_equal(result, sum(self.numbers(x) for x in alike))

    def test_grouped_of_dense_and_slices(self):
        def reduce():
            slices = tf.IndexedSlices(tf.ones([1, 2]), tf.constant([1]), tf.constant([2, 2]))
            return hvd.grouped_allreduce([tf.ones([3]), slices], op=hvd.Sum)

        dense, slices = self.call(reduce)
        self.assert_equal(dense, [self.size] * 3)
        self.assert_equal(tf.convert_to_tensor(slices), [[0, 0], [self.size] * 2])

    def test_grouped_of_nothing(self):
        self.assertEqual(hvd.grouped_allreduce([]), [])

    def test_shapes_are_known_in_a_graph(self):
        shapes = []

        def record(x):
            result = hvd.allreduce(x)
            shapes.append(result.shape.as_list())
            return result

        self.call(record, tf.ones([3, 4]))
        self.assertEqual(shapes[0], [3, 4])


class EagerAllreduce(Eager, Allreduce, Case):
    pass


class GraphAllreduce(Graph, Allreduce, Case):
    def test_ranks_may_run_operations_in_different_order(self):
        """Each rank makes the next operation wait for another one: only negotiation can bring them together."""

        @tf.function
        def ordered():
            order = range(12) if self.rank % 2 == 0 else range(11, -1, -1)
            results, before = {}, []
            for i in order:
                with tf.control_dependencies(before[-1:] if self.size == 1 else []):
                    results[i] = hvd.allreduce(tf.fill([2], float(i)), op=hvd.Sum, name=f"ordered_{i}")
                before.append(results[i])
            return [results[i] for i in range(12)]

        from cohort.tensorflow import _library

        if not _library.asynchronous:
            self.skipTest("this TensorFlow has no asynchronous kernels")
        for i, result in enumerate(ordered()):
            self.assert_equal(result, [i * self.size] * 2)

    def test_a_traced_function_runs_again(self):
        function = tf.function(lambda x: hvd.allreduce(x, op=hvd.Sum))
        for step in range(20):
            self.assert_equal(function(tf.fill([3], float(step))), [step * self.size] * 3)

    def test_inside_a_loop_of_the_graph(self):
        @tf.function
        def loop(x):
            for _ in tf.range(5):
                x = hvd.allreduce(x, op=hvd.Average)
            return x

        self.assert_equal(loop(tf.fill([2], float(self.rank))), [(self.size - 1) / 2] * 2, 1e-6)

    def test_constants_are_not_folded(self):
        """The result is of this call, not of the one in which the graph was optimized."""
        @tf.function
        def constant():
            return hvd.allreduce(tf.constant([1.0, 2.0]), op=hvd.Sum)

        for _ in range(3):
            self.assert_equal(constant(), [self.size, 2.0 * self.size])
