"""Synchronous training: every process has all weights, and gradients are averaged between them after each step.

Written against five functions of Horovod. Where Horovod is not installed, mpi_functions offers the same five on
mpi4py; mpirun starts both in the same way."""

import network
import tensorflow as tf

try:
    import horovod.tensorflow as hvd
except ImportError:
    import mpi_functions as hvd

tf.compat.v1.enable_eager_execution()


def train(arguments):
    hvd.init()
    report = network.Report(arguments, is_chief=hvd.rank() == 0)
    print(f"rank {hvd.rank()} of {hvd.size()}, with {hvd.__name__}", flush=True)
    points, arms = network.read(arguments.data, "train")
    test = network.read(arguments.data, "test")
    weights = [tf.Variable(hvd.broadcast(tf.constant(value), 0)) for value in network.first_weights(seed=hvd.rank())]
    optimizer = tf.keras.optimizers.Adam(arguments.learning_rate)

    samples = network.batches(points, arms, arguments.batch_size, seed=hvd.rank())
    for step in range(1, arguments.steps + 1):
        with tf.GradientTape() as tape:
            loss, _ = network.loss_and_accuracy(weights, *next(samples))
        gradients = [hvd.allreduce(gradient) for gradient in tape.gradient(loss, weights)]
        optimizer.apply_gradients(zip(gradients, weights))
        if step % 50 == 0:
            mean = float(hvd.allreduce(loss))  # of all processes
            if hvd.rank() == 0:
                report.step(step, mean)
    _, accuracy = network.loss_and_accuracy(weights, *test)
    report.end(arguments.steps, float(accuracy), [weight.numpy() for weight in weights])
