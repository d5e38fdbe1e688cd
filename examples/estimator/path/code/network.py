"""The network and its data, for both ways of training."""

import os

import numpy as np
import tensorflow as tf

SHAPES = [(2, 48), (48,), (48, 48), (48,), (48, 3), (3,)]
v1 = tf.compat.v1


def first_weights(seed=1):
    """What the weights are before the first step; the same in every process."""
    random = np.random.RandomState(seed)
    spread = [(2 / shape[0]) ** 0.5 if len(shape) == 2 else 0 for shape in SHAPES]
    return [random.normal(0, scale, shape).astype(np.float32) for scale, shape in zip(spread, SHAPES)]


def loss_and_accuracy(weights, points, arms):
    layer = points
    for at in range(0, len(weights), 2):
        layer = tf.matmul(layer, weights[at]) + weights[at + 1]
        layer = tf.nn.relu(layer) if at + 2 < len(weights) else layer
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=arms, logits=layer))
    right = tf.equal(tf.argmax(layer, axis=1, output_type=tf.int32), arms)
    return loss, tf.reduce_mean(tf.cast(right, tf.float32))


def read(folder, name):
    """Points and arms of data/NAME.csv."""
    table = np.loadtxt(os.path.join(folder, name + ".csv"), delimiter=",", dtype=np.float32)
    return table[:, :2], table[:, 2].astype(np.int32)


def batches(points, arms, size, seed):
    """Batches without end; each worker has a seed, and so an order, of its own."""
    random = np.random.RandomState(seed)
    while True:
        chosen = random.randint(0, len(points), size)
        yield points[chosen], arms[chosen]


class Report:
    """The chief's words: lines in the log, scalars for TensorBoard, and the model at the end."""

    def __init__(self, arguments, is_chief):
        self.folder = arguments.model if is_chief else None
        with tf.Graph().as_default():  # summary files are of graphs, also where all else is eager
            self.writer = v1.summary.FileWriter(arguments.output) if is_chief else None

    def step(self, step, loss):
        print(f"step={step} loss={loss:.4f}", flush=True)
        self._scalar("loss", step, loss)

    def end(self, step, accuracy, weights):
        if self.writer is None:
            return
        self._scalar("accuracy", step, accuracy)
        self.writer.close()
        os.makedirs(self.folder, exist_ok=True)
        np.savez(os.path.join(self.folder, "weights.npz"), *weights)
        print(f"trained: accuracy={accuracy:.3f} after {step} steps", flush=True)

    def _scalar(self, name, step, value):
        if self.writer is not None:
            value = v1.Summary.Value(tag=name, simple_value=float(value))
            self.writer.add_summary(v1.Summary(value=[value]), step)
