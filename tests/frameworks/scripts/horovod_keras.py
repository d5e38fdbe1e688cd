"""A Keras program written for Horovod, with the four callbacks that its users have. Nothing in it is Cohort's.

Usage: horovod_keras.py LOG_FOLDER
"""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

import horovod.tensorflow.keras as hvd

hvd.init()
log_folder = os.path.join(sys.argv[1], "logs", f"worker_{hvd.rank()}")

templates = np.random.RandomState(0).rand(10, 64).astype("float32")
generator = np.random.RandomState(100 + hvd.rank())
labels = generator.randint(0, 10, 512)
images = templates[labels] + 0.3 * generator.randn(512, 64).astype("float32")
dataset = tf.data.Dataset.from_tensor_slices((images, labels.astype("int64"))).repeat().shuffle(512).batch(16)

model = tf.keras.Sequential([
    tf.keras.layers.Input((64,)),
    tf.keras.layers.Dense(32, activation="relu"),
    tf.keras.layers.Dense(10, activation="softmax"),
])

# Horovod: the learning rate grows with the number of ranks, and the optimizer exchanges gradients.
scaled_lr = 0.002 * hvd.size()
opt = hvd.DistributedOptimizer(
    tf.optimizers.Adam(scaled_lr), backward_passes_per_step=1, average_aggregated_gradients=True)
model.compile(loss=tf.losses.SparseCategoricalCrossentropy(), optimizer=opt, metrics=["accuracy"])

callbacks = [
    # Variables of rank 0 on all ranks: weights that are random, or were restored, must agree.
    hvd.callbacks.BroadcastGlobalVariablesCallback(0),
    # Average metrics at the end of every epoch. Must come before callbacks that read them.
    hvd.callbacks.MetricAverageCallback(),
    # The scaled learning rate is too much at first: warm up.
    hvd.callbacks.LearningRateWarmupCallback(initial_lr=scaled_lr, warmup_epochs=5, verbose=int(hvd.rank() == 0)),
    tf.keras.callbacks.ReduceLROnPlateau(monitor="loss", patience=10),
    # Every worker writes its own log.
    tf.keras.callbacks.CSVLogger(os.path.join(log_folder, "training.csv")),
]
os.makedirs(log_folder, exist_ok=True)

# Horovod: fewer steps an epoch with more ranks.
history = model.fit(dataset, steps_per_epoch=60 // hvd.size(), callbacks=callbacks, epochs=6, verbose=0)

weights = float(sum(np.abs(w).sum() for w in model.get_weights()))
rates = ",".join("%.5f" % rate for rate in history.history["lr"])
print("\ntrained rank=%d size=%d accuracy=%.3f loss=%.6f weights=%.6f lr=%s"
      % (hvd.rank(), hvd.size(), history.history["accuracy"][-1], history.history["loss"][-1], weights, rates))
