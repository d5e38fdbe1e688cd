"""ParameterServerStrategy with a coordinator; finds its role in TF_CONFIG alone.

Workers and parameter servers start a server and wait in join(), which never returns. The chief
trains through a ClusterCoordinator until every worker has taken part and the weights are right.
"""

import sys
import time

import tensorflow as tf

TRUE_WEIGHTS = tf.constant([[3.0], [-2.0]])
GIVE_UP_AFTER_S = 60


def serve(resolver):
    server = tf.distribute.Server(resolver.cluster_spec(), job_name=resolver.task_type,
                                  task_index=resolver.task_id, protocol="grpc")  # fmt: skip
    print(f"serving as {resolver.task_type}/{resolver.task_id}", flush=True)
    server.join()


def samples(_context=None):
    """Runs once on every worker, which draws a number of its own that says who computed a step."""
    worker = tf.random.uniform((), maxval=2**31 - 1, dtype=tf.int32)
    features = tf.random.normal((64, 2))
    labels = features @ TRUE_WEIGHTS
    return tf.data.Dataset.from_tensors((worker, features, labels)).repeat()


def train(resolver):
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    with strategy.scope():
        weights = tf.Variable(tf.zeros((2, 1)), name="weights")
        steps = tf.Variable(0, dtype=tf.int64, name="steps")
    print(f"weights live on {weights.device}", flush=True)

    @tf.function
    def step(iterator):
        worker, features, labels = next(iterator)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((features @ weights - labels) ** 2)
        weights.assign_sub(0.1 * tape.gradient(loss, weights))
        steps.assign_add(1)
        return worker, loss

    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    iterator = iter(coordinator.create_per_worker_dataset(samples))
    wanted_workers = resolver.cluster_spec().num_tasks("worker")
    workers, error, scheduled = set(), float("inf"), 0
    deadline = time.monotonic() + GIVE_UP_AFTER_S
    while len(workers) < wanted_workers or error > 0.01:
        if time.monotonic() > deadline:
            sys.exit(f"gave up: {len(workers)} of {wanted_workers} workers took part, error {error}")
        results = [coordinator.schedule(step, args=(iterator,)) for _ in range(20)]
        coordinator.join()
        scheduled += len(results)
        workers |= {int(result.fetch()[0]) for result in results}
        error = float(tf.reduce_max(tf.abs(weights - TRUE_WEIGHTS)))
    if int(steps) != scheduled:
        sys.exit(f"the parameter server counted {int(steps)} steps, the chief scheduled {scheduled}")
    print(f"trained workers={len(workers)} steps={scheduled} error={error:.4f}", flush=True)


def main():
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if resolver.task_type in ("worker", "ps"):
        serve(resolver)
    else:
        train(resolver)


if __name__ == "__main__":
    main()
