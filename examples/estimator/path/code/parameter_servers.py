"""Asynchronous training with parameter servers, as programs for TensorFlow 1 do it: every worker reads the
weights from the servers and sends its gradients there. TF_CONFIG says who is who; without one it trains alone."""

import json
import os
import time

import network
import tensorflow as tf

v1 = tf.compat.v1
v1.disable_eager_execution()
v1.enable_resource_variables()  # no increment of the common step is lost


def train(arguments):
    config = json.loads(os.environ.get("TF_CONFIG", "{}"))
    cluster, task = config.get("cluster", {}), config.get("task", {"type": "worker", "index": 0})
    kind, index = task["type"], task["index"]
    first = next((name for name in ("master", "chief") if name in cluster), "worker")
    server = v1.train.Server(cluster, job_name=kind, task_index=index) if cluster else None
    if kind == "ps":
        print(f"parameter server {index} serves", flush=True)
        server.join()  # until the job ends it
    is_chief = kind == first and index == 0
    workers = sum(len(cluster.get(name, [])) for name in ("master", "chief", "worker")) or 1
    me = f"/job:{kind}/task:{index}" if cluster else None
    report = network.Report(arguments, is_chief)
    points, arms = network.read(arguments.data, "train")
    test = network.read(arguments.data, "test")

    with v1.device(v1.train.replica_device_setter(cluster=cluster, worker_device=me) if cluster else None):
        steps = v1.train.get_or_create_global_step()
        weights = [v1.Variable(value, name=f"weight{at}") for at, value in enumerate(network.first_weights())]
        some_points, some_arms = v1.placeholder(tf.float32, [None, 2]), v1.placeholder(tf.int32, [None])
        loss, accuracy = network.loss_and_accuracy(weights, some_points, some_arms)
        update = v1.train.AdamOptimizer(arguments.learning_rate).minimize(loss, global_step=steps)

    samples = network.batches(points, arms, arguments.batch_size, seed=0 if is_chief else 1 + index)
    filters = ["/job:ps", me] if cluster else []  # workers do not wait for one another
    print(f"{me or 'alone'}: {workers} workers, {len(cluster.get('ps', []))} parameter servers", flush=True)
    with v1.train.MonitoredTrainingSession(master=server.target if server else "", is_chief=is_chief,
                                           config=v1.ConfigProto(device_filters=filters),
                                           log_step_count_steps=None) as session:  # fmt: skip
        for own in range(arguments.steps):
            some = next(samples)
            _, value, step = session.run([update, loss, steps], {some_points: some[0], some_arms: some[1]})
            if own % 50 == 0:
                report.step(step, value)
        print(f"{me or 'alone'}: computed {arguments.steps} steps", flush=True)
        if is_chief:
            while session.run(steps) < arguments.steps * workers:  # the others are still at work
                time.sleep(0.1)
            reached, found = session.run([accuracy, weights], {some_points: test[0], some_arms: test[1]})
            report.end(arguments.steps * workers, reached, found)
