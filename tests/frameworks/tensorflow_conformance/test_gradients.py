"""Gradients of the collectives, gradient tapes, and gradients added up over several passes."""

import numpy as np
import tensorflow as tf
from conformance import Case, Eager, Graph

import cohort.tensorflow as hvd
from cohort.tensorflow.gradient_aggregation import LocalGradientAggregationHelper


class Gradients:
    def gradient(self, function, shape, weight=1.0):
        """d(sum of function(x) * weight)/dx."""
        x = tf.Variable(tf.fill(shape, float(self.rank + 1)))

        def compute():
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(function(x) * weight)
            return tape.gradient(loss, x)

        return self.call(compute)

    def test_of_allreduce_sum(self):
        self.assert_equal(self.gradient(lambda x: hvd.allreduce(x, op=hvd.Sum), [4]), [self.size] * 4)

    def test_of_allreduce_average(self):
        result = self.gradient(hvd.allreduce, [4], float(self.rank))
        self.assert_equal(result, [(self.size - 1) / 2] * 4)

    def test_of_allreduce_scaled(self):
        result = self.gradient(lambda x: hvd.allreduce(x, op=hvd.Sum, prescale_factor=2.0, postscale_factor=4.0), [4])
        self.assert_equal(result, [8 * self.size] * 4)

    def test_of_grouped_allreduce(self):
        result = self.gradient(lambda x: sum(hvd.grouped_allreduce([x, 2.0 * x], op=hvd.Sum)), [3])
        self.assert_equal(result, [3 * self.size] * 3)

    def test_of_allgather(self):
        # Every rank weighs the rows of rank r by r + 1: the average of the ranks' gradients is that.
        rows = np.concatenate([np.full((rank + 1, 2), rank + 1.0) for rank in range(self.size)])
        result = self.gradient(hvd.allgather, [self.rank + 1, 2], tf.constant(rows, tf.float32))
        self.assert_equal(result, np.full((self.rank + 1, 2), self.rank + 1.0))

    def test_of_broadcast(self):
        result = self.gradient(lambda x: hvd.broadcast(x, self.size - 1), [4])
        self.assert_equal(result, [1.0 if self.rank == self.size - 1 else 0.0] * 4)

    def test_of_alltoall(self):
        result = self.gradient(lambda x: hvd.alltoall(x, splits=[2] * self.size)[0], [2 * self.size],
                               float(self.rank + 1))  # fmt: skip
        self.assert_equal(result, np.repeat(np.arange(1.0, self.size + 1), 2))

    def test_of_alltoall_is_zero_for_rows_that_stay(self):
        result = self.gradient(lambda x: hvd.alltoall(x, splits=[1] * self.size)[0], [self.size + 2],
                               float(self.rank + 1))  # fmt: skip
        self.assert_equal(result, [*np.arange(1.0, self.size + 1), 0.0, 0.0])

    def test_of_reducescatter(self):
        self.assert_equal(self.gradient(lambda x: hvd.reducescatter(x, op=hvd.Sum), [self.size, 2]),
                          np.full((self.size, 2), self.size))  # fmt: skip
        self.assert_equal(self.gradient(hvd.reducescatter, [self.size, 2]), np.ones((self.size, 2)))


