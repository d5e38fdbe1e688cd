"""Numbers of the world, process sets, objects, join, mismatches."""

from unittest import mock

import numpy as np
import tensorflow as tf
from conformance import Case, Eager, Graph

import cohort.tensorflow as hvd
from cohort.common import basics


def without_secret():
    """What the job says of itself when its ranks have proved nothing to each other."""
    return mock.patch.object(basics, "job_info", return_value=basics.job_info()._replace(authenticated=False))


class World:
    def test_numbers_as_operations(self):
        self.assertEqual(int(self.call(hvd.rank_op)), self.rank)
        self.assertEqual(int(self.call(hvd.size_op)), self.size)
        self.assertEqual(int(self.call(hvd.local_rank_op)), hvd.local_rank())
        self.assertEqual(int(self.call(hvd.local_size_op)), hvd.local_size())
        self.assertEqual(int(self.call(hvd.process_set_included_op)), 1)

    def test_numbers_of_process_sets(self):
        self.need_ranks()
        zero = hvd.add_process_set([0])
        try:
            self.assertEqual(int(self.call(lambda: hvd.size_op(zero.process_set_id))), 1)
            self.assertEqual(int(self.call(lambda: hvd.process_set_included_op(zero.process_set_id))), self.rank == 0)
            self.assertEqual(int(self.call(lambda: hvd.process_set_included_op(99))), -2)
            known = hvd.mpi_ops._basics._get_process_set_ids_and_ranks()  # scripts read it
            self.assertEqual(known, {0: list(range(self.size)), zero.process_set_id: [0]})
        finally:
            hvd.remove_process_set(zero)

    def test_collectives_in_process_sets(self):
        self.need_ranks()
        even, odd = list(range(0, self.size, 2)), list(range(1, self.size, 2))
        sets = [hvd.add_process_set(even), hvd.add_process_set(odd)]
        try:
            mine, ranks = (sets[0], even) if self.rank in even else (sets[1], odd)
            x = tf.fill([len(ranks), 2], float(self.rank))

            def collectives(x):
                return (hvd.allreduce(x, op=hvd.Sum, process_set=mine), hvd.allgather(x[:1], process_set=mine),
                        hvd.broadcast(x, ranks[-1], process_set=mine), hvd.alltoall(x, process_set=mine),
                        hvd.reducescatter(x, op=hvd.Sum, process_set=mine))  # fmt: skip

            summed, gathered, sent, exchanged, scattered = self.call(collectives, x)
            self.assert_equal(summed, np.full((len(ranks), 2), sum(ranks)))
            self.assert_equal(gathered, np.repeat(np.array(ranks, float)[:, None], 2, axis=1))
            self.assert_equal(sent, np.full((len(ranks), 2), ranks[-1]))
            self.assert_equal(exchanged, np.repeat(np.array(ranks, float)[:, None], 2, axis=1))
            self.assert_equal(scattered, np.full((1, 2), sum(ranks)))
        finally:
            for process_set in sets:
                hvd.remove_process_set(process_set)

    def test_a_set_without_this_rank_is_refused(self):
        self.need_ranks()
        zero, rest = hvd.add_process_set([0]), hvd.add_process_set(range(1, self.size))
        try:
            other = rest if self.rank == 0 else zero
            with self.assertRaises(tf.errors.InvalidArgumentError):
                self.call(lambda x: hvd.allreduce(x, process_set=other), tf.ones([4]))
            unknown = hvd.ProcessSet([0])
            unknown.process_set_id = 77
            with self.assertRaises(ValueError):
                self.call(lambda x: hvd.allreduce(x, process_set=unknown), tf.ones([4]))
        finally:
            hvd.remove_process_set(rest)
            hvd.remove_process_set(zero)

    def mismatch(self, function, *arguments):
        self.need_ranks()
        with self.assertRaises(tf.errors.FailedPreconditionError) as raised:
            self.call(function, *arguments)
        return str(raised.exception)

    def test_shapes_that_differ_are_refused_on_every_rank(self):
        text = self.mismatch(hvd.allreduce, tf.ones([17 + self.rank]))
        self.assertIn("f32[17]", text)
        self.assertIn("f32[18]", text)

    def test_ranks_of_tensors_that_differ_are_refused(self):
        self.mismatch(hvd.allreduce, tf.ones([6]) if self.rank == 0 else tf.ones([2, 3]))

    def test_types_that_differ_are_refused(self):
        self.mismatch(hvd.allreduce, tf.ones([4], tf.int32 if self.rank % 2 == 0 else tf.float32))

    def test_operations_that_differ_are_refused(self):
        self.mismatch(lambda x: hvd.allreduce(x, op=hvd.Sum if self.rank == 0 else hvd.Max, name="ops"), tf.ones([4]))

    def test_roots_that_differ_are_refused(self):
        self.mismatch(lambda x: hvd.broadcast(x, self.rank, name="roots"), tf.ones([4]))

    def test_broadcast_of_shapes_that_differ_is_refused(self):
        self.mismatch(lambda x: hvd.broadcast(x, 0), tf.ones([4 + self.rank]))

    def test_allgather_of_rows_that_differ_is_refused(self):
        self.mismatch(hvd.allgather, tf.ones([4, 2 + self.rank]))

    def test_allgather_of_types_that_differ_is_refused(self):
        self.mismatch(hvd.allgather, tf.ones([4], tf.int64 if self.rank % 2 == 0 else tf.float32))

    def test_alltoall_of_types_that_differ_is_refused(self):
        self.mismatch(hvd.alltoall, tf.ones([self.size], tf.int64 if self.rank % 2 == 0 else tf.float32))

    def test_reducescatter_of_shapes_that_differ_is_refused(self):
        self.mismatch(hvd.reducescatter, tf.ones([self.size, 2 + self.rank]))

    def test_the_world_goes_on_after_a_mismatch(self):
        self.mismatch(hvd.allreduce, tf.ones([3 + self.rank]))
        self.assert_equal(self.call(lambda x: hvd.allreduce(x, op=hvd.Sum), tf.ones([3])), [self.size] * 3)

    def test_join_with_different_numbers_of_steps(self):
        function = lambda x: hvd.allreduce(x, op=hvd.Sum, name="joining")  # noqa: E731
        run = tf.function(function) if self.graph else function
        for step in range(self.rank + 1):
            self.assert_equal(run(tf.ones([3])), [self.size - step] * 3)
        self.assertEqual(int(self.call(hvd.join)), self.size - 1)


