"""For sessions of TensorFlow 1: global variables of one rank, on all."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from cohort.tensorflow.functions import broadcast_variables
from cohort.tensorflow.util import _executing_eagerly


def broadcast_global_variables(root_rank: int) -> Any:
    """The operation that gives all global variables of the graph the values of rank `root_rank`."""
    if _executing_eagerly():
        raise RuntimeError("hvd.broadcast_global_variables() works on a graph's collection of variables, which eager "
                           "execution does not have: use hvd.broadcast_variables(variables, root_rank=0)")  # fmt: skip
    return broadcast_variables(tf.compat.v1.global_variables(), root_rank)


class BroadcastGlobalVariablesHook(tf.compat.v1.train.SessionRunHook):  # type: ignore[misc]
    """Broadcasts all global variables from `root_rank` when a session was created."""

    def __init__(self, root_rank: int, device: str = "") -> None:
        super().__init__()
        self.root_rank = root_rank
        self.device = device
        self.bcast_op: Any = None

    def begin(self) -> None:
        if self.bcast_op is None or self.bcast_op.graph != tf.compat.v1.get_default_graph():
            with tf.device(self.device):
                self.bcast_op = broadcast_global_variables(self.root_rank)

    def after_create_session(self, session: Any, coord: Any) -> None:
        session.run(self.bcast_op)
