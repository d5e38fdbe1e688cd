"""What worker.cpp does with --distribution_strategy parameter_server, with TensorFlow's
ParameterServerStrategy: one task of a job that has a chief, workers and servers.

    tf_ps.py BATCH WARMUP STEPS RATE

The chief hands out WARMUP and then STEPS steps for each worker and prints how fast they were, the
last loss, and how many updates the servers counted. Same weights to begin with, same data, same
rule. Variables are sharded over the servers.
"""

import json
import math
import os
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy  # noqa: E402
import tensorflow as tf  # noqa: E402

SIZES = (784, 4096, 4096, 10)


def serve(resolver):
    server = tf.distribute.Server(
        resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id,
        protocol="grpc", config=tf.compat.v1.ConfigProto(intra_op_parallelism_threads=1))
    server.join()


def scattered(count, phase):
    sine = numpy.sin(numpy.arange(count, dtype=numpy.float64) + phase) * 43758.5453
    return (sine - numpy.floor(sine)) * 2 - 1


def initial_weight(k, inside, out):
    values = scattered(inside * out, 0.5 * k) / math.sqrt(inside)
    return values.astype(numpy.float32).reshape(out, inside).T


def make_variables():
    variables = []
    for k, (inside, out) in enumerate(zip(SIZES, SIZES[1:]), start=1):
        weight = initial_weight(k, inside, out)
        variables.append((tf.Variable(weight, name=f"weight{k}"),
                          tf.Variable(tf.zeros(out), name=f"bias{k}")))
    return variables


def samples(batch, workers):
    """The batches of all of the Cohort workers, in turn, for ever."""
    data = scattered(workers * batch * SIZES[0], 0).astype(numpy.float32)
    data = data.reshape(workers, batch, SIZES[0])
    target = (numpy.arange(workers * batch) % SIZES[-1]).reshape(workers, batch)
    return tf.data.Dataset.from_tensor_slices((data, target)).repeat()


def train(resolver, batch, warmup, steps, rate):
    servers = resolver.cluster_spec().num_tasks("ps")
    workers = resolver.cluster_spec().num_tasks("worker")
    strategy = tf.distribute.ParameterServerStrategy(
        resolver, variable_partitioner=tf.distribute.experimental.partitioners.MinSizePartitioner(
            max_shards=servers))
    with strategy.scope():
        layers = make_variables()
        optimizer = tf.keras.optimizers.legacy.SGD(rate)
    variables = [variable for layer in layers for variable in layer]
    shards = [shard for variable in variables for shard in getattr(variable, "variables", [variable])]

    def update(x, target):
        with tf.GradientTape() as tape:
            for weight, bias in layers[:-1]:
                x = tf.nn.relu(tf.matmul(x, weight) + bias)
            x = tf.matmul(x, layers[-1][0]) + layers[-1][1]
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(target, x))
        optimizer.apply_gradients(zip(tape.gradient(loss, shards), shards))
        return loss

    @tf.function
    def step(iterator):
        return strategy.run(update, args=next(iterator))

    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    iterator = iter(coordinator.create_per_worker_dataset(lambda: samples(batch, workers)))
    first_loss = coordinator.schedule(step, args=(iterator,)).fetch()
    for _ in range(warmup * workers):
        coordinator.schedule(step, args=(iterator,))
    coordinator.join()
    before = int(optimizer.iterations)
    begin = time.monotonic()
    losses = [coordinator.schedule(step, args=(iterator,)) for _ in range(steps * workers)]
    coordinator.join()
    seconds = time.monotonic() - begin
    print("measured", json.dumps({
        "samples_per_second": batch * steps * workers / seconds, "first_loss": float(first_loss),
        "loss": float(losses[-1].fetch()), "updates": int(optimizer.iterations) - before,
        "wanted_updates": steps * workers}), flush=True)


def main():
    tf.config.threading.set_intra_op_parallelism_threads(1)
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if resolver.task_type in ("worker", "ps"):
        serve(resolver)
    else:
        train(resolver, *map(int, sys.argv[1:4]), float(sys.argv[4]))


main()