class EagerWorld(Eager, World, Case):
    def test_objects(self):
        thing = {"rank": self.rank, "list": [1.5, None, "x"]}
        self.assertEqual(hvd.broadcast_object(thing, self.size - 1)["rank"], self.size - 1)
        gathered = hvd.allgather_object(("of", self.rank, "x" * self.rank))
        self.assertEqual(gathered, [("of", rank, "x" * rank) for rank in range(self.size)])

    def test_objects_need_a_secret(self):
        self.need_ranks()
        with without_secret():
            with self.assertRaisesRegex(ValueError, "secret"):
                hvd.broadcast_object(1, 0)
            with self.assertRaisesRegex(ValueError, "secret"):
                hvd.allgather_object(1)

    def test_broadcast_global_variables_needs_a_graph(self):
        with self.assertRaises(RuntimeError):
            hvd.broadcast_global_variables(0)

    def test_init_and_shutdown_again(self):
        function = tf.function(lambda x: hvd.allreduce(x, op=hvd.Sum))
        for _ in range(2):
            self.assert_equal(function(tf.ones([2])), [self.size] * 2)
            hvd.shutdown()
            with self.assertRaises(tf.errors.FailedPreconditionError):
                function(tf.ones([2]))
            hvd.init()
        self.assert_equal(hvd.allreduce(tf.ones([2]), op=hvd.Sum), [self.size] * 2)


class GraphWorld(Graph, World, Case):
    pass


class Sessions(Case):
    """Graphs of TensorFlow 1."""

    def test_collectives_and_gradients(self):
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            x = tf.compat.v1.placeholder(tf.float32, [None])
            summed, gathered = hvd.allreduce(x, op=hvd.Sum), hvd.allgather(x)
            gradient = tf.gradients(hvd.allreduce(x, op=hvd.Sum), x)[0]
            feed = {x: [1.0, float(self.rank)]}
            np.testing.assert_allclose(session.run(summed, feed), [self.size, sum(range(self.size))])
            self.assertEqual(session.run(gathered, feed).shape, (2 * self.size,))
            np.testing.assert_allclose(session.run(gradient, feed), [self.size] * 2)

    def test_broadcast_of_global_variables_by_the_hook(self):
        with tf.Graph().as_default():
            variable = tf.compat.v1.get_variable("v", initializer=float(self.rank + 5), use_resource=True)
            with tf.compat.v1.train.MonitoredTrainingSession(hooks=[hvd.BroadcastGlobalVariablesHook(0)]) as session:
                self.assertEqual(session.run(variable), 5.0)

    def test_objects(self):
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            self.assertEqual(hvd.broadcast_object({"rank": self.rank}, 0, session=session), {"rank": 0})
            send = hvd.broadcast_object_fn(0, session=session)
            self.assertEqual([send(("object", self.rank, i)) for i in range(2)], [("object", 0, 0), ("object", 0, 1)])

    def test_objects_need_a_secret(self):
        self.need_ranks()
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            send = hvd.broadcast_object_fn(0, session=session)
            with without_secret(), self.assertRaisesRegex(ValueError, "secret"):
                send(1)

    def train(self, optimizer, steps, **arguments):
        """SGD on x * (rank + 1); the value of x after each step, which all ranks must have."""
        values = []
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            x = tf.compat.v1.get_variable("x", initializer=0.0, use_resource=True)
            step = hvd.DistributedOptimizer(optimizer, **arguments).minimize(x * (self.rank + 1.0))
            session.run(tf.compat.v1.global_variables_initializer())
            for _ in range(steps):
                session.run(step)
                values.append(session.run(x))
        return values

    def test_optimizer(self):
        mean = (self.size + 1) / 2
        values = self.train(tf.compat.v1.train.GradientDescentOptimizer(1.0), 3)
        np.testing.assert_allclose(values, [-mean, -2 * mean, -3 * mean], rtol=1e-6)

    def test_optimizer_over_several_passes(self):
        mean = (self.size + 1) / 2
        values = self.train(tf.compat.v1.train.GradientDescentOptimizer(1.0), 5, backward_passes_per_step=2)
        np.testing.assert_allclose(values, [0, -2 * mean, -2 * mean, -4 * mean, -4 * mean], rtol=1e-6)

    def test_adasum_optimizer(self):
        if self.size & (self.size - 1):
            self.skipTest("Adasum needs a power of two")
        values = self.train(tf.compat.v1.train.GradientDescentOptimizer(1.0), 2, op=hvd.Adasum)
        gathered = hvd.allgather_object(values)
        np.testing.assert_allclose(gathered[0], gathered[-1], rtol=1e-6)

    def test_something_that_is_no_optimizer_is_refused(self):
        with self.assertRaises(ValueError):
            hvd.DistributedOptimizer("adam")
