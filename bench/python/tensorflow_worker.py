"""One worker of python_bench.py: exchanges the gradients of the MLP inside a tf.function, again and again.

    tensorflow_worker.py cohort|mirrored WARMUP STEPS

Prints how many exchanges it made a second; the sums are checked.
"""

import json
import os
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow as tf  # noqa: E402

SHAPES = ((784, 4096), (4096,), (4096, 4096), (4096,), (4096, 10), (10,))


def make_gradients(rank):
    return [tf.fill(shape, float(i + 1 + rank)) for i, shape in enumerate(SHAPES)]


def make_cohort():
    import cohort.tensorflow as hvd

    hvd.init()

    @tf.function
    def exchange(gradients):
        return hvd.grouped_allreduce(gradients, op=hvd.Sum)

    return hvd.rank(), hvd.size(), exchange


def make_mirrored():
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    rank = strategy.cluster_resolver.task_id

    def reduce(gradients):
        made_here = [tf.identity(gradient) for gradient in gradients]  # on this replica's device
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, made_here)

    @tf.function
    def exchange(gradients):
        return strategy.run(reduce, args=(gradients,))

    return rank, strategy.num_replicas_in_sync, exchange


def main():
    tf.config.threading.set_intra_op_parallelism_threads(1)
    warmup, steps = map(int, sys.argv[2:4])
    rank, size, exchange = (make_cohort if sys.argv[1] == "cohort" else make_mirrored)()
    gradients = make_gradients(rank)
    for i in range(warmup + steps):
        if i == warmup:
            begin = time.monotonic()
        sums = exchange(gradients)
        last = sums[-1].numpy()  # as a step does that reads its loss
    seconds = time.monotonic() - begin
    for i, value in enumerate(sums):
        wanted = sum(i + 1 + other for other in range(size))
        if not (value.numpy() == wanted).all():
            sys.exit(f"rank {rank}: gradient {i} is {value.numpy()}, not {wanted}")
    assert last.shape == SHAPES[-1]
    print("measured", json.dumps({"rank": rank, "exchanges_per_second": steps / seconds}), flush=True)


main()
