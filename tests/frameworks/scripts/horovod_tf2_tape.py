"""A TensorFlow 2 program written for Horovod: a custom training loop with a gradient tape. Nothing in it is Cohort's.

Learns to tell ten kinds of small images apart; each rank sees its own.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

import horovod.tensorflow as hvd

# Horovod: initialize, and one GPU a process where there are some.
hvd.init()
gpus = tf.config.experimental.list_physical_devices("GPU")
if gpus:
    tf.config.experimental.set_visible_devices(gpus[hvd.local_rank()], "GPU")

templates = np.random.RandomState(0).rand(10, 8, 8, 1).astype("float32")
generator = np.random.RandomState(100 + hvd.rank())
labels = generator.randint(0, 10, 512)
images = templates[labels] + 0.3 * generator.randn(512, 8, 8, 1).astype("float32")
dataset = tf.data.Dataset.from_tensor_slices((images, labels.astype("int64"))).repeat().shuffle(512).batch(32)

tf.random.set_seed(hvd.rank())  # the ranks begin with different weights
model = tf.keras.Sequential([
    tf.keras.layers.Conv2D(8, [3, 3], activation="relu"),
    tf.keras.layers.Flatten(),
    tf.keras.layers.Dense(10, activation="softmax"),
])
loss = tf.losses.SparseCategoricalCrossentropy()

# Horovod: the learning rate grows with the number of ranks.
opt = tf.optimizers.Adam(0.002 * hvd.size())


@tf.function
def training_step(images, labels, first_batch):
    with tf.GradientTape() as tape:
        probs = model(images, training=True)
        loss_value = loss(labels, probs)

    # Horovod: gradients are averaged over the ranks.
    tape = hvd.DistributedGradientTape(tape)

    grads = tape.gradient(loss_value, model.trainable_variables)
    opt.apply_gradients(zip(grads, model.trainable_variables))
    return loss_value


def broadcast():
    """Horovod: after the first step all variables exist, and take over the values of rank 0."""
    hvd.broadcast_variables(model.variables, root_rank=0)
    variables = opt.variables
    hvd.broadcast_variables(variables() if callable(variables) else variables, root_rank=0)


# Horovod: fewer steps with more ranks.
for batch, (images, labels) in enumerate(dataset.take(160 // hvd.size())):
    loss_value = training_step(images, labels, batch == 0)
    if batch == 0:
        broadcast()
    if batch % 40 == 0 and hvd.local_rank() == 0:
        print("Step #%d\tLoss: %.6f" % (batch, loss_value))

weights = float(sum(np.abs(v.numpy()).sum() for v in model.trainable_variables))
print("trained rank=%d size=%d loss=%.4f weights=%.6f" % (hvd.rank(), hvd.size(), loss_value, weights))
