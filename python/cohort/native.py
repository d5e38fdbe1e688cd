"""src/cohort/capi/cohort_c.h in ctypes: its numbers, structs and functions, and where its library is.

The library is loaded when `library()` is first called, not at import. What the functions mean is in the header;
tests/python/native_test.py compares the two.
"""

from __future__ import annotations

import ctypes
import enum
import os
import pathlib
from ctypes import POINTER, c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint64, c_void_p
from typing import Any, Dict, List, NoReturn, Optional, Tuple

from cohort.common import signals
from cohort.common.exceptions import HorovodInternalError

ABI_VERSION = 1


class Status(enum.IntEnum):
    OK = 0
    PENDING = 1
    INVALID = 2
    MISMATCH = 3
    PEER = 4
    TIMED_OUT = 5
    AUTH = 6
    INTERRUPTED = 7
    DISMISSED = 8
    CLOSED = 9
    INTERNAL = 10


class DType(enum.IntEnum):
    U8 = 0
    I8 = 1
    U16 = 2
    I16 = 3
    I32 = 4
    I64 = 5
    F16 = 6
    F32 = 7
    F64 = 8
    BOOL = 9
    BF16 = 10
    U32 = 11
    U64 = 12
    C64 = 13
    C128 = 14


class Op(enum.IntEnum):
    AVERAGE = 0
    SUM = 1
    ADASUM = 2
    MIN = 3
    MAX = 4
    PRODUCT = 5


class Kind(enum.IntEnum):
    ALLREDUCE = 0
    ALLGATHER = 1
    BROADCAST = 2
    ALLTOALL = 3
    REDUCESCATTER = 4
    BARRIER = 5
    JOIN = 6
    SHARD_SUM = 7


class JoinOptions(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("timeout_ms", c_int64)]


class JobInfo(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("rank", c_int32), ("size", c_int32), ("elastic", c_int32), ("alone", c_int32),
        ("id", c_char_p), ("output", c_char_p), ("dialect", c_char_p), ("authenticated", c_int32),
    ]  # fmt: skip


class WorldOptions(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("ranks", POINTER(c_int32)), ("rank_count", c_int32), ("timeout_ms", c_int64),
        ("fusion_bytes", c_int64), ("cycle_us", c_int64), ("stall_warning_s", c_double),
        ("stall_shutdown_s", c_double), ("stage", c_int64), ("why", c_char_p),
    ]  # fmt: skip


class WorldInfo(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("rank", c_int32), ("size", c_int32), ("local_rank", c_int32),
        ("local_size", c_int32), ("cross_rank", c_int32), ("cross_size", c_int32), ("homogeneous", c_int32),
        ("view", c_int64), ("newcomer", c_int32),
    ]  # fmt: skip


class Tensor(ctypes.Structure):
    # Pointers are plain addresses: ctypes sets a c_void_p from an int without an object in between.
    _fields_ = [("in", c_void_p), ("out", c_void_p), ("dtype", c_int32), ("ndim", c_int32), ("shape", c_void_p)]


class Request(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("kind", c_int32), ("set", c_int32), ("name", c_char_p), ("op", c_int32),
        ("root", c_int32), ("prescale", c_double), ("postscale", c_double), ("tensors", c_void_p),
        ("tensor_count", c_int32), ("splits", c_void_p), ("split_count", c_int32), ("shards", c_int32),
        ("partials", c_void_p), ("allocate", c_void_p), ("done", c_void_p), ("user", c_void_p),
    ]  # fmt: skip


class ShardNode(ctypes.Structure):
    _fields_ = [("first", c_int32), ("count", c_int32)]


ALLOCATE = ctypes.CFUNCTYPE(c_void_p, c_void_p, c_int32, c_int32, POINTER(c_int64))  # cohort_allocate
DONE = ctypes.CFUNCTYPE(None, c_void_p)  # cohort_done

# Objects of the library are c_void_p. `out` is the address of one.
_out = POINTER(c_void_p)
_error = _out
_int32 = POINTER(c_int32)

