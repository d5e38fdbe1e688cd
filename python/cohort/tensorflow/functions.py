"""Variables and objects of one rank, on all."""

from __future__ import annotations

import pickle
from typing import Any, Callable, List, Optional, Sequence

import numpy as np
import tensorflow as tf

from cohort.common.objects import dumps, require_secret
from cohort.common.process_sets import ProcessSet, global_process_set
from cohort.tensorflow.mpi_ops import allgather, broadcast, broadcast_, rank, set_size
from cohort.tensorflow.util import _executing_eagerly


def broadcast_variables(variables: Sequence[Any], root_rank: int, process_set: ProcessSet = global_process_set,
                        inplace: bool = False) -> Any:  # fmt: skip
    """Gives the variables the values that they have on rank `root_rank`. In a graph of TensorFlow 1 returns the
    operation that does it. `inplace` is accepted; it makes no difference."""
    variables = [getattr(variable, "_value", variable) for variable in variables]  # Keras 3: the variable in it
    if _executing_eagerly():
        broadcast_(variables, root_rank, name="broadcast_variables", process_set=process_set)
        return None
    if tf.inside_function():
        broadcast_(variables, root_rank, process_set=process_set)
        return None
    return tf.group(*[variable.assign(broadcast(variable, root_rank, process_set=process_set))
                      for variable in variables])  # fmt: skip


def _evaluate(session: Any) -> Callable[[Any], np.ndarray[Any, Any]]:
    if _executing_eagerly():
        return lambda tensor: tensor.numpy()
    chosen = session or tf.compat.v1.get_default_session()
    if chosen is None:
        raise ValueError("in a graph, objects are exchanged in a session: give session=..., or make one the default")
    return lambda tensor: chosen.run(tensor)


def broadcast_object(obj: Any, root_rank: int = 0, session: Any = None, name: Optional[str] = None,
                     process_set: ProcessSet = global_process_set) -> Any:  # fmt: skip
    """The object of rank `root_rank`, on all ranks; it travels pickled, between the members of the job only."""
    require_secret()
    name = name or "broadcast_object"
    evaluate = _evaluate(session)
    is_root = rank() == root_rank
    data = np.frombuffer(dumps(obj), np.uint8) if is_root else np.empty(0, np.uint8)
    length = evaluate(broadcast(tf.constant([data.size], tf.int64), root_rank, name + ".sz", process_set=process_set))
    if not is_root:
        data = np.zeros(int(length[0]), np.uint8)
    data = evaluate(broadcast(tf.constant(data), root_rank, name + ".t", process_set=process_set))
    return obj if is_root else pickle.loads(data.tobytes())


def broadcast_object_fn(root_rank: int = 0, session: Any = None, name: Optional[str] = None,
                        process_set: ProcessSet = global_process_set) -> Callable[[Any], Any]:  # fmt: skip
    """For graphs of TensorFlow 1: a function that broadcasts objects and adds nothing to the graph when called."""
    name = name or "broadcast_object_fn"
    length_in = tf.compat.v1.placeholder(tf.int64, [1], name="broadcast_object_length")
    length_out = broadcast(length_in, root_rank, name + ".sz", process_set=process_set)
    data_in = tf.compat.v1.placeholder(tf.uint8, [None], name="broadcast_object_data")
    data_out = broadcast(data_in, root_rank, name + ".t", process_set=process_set)
    chosen = session or tf.compat.v1.get_default_session()

    def broadcast_one(obj: Any) -> Any:
        require_secret()
        is_root = rank() == root_rank
        data = np.frombuffer(dumps(obj), np.uint8) if is_root else np.empty(0, np.uint8)
        length = chosen.run(length_out, feed_dict={length_in: [data.size]})
        if not is_root:
            data = np.zeros(int(length[0]), np.uint8)
        data = chosen.run(data_out, feed_dict={data_in: data})
        return obj if is_root else pickle.loads(data.tobytes())

    return broadcast_one


def allgather_object(obj: Any, session: Any = None, name: Optional[str] = None,
                     process_set: ProcessSet = global_process_set) -> List[Any]:  # fmt: skip
    """The objects of all ranks, in rank order."""
    require_secret()
    name = name or "allgather_object"
    evaluate = _evaluate(session)
    data = np.frombuffer(dumps(obj), np.uint8)
    lengths = evaluate(allgather(tf.constant([data.size], tf.int64), name=name + ".sz", process_set=process_set))
    gathered = evaluate(allgather(tf.constant(data), name=name + ".t", process_set=process_set))
    ends = np.cumsum(lengths)
    return [pickle.loads(gathered[end - length:end].tobytes())
            for end, length in zip(ends[: set_size(process_set)], lengths)]  # fmt: skip
