"""Elastic training with tf.keras's fit(), as a user of Horovod writes it. The data are made up, so that it takes seconds."""

import argparse
import os
import time

import numpy as np
import tensorflow as tf

import horovod.tensorflow.keras as hvd

parser = argparse.ArgumentParser()
parser.add_argument("--until", default="", help="train until this file is there")
args = parser.parse_args()

hvd.init()
tf.keras.utils.set_random_seed(42)

generator = np.random.default_rng(1 + hvd.rank())
images = generator.random((640, 49), dtype=np.float32)
labels = (images[:, :10]).argmax(axis=1)
dataset = tf.data.Dataset.from_tensor_slices((images, labels)).repeat().shuffle(640, seed=hvd.rank()).batch(16)
options = tf.data.Options()
options.autotune.enabled = False  # its thread takes a second to end, which would be taken for the cost of a lost worker
dataset = dataset.with_options(options)

model = tf.keras.Sequential([tf.keras.Input((49,)), tf.keras.layers.Dense(32, activation="relu"),
                             tf.keras.layers.Dense(10, activation="softmax")])  # fmt: skip
optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.Adam(0.001 * hvd.size()))
model.compile(optimizer=optimizer, loss="sparse_categorical_crossentropy", metrics=["accuracy"])


def on_state_reset():
    model.optimizer.learning_rate.assign(0.001 * hvd.size())


state = hvd.elastic.KerasState(model, batch=0, epoch=0)
state.register_reset_callbacks([on_state_reset])


class Report(tf.keras.callbacks.Callback):
    def on_batch_end(self, batch, logs=None):
        time.sleep(0.01)
        print(f"step number={batch} rank={hvd.rank()} size={hvd.size()} pid={os.getpid()} at={time.time():.3f}", flush=True)


callbacks = [Report(), hvd.elastic.UpdateBatchStateCallback(state), hvd.elastic.UpdateEpochStateCallback(state),
             hvd.elastic.CommitStateCallback(state)]  # fmt: skip


@hvd.elastic.run
def train(state):
    print(f"begin epoch={state.epoch} batch={state.batch} rank={hvd.rank()} size={hvd.size()}", flush=True)
    while not (hvd.allreduce(float(os.path.exists(args.until)), name="enough") > 0 and state.epoch > 0):
        state.model.fit(dataset, steps_per_epoch=20, epochs=1, callbacks=callbacks, verbose=0)


train(state)
weights = [float(np.abs(value).sum()) for value in model.get_weights()]
everywhere = hvd.allgather(np.array([weights], dtype=np.float64), name="weights")
print(f"done rank={hvd.rank()} size={hvd.size()} epoch={state.epoch} weights={sum(weights):.6f} "
      f"equal={bool((np.asarray(everywhere) == np.array([weights])).all())}", flush=True)  # fmt: skip