FUNCTIONS: Dict[str, Tuple[Any, List[Any]]] = {
    "cohort_abi_version": (c_int32, []),
    "cohort_version": (c_char_p, []),
    "cohort_error_status": (c_int32, [c_void_p]),
    "cohort_error_message": (c_char_p, [c_void_p]),
    "cohort_error_peer": (c_int32, [c_void_p]),
    "cohort_error_free": (None, [c_void_p]),
    "cohort_set_interrupt_check": (None, [signals.CHECK, c_void_p]),
    "cohort_job_join": (c_int32, [POINTER(JoinOptions), _out, _error]),
    "cohort_job_leave": (c_int32, [c_void_p, c_int32, c_int64, _error]),
    "cohort_job_describe": (c_int32, [c_void_p, POINTER(JobInfo), _error]),
    "cohort_world_open": (c_int32, [c_void_p, POINTER(WorldOptions), _out, _error]),
    "cohort_world_close": (None, [c_void_p]),
    "cohort_world_describe": (c_int32, [c_void_p, POINTER(WorldInfo), _error]),
    "cohort_set_add": (c_int32, [c_void_p, _int32, c_int32, _int32, _error]),
    "cohort_set_remove": (c_int32, [c_void_p, c_int32, _error]),
    "cohort_set_ranks": (c_int32, [c_void_p, c_int32, _int32, c_int32, _int32, _error]),
    "cohort_submit": (c_int32, [c_void_p, POINTER(Request), _out, _error]),
    "cohort_call_poll": (c_int32, [c_void_p]),
    "cohort_call_wait": (c_int32, [c_void_p, c_int64, _error]),
    "cohort_run": (c_int32, [c_void_p, POINTER(Request), _out, _error]),
    "cohort_call_free": (None, [c_void_p]),
    "cohort_call_result": (c_int32, [c_void_p, c_int32, POINTER(Tensor), _error]),
    "cohort_call_received_splits": (c_int32, [c_void_p, POINTER(POINTER(c_int64)), _int32, _error]),
    "cohort_call_value": (c_int64, [c_void_p]),
    "cohort_buffer_allocate": (c_int32, [c_void_p, c_size_t, _out, _error]),
    "cohort_buffer_free": (None, [c_void_p, c_void_p]),
    "cohort_shard_nodes": (c_int32, [c_void_p, c_int32, POINTER(ShardNode), c_int32, _int32, _error]),
    "cohort_shard_add": (c_int32, [c_int32, c_void_p, c_void_p, c_void_p, c_int64, _error]),
    "cohort_timeline_start": (c_int32, [c_void_p, c_char_p, c_int32, _error]),
    "cohort_timeline_stop": (c_int32, [c_void_p, _error]),
    "cohort_elastic_planned_change": (c_uint64, [c_void_p]),
    "cohort_elastic_committed": (None, [c_void_p, c_int64, c_int64, c_double]),
    "cohort_elastic_finish": (c_int32, [c_void_p, c_int64, c_int64, _int32, _error]),
}

_library: Optional[ctypes.CDLL] = None


def library_path() -> pathlib.Path:
    """Where the library is: $COHORT_LIBRARY, the installed package, or the build of the source tree."""
    named = os.environ.get("COHORT_LIBRARY")
    if named:
        return pathlib.Path(named)
    package = pathlib.Path(__file__).resolve().parent
    places = [package / "lib"]
    if os.environ.get("COHORT_BIN_DIR"):
        places.append(pathlib.Path(os.environ["COHORT_BIN_DIR"]).resolve().parent / "lib")
    places.append(package.parents[1] / "build" / "lib")
    for place in places:
        if (place / "libcohort.so").is_file():
            return place / "libcohort.so"
    raise ImportError(
        f"libcohort.so is not in {', '.join(map(str, places))}. Install the package again (pip install cohort-sdk), "
        "build it in the source tree (make), or set COHORT_LIBRARY to its path"
    )


def library() -> ctypes.CDLL:
    """The loaded library. ImportError when there is none, or it is of another version of the interface."""
    global _library
    if _library is None:
        path = library_path()
        try:
            loaded = ctypes.CDLL(str(path))
        except OSError as error:
            raise ImportError(
                f"{path} cannot be loaded: {error}. Install the package again, or set COHORT_LIBRARY to a "
                "libcohort.so of this system"
            ) from error
        version = loaded.cohort_abi_version()
        if version != ABI_VERSION:
            raise ImportError(
                f"{path} has version {version} of the C interface; this package needs {ABI_VERSION}. "
                "Install the package again, or unset COHORT_LIBRARY"
            )
        for name, (result, arguments) in FUNCTIONS.items():
            function = getattr(loaded, name)
            function.restype = result
            function.argtypes = arguments
        loaded.cohort_set_interrupt_check(signals.check, None)
        signals.watch_this_thread()
        _library = loaded
    return _library


def fail(status: int, error: Optional[int]) -> NoReturn:
    """Raises what a function's status and error (an address, which is freed here) mean in Python."""
    text, peer = f"the library answered {Status(status).name} without a text", -1
    if error:
        lib = library()
        text = lib.cohort_error_message(error).decode(errors="replace")
        peer = lib.cohort_error_peer(error)
        lib.cohort_error_free(error)
    if status == Status.INTERRUPTED:
        raise signals.take()
    if status == Status.DISMISSED:
        raise SystemExit(0)
    if status == Status.INVALID:
        raise ValueError(text)
    raise HorovodInternalError(text, peer=None if peer < 0 else peer, status=status)


def call(name: str, *arguments: Any) -> None:
    """Calls a function that returns a status and takes an error last, which is not in `arguments`."""
    error = c_void_p()
    status = getattr(library(), name)(*arguments, ctypes.byref(error))
    if status != 0:
        fail(status, error.value)
    if signals.raised:
        signals.deliver()