class Tapes:
    def tape_gradient(self, make=hvd.DistributedGradientTape, sources=None, **arguments):
        """The gradients of sum(a^2) * (rank + 1) + sum(b): 2a * mean(rank + 1), and ones."""
        a, b = tf.Variable([1.0, 2.0]), tf.Variable([[3.0]])
        unused = tf.Variable(1.0)

        def compute():
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(a * a) * (self.rank + 1) + tf.reduce_sum(b)
            tape = make(tape, **arguments)
            return [g for g in tape.gradient(loss, sources or [a, b, unused]) if g is not None]

        return self.call(compute)

    def assert_averaged(self, results, factor=1.0):
        mean = (self.size + 1) / 2
        self.assert_equal(results[0], np.array([2.0, 4.0]) * mean * factor, 1e-6)
        self.assert_equal(results[1], [[factor]], 1e-6)

    def test_average(self):
        self.assert_averaged(self.tape_gradient())

    def test_sum(self):
        self.assert_averaged(self.tape_gradient(op=hvd.Sum), self.size)

    def test_predivided(self):
        self.assert_averaged(self.tape_gradient(gradient_predivide_factor=2.0))

    def test_compressed(self):
        self.assert_averaged(self.tape_gradient(compression=hvd.Compression.fp16))

    def test_in_groups(self):
        self.assert_averaged(self.tape_gradient(groups=1))
        self.assert_averaged(self.tape_gradient(num_groups=2))

    def test_arguments_that_do_not_go_together_are_refused(self):
        with self.assertRaises(ValueError):
            hvd.DistributedGradientTape(tf.GradientTape(), op=hvd.Sum, gradient_predivide_factor=2.0)
        with self.assertRaises(ValueError):
            hvd.DistributedGradientTape(tf.GradientTape(), groups=0)

    def test_groups_of_variables(self):
        a, b, c = (tf.Variable([float(self.rank + i)]) for i in range(3))

        def compute():
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(a * b * c)
            return hvd.DistributedGradientTape(tape, groups=[[a, c]], op=hvd.Sum).gradient(loss, [a, b, c])

        results = self.call(compute)
        ranks = np.arange(self.size, dtype=float)
        self.assert_equal(results[0], [np.sum((ranks + 1) * (ranks + 2))])
        self.assert_equal(results[1], [np.sum(ranks * (ranks + 2))])
        self.assert_equal(results[2], [np.sum(ranks * (ranks + 1))])

    def test_one_source_alone(self):
        x = tf.Variable(3.0)

        def compute():
            with tf.GradientTape() as tape:
                loss = x * x
            return hvd.DistributedGradientTape(tape).gradient(loss, x)

        self.assert_equal(self.call(compute), 6.0)

    def test_around_the_recording(self):
        x = tf.Variable(3.0)

        def compute():
            with hvd.DistributedGradientTape(tf.GradientTape(persistent=True)) as tape:
                loss = x * x * float(self.rank)
            return tape.gradient(loss, [x])[0]

        self.assert_equal(self.call(compute), 3.0 * (self.size - 1))

    def test_sparse(self):
        for as_dense in (False, True):
            table = tf.Variable(tf.ones([6, 2]))

            def compute(table=table, as_dense=as_dense):
                with tf.GradientTape() as tape:
                    loss = tf.reduce_sum(tf.gather(table, [self.rank, 5]))
                return hvd.DistributedGradientTape(tape, sparse_as_dense=as_dense, op=hvd.Sum).gradient(loss, [table])

            result = self.call(compute)[0]
            if as_dense or self.size > 1:
                self.assertEqual(isinstance(result, tf.IndexedSlices), not as_dense or self.size == 1)
            expected = np.zeros((6, 2))
            for rank in range(self.size):
                expected[[rank, 5]] += 1
            self.assert_equal(tf.convert_to_tensor(result), expected)

    def test_local_sources_stay_local(self):
        x, y = tf.Variable(1.0), tf.Variable(1.0)
        for scaled in (True, False):
            def compute(scaled=scaled):
                with tf.GradientTape() as tape:
                    loss = (x + y) * float(self.rank + 1)
                tape = hvd.DistributedGradientTape(tape, scale_local_gradients=scaled)
                tape.register_local_source(x)
                return tape.gradient(loss, [x, y])

            local, shared = self.call(compute)
            self.assert_equal(local, (self.rank + 1) / (self.size if scaled else 1), 1e-6)
            self.assert_equal(shared, (self.size + 1) / 2, 1e-6)

    def test_local_and_global_gradients(self):
        x, y, z = (tf.Variable(1.0) for _ in range(3))

        def compute():
            with tf.GradientTape() as tape:
                loss = (x + y + 2.0 * z) * float(self.rank + 1)
            tape = hvd.DistributedGradientTape(tape, scale_local_gradients=False)
            tape.register_local_source(y)
            local, shared = tape.get_local_and_global_gradients(loss, [x, y, z])
            self.assertEqual([variable is y for variable, _ in local], [True])
            self.assertEqual([(variable is x, variable is z) for variable, _ in shared], [(True, False), (False, True)])
            return [grad for _, grad in local], [grad for _, grad in shared]

        local, shared = self.call(compute)
        self.assert_equal(local[0], self.rank + 1, 1e-6)
        self.assert_equal(shared, np.array([1.0, 2.0]) * (self.size + 1) / 2, 1e-6)

    def test_partial_tape_leaves_layers_alone(self):
        first, second = (tf.keras.layers.Dense(1, use_bias=False, kernel_initializer="ones") for _ in range(2))
        x = tf.fill([1, 1], float(self.rank + 1))
        second(first(x))

        def compute():
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(second(first(x)))
            tape = hvd.PartialDistributedGradientTape(tape, local_layers=first)
            return tape.gradient(loss, [first.trainable_weights[0], second.trainable_weights[0]])

        local, shared = self.call(compute)
        self.assert_equal(local, [[(self.rank + 1) / self.size]], 1e-6)
        self.assert_equal(shared, [[(self.size + 1) / 2]], 1e-6)
        with self.assertRaises(ValueError):
            hvd.PartialDistributedGradientTape(tf.GradientTape(), local_layers=["not a layer"])

    def test_generic_names(self):
        x = tf.Variable([float(self.rank)])

        def compute():
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(x * x)
            return hvd.DistributedGradientTape(tape).gradient(loss, [x], use_generic_names=True)

        self.assert_equal(self.call(compute)[0], [self.size - 1.0])

    def test_in_a_process_set(self):
        self.need_ranks()
        some = hvd.add_process_set(range(1, self.size))
        try:
            results = self.tape_gradient(process_set=some)
            mean = np.mean(np.arange(2, self.size + 1)) if self.rank else 1.0
            self.assert_equal(results[0], np.array([2.0, 4.0]) * mean, 1e-6)
        finally:
            hvd.remove_process_set(some)


