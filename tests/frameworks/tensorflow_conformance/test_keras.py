"""Keras, of TensorFlow's and by itself: optimizers, callbacks, models that are loaded, SyncBatchNormalization."""

import contextlib
import io
import os
import pathlib
import tempfile

import numpy as np
import tensorflow as tf
from conformance import Case

import cohort.tensorflow as hvd_tf
import cohort.tensorflow.keras as hvd
from cohort.tensorflow._library import factor_of

keras = tf.keras
KERAS_3 = hasattr(keras, "ops")


def model_of(weights=None):
    layers = [keras.layers.Input((4,)), keras.layers.Dense(6, activation="tanh"), keras.layers.Dense(2)]
    model = keras.Sequential(layers)
    if weights is not None:
        model.set_weights(weights)
    return model


class Keras(Case):
    def setUp(self):
        super().setUp()
        keras.utils.set_random_seed(7)
        generator = np.random.RandomState(3)
        rows = 4 * self.size
        self.x = generator.rand(rows, 4).astype("float32")
        self.y = generator.rand(rows, 2).astype("float32")
        self.start = model_of().get_weights()
        self.start = [hvd.broadcast(weight, 0).numpy() for weight in self.start]

    def part(self):
        """The rows that only this rank trains on."""
        return self.x[self.rank::self.size], self.y[self.rank::self.size]

    def trained_on_all(self, optimizer, steps):
        """The weights of one process that has all rows."""
        model = model_of(self.start)
        model.compile(optimizer, "mse")
        model.fit(self.x, self.y, batch_size=len(self.x), epochs=steps, shuffle=False, verbose=0)
        return model.get_weights()

    def assert_weights(self, model, expected, tolerance=2e-6):
        for got, want in zip(model.get_weights(), expected):
            np.testing.assert_allclose(got, want, atol=tolerance)

    def fit_part(self, optimizer, steps=3, callbacks=(), **compile_arguments):
        model = model_of(self.start)
        model.compile(optimizer, "mse", **compile_arguments)
        x, y = self.part()
        history = model.fit(x, y, batch_size=len(x), epochs=steps, shuffle=False, verbose=0, callbacks=list(callbacks))
        return model, history.history

    def test_training_on_parts_is_training_on_all(self):
        model, _ = self.fit_part(hvd.DistributedOptimizer(keras.optimizers.Adam(0.01)))
        self.assert_weights(model, self.trained_on_all(keras.optimizers.Adam(0.01), 3))

    def test_without_it_it_is_not(self):
        self.need_ranks()
        model, _ = self.fit_part(keras.optimizers.SGD(0.1))
        expected = self.trained_on_all(keras.optimizers.SGD(0.1), 3)
        self.assertGreater(max(np.abs(a - b).max() for a, b in zip(model.get_weights(), expected)), 1e-4)

    def test_with_legacy_optimizers(self):
        if KERAS_3:
            self.skipTest("Keras 3 has none")
        model, _ = self.fit_part(hvd.DistributedOptimizer(keras.optimizers.legacy.SGD(0.1, momentum=0.9)))
        self.assert_weights(model, self.trained_on_all(keras.optimizers.legacy.SGD(0.1, momentum=0.9), 3))

    def test_through_the_tensorflow_package(self):
        model, _ = self.fit_part(hvd_tf.DistributedOptimizer(keras.optimizers.SGD(0.1)))
        self.assert_weights(model, self.trained_on_all(keras.optimizers.SGD(0.1), 3))

    def test_eagerly(self):
        model, _ = self.fit_part(hvd.DistributedOptimizer(keras.optimizers.SGD(0.1)), run_eagerly=True)
        self.assert_weights(model, self.trained_on_all(keras.optimizers.SGD(0.1), 3))

    def test_sum(self):
        model, _ = self.fit_part(hvd.DistributedOptimizer(keras.optimizers.SGD(0.1 / self.size), op=hvd.Sum))
        self.assert_weights(model, self.trained_on_all(keras.optimizers.SGD(0.1), 3))

    def test_compressed_predivided_and_in_groups(self):
        optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.1), compression=hvd.Compression.fp16, groups=2,
                                             gradient_predivide_factor=2.0)  # fmt: skip
        model, _ = self.fit_part(optimizer)
        self.assert_weights(model, self.trained_on_all(keras.optimizers.SGD(0.1), 3), 1e-3)

    def test_several_passes_a_step(self):
        for average, rate in ((True, 0.1), (False, 0.05)):
            optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(rate), backward_passes_per_step=2,
                                                 average_aggregated_gradients=average)  # fmt: skip
            model, _ = self.fit_part(optimizer, steps=7)
            self.assert_weights(model, self.trained_on_all(keras.optimizers.SGD(0.1), 3))
            self.assertEqual(int(np.array(optimizer._agg_helper.counter)), 1)

    def computed(self, optimizer, *arguments, **more):
        """Gradients that one's own loop asks the optimizer for, by the name that scripts use."""
        if KERAS_3:
            self.skipTest("optimizers of Keras 3 compute no gradients")
        return optimizer._compute_gradients(*arguments, **more)

    def test_gradients_that_it_computes_are_exchanged_once(self):
        variable = tf.Variable([1.0])
        optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(1.0), op=hvd.Sum)
        pairs = self.computed(optimizer, loss=lambda: variable * float(self.rank), var_list=[variable])
        self.assert_equal(pairs[0][0], tf.constant([float(sum(range(self.size)))]))
        optimizer.apply_gradients(pairs)
        np.testing.assert_allclose(np.array(variable), [1 - sum(range(self.size))])
        with tf.GradientTape(persistent=True) as tape:
            loss = variable * float(self.rank)
        pairs = self.computed(optimizer, loss, [variable], tape=tape)
        self.assert_equal(pairs[0][0], tf.constant([float(sum(range(self.size)))]))
        with self.assertRaises(ValueError):
            optimizer._compute_gradients(loss, [variable], grad_loss=tf.ones([1]), tape=tape)

    def test_gradients_that_it_computes_over_several_passes(self):
        variable = tf.Variable([0.0, 0.0])
        local = tf.Variable([0.0])
        optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(1.0), backward_passes_per_step=2,
                                             sparse_as_dense=True)  # fmt: skip
        optimizer.register_local_var(local)

        @tf.function
        def step(factor):
            def loss():  # of a part of the variable: its gradient is IndexedSlices
                return factor * (float(self.rank + 1) * tf.gather(variable, [0]) + local)

            optimizer.apply_gradients(self.computed(optimizer, loss, var_list=[variable, local]))

        # What one step has added up is not seen in the next one.
        for number, factor in enumerate((5.0, 0.0, 1.0, 1.0, 1.0)):
            step(tf.constant(factor))
            self.assertEqual(int(optimizer.iterations), number + 1)
            if number == 1:
                variable.assign([0.0, 0.0])
                local.assign([0.0])
        np.testing.assert_allclose(variable.numpy(), [-(self.size + 1), 0.0])
        np.testing.assert_allclose(local.numpy(), [-2.0 / self.size])
        self.assertEqual(int(optimizer._agg_helper.counter), 1)

    def test_gradients_that_are_applied_by_hand_are_exchanged(self):
        variable = tf.Variable([1.0])
        optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(1.0))

        @tf.function
        def step():
            optimizer.apply_gradients([(tf.fill([1], float(self.rank)), variable)])

        if hasattr(optimizer, "build") and KERAS_3:
            variable = keras.Variable([1.0])
            optimizer.build([variable])
        step()
        np.testing.assert_allclose(np.array(variable), [1 - (self.size - 1) / 2])

    def test_gradients_of_a_distributed_tape_are_not_exchanged_again(self):
        variable = keras.Variable([1.0]) if KERAS_3 else tf.Variable([1.0])
        optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(1.0), op=hvd.Sum)
        optimizer.build([variable])

        def step():
            with hvd_tf.DistributedGradientTape(tf.GradientTape(), op=hvd.Sum) as tape:
                loss = variable * float(self.rank)
            optimizer.apply_gradients(zip(tape.gradient(loss, [variable]), [variable]))

        step()
        tf.function(step)()
        np.testing.assert_allclose(np.array(variable), [1 - 2 * sum(range(self.size))])

    def test_only_averages_and_sums(self):
        import cohort.keras as hvd_keras

        for op in (hvd_tf.Adasum, hvd_tf.Min, hvd_tf.Max, hvd_tf.Product):
            for package in (hvd, hvd_tf, hvd_keras):
                with self.subTest(op=op, package=package.__name__), self.assertRaises(ValueError):
                    package.DistributedOptimizer(keras.optimizers.SGD(0.1), op=op)

    def test_configuration(self):
        optimizer = hvd.DistributedOptimizer(keras.optimizers.Adam(0.02))
        configuration = optimizer.get_config()
        self.assertEqual(type(optimizer).__name__, "Adam")
        self.assertIsInstance(optimizer, keras.optimizers.Adam)
        self.assertEqual(type(optimizer).from_config(configuration).get_config(), configuration)

    def test_load_model(self):
        folder = hvd_tf.broadcast_object(tempfile.mkdtemp() if self.rank == 0 else None, 0)
        path = os.path.join(folder, "model.keras")
        model, _ = self.fit_part(hvd.DistributedOptimizer(keras.optimizers.Adam(0.01)), steps=2)
        if self.rank == 0:
            model.save(path)
        hvd_tf.broadcast_object(None, 0, name="saved")
        loaded = hvd.load_model(path)
        x, y = self.part()
        loaded.fit(x, y, batch_size=len(x), epochs=1, shuffle=False, verbose=0)
        self.assert_weights(loaded, self.trained_on_all(keras.optimizers.Adam(0.01), 3))
        plain = keras.models.load_model(path)
        self.assertEqual(type(plain.optimizer).__name__, "Adam")

    def test_sparse_gradients_of_embeddings(self):
        for as_dense in (False, True):
            model = keras.Sequential([keras.layers.Input((3,), dtype="int32"),
                                      keras.layers.Embedding(10, 2, embeddings_initializer="ones")])  # fmt: skip
            model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(1.0), sparse_as_dense=as_dense), "mse")
            tokens = np.full((1, 3), self.rank, "int32")
            model.train_on_batch(tokens, np.zeros((1, 3, 2), "float32"))
            changed = np.array(model.get_weights()[0])
            self.assertEqual(int(np.sum(changed[:, 0] != 1)), self.size)

    def test_broadcast_callback(self):
        model = model_of([weight + self.rank for weight in self.start])
        model.compile(keras.optimizers.SGD(0.0), "mse")
        local = model.layers[-1].variables
        callback = hvd.callbacks.BroadcastGlobalVariablesCallback(self.size - 1, local_variables=local)
        model.fit(*self.part(), epochs=1, verbose=0, callbacks=[callback])
        expected = [weight + self.size - 1 for weight in self.start]
        expected[2:] = [weight + self.rank for weight in self.start[2:]]
        self.assert_weights(model, expected)

    def test_broadcast_callback_with_one_local_variable_and_others_later(self):
        model = model_of([weight + self.rank for weight in self.start])
        model.compile(keras.optimizers.SGD(0.0), "mse")
        kernel, bias = model.layers[-1].variables
        callback = hvd.callbacks.BroadcastGlobalVariablesCallback(0, local_variables=kernel)
        callback.register_local_var(bias)
        model.fit(*self.part(), epochs=1, verbose=0, callbacks=[callback])
        self.assert_weights(model, self.start[:2] + [weight + self.rank for weight in self.start[2:]])

    def test_local_variables_that_are_none_are_refused(self):
        for wrong in (["kernel"], "kernel", 3, [np.zeros(2)], [tf.zeros([2])]):
            with self.assertRaises(ValueError):
                hvd.callbacks.BroadcastGlobalVariablesCallback(0, local_variables=wrong)

    def test_metrics_are_averaged_before_others_read_them(self):
        read = []

        class Reader(keras.callbacks.Callback):
            def on_epoch_end(self, epoch, logs=None):
                read.append(logs["loss"])

        model, history = self.fit_part(keras.optimizers.SGD(0.0), 2,
                                       [hvd.callbacks.MetricAverageCallback(), Reader()])  # fmt: skip
        whole = float(np.mean((model.predict(self.x, verbose=0) - self.y) ** 2))
        np.testing.assert_allclose(history["loss"], [whole] * 2, rtol=1e-5)
        np.testing.assert_allclose(read, history["loss"])

    def test_metrics_that_are_arrays_are_averaged(self):
        rank = self.rank
        logs = {"loss": float(rank), "per_class": np.array([rank, 2 * rank], np.float32), "table": [[rank, 1]],
                "tensor": tf.fill([3], float(rank))}  # fmt: skip
        hvd.callbacks.MetricAverageCallback().on_epoch_end(0, logs)
        mean = (self.size - 1) / 2
        self.assertEqual(logs["loss"], mean)
        np.testing.assert_allclose(logs["per_class"], [mean, 2 * mean])
        np.testing.assert_allclose(logs["table"], [[mean, 1]])
        np.testing.assert_allclose(logs["tensor"], [mean] * 3)
        self.assertEqual(logs["per_class"].dtype, np.float32)

    def test_rank_0_tells_of_the_warm_up(self):
        callback = hvd.callbacks.LearningRateWarmupCallback(initial_lr=0.8, warmup_epochs=2, verbose=1)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            self.fit_part(keras.optimizers.SGD(0.8), 3, [callback])
        self.assertEqual("0.8" in printed.getvalue(), self.rank == 0)

    def test_a_number_multiplies_the_learning_rate_every_epoch(self):
        rates = {True: [0.8] * 4 + [0.2] * 2 + [0.05] * 2, False: [0.8] * 2 + [0.8, 0.4, 0.2, 0.1, 0.05, 0.025]}
        for staircase, expected in rates.items():
            got = []

            class Reader(keras.callbacks.Callback):
                def on_train_batch_begin(self, batch, logs=None, got=got):
                    got.append(float(np.array(self.model.optimizer.learning_rate)))

            schedule = hvd.callbacks.LearningRateScheduleCallback(0.8, 0.25, start_epoch=1, staircase=staircase)
            model = model_of(self.start)
            model.compile(keras.optimizers.SGD(0.8), "mse")
            model.fit(*self.part(), batch_size=2, epochs=4, verbose=0, callbacks=[schedule, Reader()])
            np.testing.assert_allclose(got, expected, rtol=1e-5)

    def test_warm_up_and_schedule_of_the_learning_rate(self):
        rates = []

        class Reader(keras.callbacks.Callback):
            def on_train_batch_begin(self, batch, logs=None):
                rates.append(float(np.array(self.model.optimizer.learning_rate)))

        callbacks = [
            hvd.callbacks.LearningRateWarmupCallback(initial_lr=0.8, warmup_epochs=2, steps_per_epoch=2, verbose=0),
            hvd.callbacks.LearningRateScheduleCallback(initial_lr=0.8, multiplier=0.1, start_epoch=2, end_epoch=4),
            hvd.callbacks.LearningRateScheduleCallback(initial_lr=0.8, multiplier=lambda e: 0.5**e, start_epoch=4),
            Reader(),
        ]
        model = model_of(self.start)
        model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.8)), "mse")
        x, y = self.part()
        history = model.fit(x, y, batch_size=2, epochs=5, verbose=0, callbacks=callbacks)
        warm = [0.8 / self.size * ((step + 1) / 2 * (self.size - 1) / 2 + 1) for step in range(4)]
        np.testing.assert_allclose(rates, warm + [0.8] * 2 + [0.08] * 2 + [0.05] * 2, rtol=1e-5)
        np.testing.assert_allclose(history.history["lr"], [warm[1], warm[3], 0.8, 0.08, 0.05], rtol=1e-5)

    def test_best_model_checkpoint(self):
        callback = hvd.callbacks.BestModelCheckpoint(monitor="loss")
        folder = tempfile.mkdtemp()
        callback.filepath = str(pathlib.Path(folder, "best.keras"))
        self.fit_part(hvd.DistributedOptimizer(keras.optimizers.SGD(0.1)), 2, [callback])
        self.assertTrue(pathlib.Path(callback.filepath).exists())

    def test_values(self):
        self.assertEqual(float(hvd.allreduce(float(self.rank), op=hvd.Sum)), sum(range(self.size)))
        self.assertEqual(float(hvd.allreduce(float(self.rank), average=True)), (self.size - 1) / 2)
        self.assertEqual(list(np.array(hvd.allgather([self.rank]))), list(range(self.size)))
        self.assertEqual(float(hvd.broadcast(float(self.rank), 0)), 0.0)
        self.assertEqual(list(np.array(hvd.reducescatter([1.0] * self.size, op=hvd.Sum))), [self.size])

    def test_sync_batch_normalization(self):
        x = np.random.RandomState(5).rand(6 * self.size, 3).astype("float32") * 4
        whole, synchronous = keras.layers.BatchNormalization(), hvd_tf.SyncBatchNormalization()
        expected = whole(x, training=True)
        result = synchronous(x[self.rank::self.size], training=True)
        np.testing.assert_allclose(np.array(result), np.array(expected)[self.rank::self.size], atol=1e-4)
        np.testing.assert_allclose(np.array(synchronous.moving_mean), np.array(whole.moving_mean), atol=1e-5)
        with self.assertRaises(ValueError):
            hvd_tf.SyncBatchNormalization(fused=True)

    def test_sync_batch_normalization_in_float64(self):
        x = np.random.RandomState(5).rand(6 * self.size, 3) * 4
        whole, synchronous = (make(dtype="float64") for make in (keras.layers.BatchNormalization,
                                                                 hvd_tf.SyncBatchNormalization))  # fmt: skip
        expected = np.array(whole(x, training=True))[self.rank::self.size]
        np.testing.assert_allclose(np.array(synchronous(x[self.rank::self.size], training=True)), expected, atol=1e-12)

    def test_sync_batch_normalization_keeps_no_size_in_a_graph(self):
        self.need_ranks()
        layer = hvd_tf.SyncBatchNormalization()
        layer.build([None, 3])
        graph = tf.function(lambda x: layer(x, training=True)).get_concrete_function(tf.ones([4, 3])).graph
        found = [op for op in graph.get_operations() if op.type == "CohortAllreduce"]
        self.assertEqual([op.get_attr("reduce_op") for op in found], [hvd_tf.Average])
        self.assertEqual([factor_of(op.get_attr("postscale_bits")) for op in found], [1.0])

    def test_sync_batch_normalization_gradient(self):
        x = np.random.RandomState(5).rand(4 * self.size, 3).astype("float32") * 4
        weights = np.random.RandomState(6).rand(4 * self.size, 3).astype("float32")
        whole, synchronous = keras.layers.BatchNormalization(), hvd_tf.SyncBatchNormalization()

        def gradient(layer, rows):
            data = tf.constant(x[rows])
            with tf.GradientTape() as tape:
                tape.watch(data)
                loss = tf.reduce_sum(layer(data, training=True) * weights[rows])
            return tape.gradient(loss, data).numpy()

        own = slice(self.rank, None, self.size)
        np.testing.assert_allclose(gradient(synchronous, own), gradient(whole, slice(None))[own], atol=1e-3)

    def test_partial_optimizer_leaves_layers_alone(self):
        import cohort.keras as hvd_keras

        if hvd_keras.keras.layers.Layer is not keras.layers.Layer:
            self.skipTest("`import keras` is not tf.keras here")
        model = model_of(self.start)
        optimizer = hvd_keras.PartialDistributedOptimizer(keras.optimizers.SGD(0.1), local_layers=model.layers[:1])
        model.compile(optimizer, "mse")
        x, y = self.part()
        model.fit(x, y, batch_size=len(x), epochs=1, shuffle=False, verbose=0)
        firsts = hvd_tf.allgather_object(model.get_weights()[0])
        seconds = hvd_tf.allgather_object(model.get_weights()[2])
        np.testing.assert_allclose(seconds[0], seconds[-1], atol=1e-6)
        if self.size > 1:
            self.assertGreater(np.abs(firsts[0] - firsts[-1]).max(), 1e-6)
