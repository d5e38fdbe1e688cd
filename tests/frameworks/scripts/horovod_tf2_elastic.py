"""Elastic training in TensorFlow 2 with a gradient tape, as a user of Horovod writes it. The data are made up."""

import argparse
import os
import time

import numpy as np
import tensorflow as tf

import horovod.tensorflow as hvd

parser = argparse.ArgumentParser()
parser.add_argument("--until", default="", help="train until this file is there")
args = parser.parse_args()

hvd.init()
tf.random.set_seed(42)

generator = np.random.default_rng(1 + hvd.rank())
images = generator.random((640, 49), dtype=np.float32)
labels = (images[:, :10]).argmax(axis=1)
dataset = tf.data.Dataset.from_tensor_slices((images, labels)).repeat().batch(16)
options = tf.data.Options()
options.autotune.enabled = False  # its thread takes a second to end, which would be taken for the cost of a lost worker
dataset = dataset.with_options(options)

model = tf.keras.Sequential([tf.keras.Input((49,)), tf.keras.layers.Dense(32, activation="relu"),
                             tf.keras.layers.Dense(10)])  # fmt: skip
loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
optimizer = tf.keras.optimizers.Adam(0.001 * hvd.size())


@tf.function
def train_one_batch(data, target, allreduce=True):
    with tf.GradientTape() as tape:
        loss = loss_of(target, model(data, training=True))
    if allreduce:
        tape = hvd.DistributedGradientTape(tape)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


for data, target in dataset.take(1):
    train_one_batch(data, target, allreduce=False)  # builds the model and the optimizer


@hvd.elastic.run
def train(state):
    print(f"begin batch={state.batch} rank={hvd.rank()} size={hvd.size()}", flush=True)
    for data, target in dataset:
        train_one_batch(data, target)
        time.sleep(0.01)
        state.batch += 1
        print(f"step number={state.batch} rank={hvd.rank()} size={hvd.size()} pid={os.getpid()} at={time.time():.3f}",
              flush=True)  # fmt: skip
        if state.batch % 5 == 0:
            enough = hvd.allreduce(tf.constant(float(os.path.exists(args.until))), op=hvd.Max, name="enough")
            state.commit()
            if enough > 0:
                return


def on_state_reset():
    optimizer.learning_rate.assign(0.001 * hvd.size())


state = hvd.elastic.TensorFlowKerasState(model, optimizer, batch=0)
state.register_reset_callbacks([on_state_reset])
train(state)
weights = tf.stack([tf.reduce_sum(tf.abs(value)) for value in model.trainable_variables])
everywhere = hvd.allgather(weights[None], name="weights")
print(f"done rank={hvd.rank()} size={hvd.size()} batch={state.batch} weights={float(tf.reduce_sum(weights)):.6f} "
      f"equal={bool(tf.reduce_all(everywhere == weights[None]))}", flush=True)  # fmt: skip
