"""libcohort_tensorflow.so in TensorFlow: its operations, and the world that they use.

The operations run without Python. With TensorFlow's asynchronous kernels (2.15 has them, 2.12 not) one that waits
for its peers holds no thread; before, it holds one, and TensorFlow runs those of a tf.function in program order.
"""

from __future__ import annotations

import ctypes
import struct
from typing import Any

import numpy as np
import tensorflow as tf

from cohort import native
from cohort.common import basics, requests


def _load() -> Any:
    path = native.library_path().with_name("libcohort_tensorflow.so")
    if not path.is_file():
        raise ImportError(f"{path} is missing. Install the package again (pip install cohort-sdk), or build it in the "
                          "source tree (make)")  # fmt: skip
    operations = tf.load_op_library(str(path))
    functions = ctypes.CDLL(str(path))
    functions.cohort_tensorflow_bind.argtypes = [ctypes.c_void_p]
    functions.cohort_tensorflow_set_world.argtypes = [ctypes.c_void_p]
    functions.cohort_tensorflow_set_world.restype = None
    functions.cohort_tensorflow_missing.restype = ctypes.c_char_p
    missing = functions.cohort_tensorflow_missing()
    if missing:
        raise ImportError(f"TensorFlow {tf.__version__} has no {missing.decode()}, which Cohort's operations need: "
                          "install tensorflow>=2.12")  # fmt: skip
    if functions.cohort_tensorflow_bind(native.library()._handle) != 0:
        raise ImportError(f"{native.library_path()} and {path} are of different versions. Install the package again")
    return operations, functions


operations, _functions = _load()

asynchronous = bool(_functions.cohort_tensorflow_asynchronous())


def _run_in_any_order() -> None:
    """Lets the operations of a tf.function start as soon as their inputs are there.

    They are stateful, and TensorFlow otherwise runs stateful operations one after the other, in program order.
    """
    from tensorflow.python.framework import auto_control_deps

    names = {"CohortAllreduce", "CohortAllgather", "CohortReducescatter", "CohortBroadcast", "CohortAlltoall"}
    auto_control_deps.ASYNC_STATEFUL_OPS = frozenset(auto_control_deps.ASYNC_STATEFUL_OPS) | names


if asynchronous:
    _run_in_any_order()


def _leave_to_python() -> None:
    """Keeps AutoGraph, which rewrites what a tf.function calls, out of this package: nothing in it needs that."""
    from tensorflow.python.autograph.core import config

    config.CONVERSION_RULES = (config.DoNotConvert("cohort"), *config.CONVERSION_RULES)


_leave_to_python()


def _world_opened() -> None:
    _functions.cohort_tensorflow_set_world(requests.world())


def _world_closed() -> None:
    _functions.cohort_tensorflow_set_world(None)


basics.on_init.append(_world_opened)
basics.on_shutdown.append(_world_closed)
if basics.is_initialized():
    _world_opened()


def bits(factor: float, dtype: tf.DType) -> int:
    """A scale factor as an attribute: TensorFlow's have no float64. As exact as the tensor's own arithmetic."""
    if dtype in (tf.float32, tf.float16, tf.bfloat16):
        factor = float(np.float32(factor))
    return int(struct.unpack("<q", struct.pack("<d", factor))[0])


def factor_of(number: int) -> float:
    """The other way."""
    return float(struct.unpack("<d", struct.pack("<q", number))[0])
