"""Python objects between the ranks of a world, pickled; and the calls that move no data.

A pickle can run code when it is read. Only members of the job send any here: they have proved that they know its
secret. Nothing is read from disk.
"""

from __future__ import annotations

import ctypes
import importlib
import pickle
from typing import Any, List, Optional

from cohort.common import basics, requests
from cohort.common.process_sets import ProcessSet, global_process_set, root_in_set, set_id_of
from cohort.native import DType


def require_secret() -> None:
    """Of a job without a secret any process that reaches a port may be a rank."""
    if basics.size() > 1 and not basics.job_info().authenticated:
        raise ValueError("objects are not exchanged in a job without a secret: a pickle from another process could run "
                         "code here. Start the job with `cohort run`, or give every task the same "
                         "COHORT_SECRET_FILE")  # fmt: skip


def dumps(obj: Any) -> bytes:
    """The object as a pickle; of lambdas and local classes, too, where cloudpickle is installed."""
    try:
        return pickle.dumps(obj, pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError):
        try:
            cloudpickle: Any = importlib.import_module("cloudpickle")
        except ImportError:
            cloudpickle = None
        if cloudpickle is None:
            raise
        return bytes(cloudpickle.dumps(obj, pickle.HIGHEST_PROTOCOL))


def _buffer(data: bytes) -> ctypes.Array[ctypes.c_char]:
    return ctypes.create_string_buffer(data, max(len(data), 1))


def _bytes(data: Any, size: int) -> requests.TensorArgument:
    return ctypes.addressof(data), ctypes.addressof(data), DType.U8, (size,)


def broadcast_object(obj: Any, root_rank: int = 0, name: Optional[str] = None,
                     process_set: ProcessSet = global_process_set) -> Any:  # fmt: skip
    """The object of `root_rank`, on every rank of the set. The root gets its own, not a copy."""
    require_secret()
    number, root = set_id_of(process_set), root_in_set(process_set, root_rank)
    name = name or requests.next_name("broadcast_object", number)
    is_root = basics.rank() == root_rank
    data = _buffer(dumps(obj)) if is_root else _buffer(b"")
    size = ctypes.c_int64(len(data) if is_root else 0)
    where = ctypes.addressof(size)
    requests.run(requests.BROADCAST, name + ".size", [(where, where, DType.I64, (1,))], 1, number, root)
    if not is_root:
        data = ctypes.create_string_buffer(size.value)
    requests.run(requests.BROADCAST, name, [_bytes(data, size.value)], 1, number, root)
    return obj if is_root else pickle.loads(data)


def allgather_object(obj: Any, name: Optional[str] = None, process_set: ProcessSet = global_process_set) -> List[Any]:
    """The objects of all ranks of the set, in rank order."""
    require_secret()
    number = set_id_of(process_set)
    name = name or requests.next_name("allgather_object", number)
    data = _buffer(dumps(obj))
    size = ctypes.c_int64(len(data))
    where = ctypes.addressof(size)
    lengths = requests.run(requests.ALLGATHER, name + ".size", [(where, 0, DType.I64, (1,))], 1, number)
    gathered = requests.run(requests.ALLGATHER, name, [_bytes(data, len(data))], 1, number)
    assert lengths is not None and gathered is not None
    everything = memoryview(gathered.memory())
    objects, start = [], 0
    for length in memoryview(lengths.memory()).cast("B").cast("q"):
        objects.append(pickle.loads(everything[start : start + length]))
        start += length
    return objects


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Returns when every rank of the set has called it."""
    number = set_id_of(process_set)
    requests.run(requests.BARRIER, requests.next_name("barrier", number), (), 1, number)


def join() -> int:
    """This rank is out of data: it takes part in the others' all-reduces with zeros until all have joined.

    Returns the rank that joined last.
    """
    handle = requests.run(requests.JOIN, "join")
    assert handle is not None
    requests.count_names_again()  # ranks that had joined made up no names for what the others exchanged
    return handle.value()
