"""Keras `fit` under MultiWorkerMirroredStrategy; finds its role in TF_CONFIG alone.

Learns y = 3 a - 2 b. Worker i sees samples in which only feature i is not zero, so a worker that
trained alone would never learn the other's weight: right weights prove that gradients were exchanged.
"""

import argparse
import hashlib

import numpy as np
import tensorflow as tf

TRUE_WEIGHTS = np.array([[3.0], [-2.0]], dtype=np.float32)
BATCH = 16
STEPS_PER_EPOCH = 10


def samples(context):
    random = np.random.default_rng(context.input_pipeline_id)
    features = np.zeros((BATCH * STEPS_PER_EPOCH, 2), dtype=np.float32)
    features[:, context.input_pipeline_id % 2] = random.normal(size=len(features))
    return tf.data.Dataset.from_tensor_slices((features, features @ TRUE_WEIGHTS)).repeat().batch(BATCH)


class Progress(tf.keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        print(f"epoch {epoch} loss {logs['loss']:.6f}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=6)
    options = parser.parse_args()

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        # No seed: replicas start equal only because the strategy makes them so.
        model = tf.keras.Sequential([tf.keras.layers.Dense(1, use_bias=False, input_shape=(2,))])
        model.compile(optimizer=tf.keras.optimizers.SGD(0.4), loss="mse")
    data = strategy.distribute_datasets_from_function(samples)
    model.fit(data, epochs=options.epochs, steps_per_epoch=STEPS_PER_EPOCH, verbose=0,
              callbacks=[Progress()])  # fmt: skip

    weights = model.get_weights()[0]
    error = float(np.abs(weights - TRUE_WEIGHTS).max())
    digest = hashlib.sha256(weights.tobytes()).hexdigest()[:16]
    resolver = strategy.cluster_resolver
    print(f"trained {resolver.task_type}/{resolver.task_id} replicas={strategy.num_replicas_in_sync} "
          f"error={error:.4f} weights={digest}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
