"""Trains a Keras 3 model on this rank's rows only, and beside it one on all rows in this process alone: with a
distributed optimizer both must end with the same weights. KERAS_BACKEND says on what Keras runs."""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np

import cohort.keras as hvd
from cohort.common.basics import Max, Min, Product

hvd.init()
with_tensorflow = "tensorflow" in sys.modules  # Keras itself loads it later, where it is installed
rank, size = hvd.rank(), hvd.size()
generator = np.random.RandomState(0)
x, y = generator.rand(8 * size, 4).astype("float32"), generator.rand(8 * size, 2).astype("float32")


def model_of(weights=None):
    layers = [keras.layers.Input((4,)), keras.layers.Dense(8, activation="tanh"), keras.layers.Dense(2)]
    model = keras.Sequential(layers)
    if weights is not None:
        model.set_weights(weights)
    return model


def difference(model, other):
    return max(float(np.abs(a - b).max()) for a, b in zip(model.get_weights(), other.get_weights()))


keras.utils.set_random_seed(7)
start = model_of().get_weights()
whole = model_of(start)
whole.compile(keras.optimizers.SGD(0.1, momentum=0.9), "mse")
whole.fit(x, y, batch_size=8 * size, epochs=3, shuffle=False, verbose=0)

errors = []
for passes in (1, 2):
    parts = model_of(start)
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.1, momentum=0.9), backward_passes_per_step=passes,
                                         average_aggregated_gradients=True)  # fmt: skip
    parts.compile(optimizer, "mse")
    callbacks = [hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()]
    history = parts.fit(x[rank::size], y[rank::size], batch_size=8, epochs=3 * passes, shuffle=False, verbose=0,
                        callbacks=callbacks)  # fmt: skip
    errors.append(difference(parts, whole))

path = os.path.join(sys.argv[1], f"model{rank}.keras")
parts.save(path)
loaded = hvd.load_model(path)
for model in (loaded, whole):
    rows = slice(None) if model is whole else slice(rank, None, size)
    model.fit(x[rows], y[rows], batch_size=8 * size, epochs=1, shuffle=False, verbose=0)
errors.append(difference(loaded, whole))

kept = model_of([weight + rank for weight in start])
kept.compile(keras.optimizers.SGD(0.0), "mse")
callback = hvd.callbacks.BroadcastGlobalVariablesCallback(0, local_variables=kept.layers[-1].kernel)
callback.register_local_var(kept.layers[-1].bias)
kept.fit(x[rank::size], y[rank::size], batch_size=8, epochs=1, verbose=0, callbacks=[callback])
errors.append(difference(kept, model_of(start[:2] + [weight + rank for weight in start[2:]])))

refused = 0
for op in (hvd.Adasum, Min, Max, Product):
    try:
        hvd.DistributedOptimizer(keras.optimizers.SGD(0.1), op=op)
    except ValueError:
        refused += 1

alone = model_of(start)
alone.compile(keras.optimizers.SGD(0.1, momentum=0.9), "mse")
alone.fit(x[rank::size], y[rank::size], batch_size=8, epochs=4, shuffle=False, verbose=0)
print("trained keras=%s backend=%s tensorflow=%s errors=%s alone=%.6f refused=%d loss=%.6f" % (
    keras.__version__, keras.backend.backend(), with_tensorflow,
    ",".join("%.1e" % error for error in errors), difference(alone, whole), refused,
    history.history["loss"][-1]))  # fmt: skip