class Aggregation:
    def test_every_fourth_pass_is_exchanged(self):
        for average in (False, True):
            x = tf.Variable([0.0])
            helper = LocalGradientAggregationHelper(4, hvd._make_allreduce_grads_fn(
                "aggregation", "", "", hvd.Compression.none, True, hvd.Average, 1.0, None, hvd.global_process_set),
                True, average)  # fmt: skip

            class Counting:
                iterations = tf.Variable(0, dtype=tf.int64)

            def step(helper=helper, x=x):
                grads = helper.compute_gradients([tf.fill([1], float(self.rank + 1))], [x])
                pairs = list(zip(grads, [x]))
                helper.apply_gradients(lambda: [v.assign_add(g) for g, v in pairs], Counting, pairs)

            run = tf.function(step) if self.graph else step
            for number in range(10):
                run()
                expected = (number + 1) // 4 * (self.size + 1) / 2 * (1 if average else 4)
                self.assert_equal(x, [expected], 1e-6)
            self.assertEqual(int(helper.counter), 2)

    def test_sparse_gradients_need_sparse_as_dense(self):
        helper = LocalGradientAggregationHelper(2, lambda grads, variables: grads, False)
        slices = tf.IndexedSlices(tf.ones([1, 2]), tf.constant([0]), tf.constant([2, 2]))
        with self.assertRaises(ValueError):
            helper.compute_gradients([slices], [tf.Variable(tf.ones([2, 2]))])


class EagerGradients(Eager, Gradients, Tapes, Aggregation, Case):
    pass


class GraphGradients(Graph, Gradients, Tapes, Aggregation, Case):
    pass
