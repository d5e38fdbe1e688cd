"""Requests from addresses: what collectives on tensors of every framework are made of.

A tensor is (address, address of the result, dtype number, shape); the address of the result is 0 for kinds whose
result the library allocates (GATHERED). Callers give contiguous memory and keep it: `run` returns when it is no
longer needed, `submit` holds on to `keep` until the request is over, even if the handle is dropped.

The world is set by `cohort.common.basics`. Everything here may be called from any thread.
"""

from __future__ import annotations

import ctypes
import itertools
from typing import Any, Dict, Iterator, List, Optional, Sequence, Set, Tuple

from cohort import native
from cohort.common import signals
from cohort.common.exceptions import HorovodInternalError

ALLREDUCE, ALLGATHER, BROADCAST, ALLTOALL, REDUCESCATTER, BARRIER, JOIN, SHARD_SUM = range(8)
GATHERED = frozenset((ALLGATHER, ALLTOALL, REDUCESCATTER))

TensorArgument = Tuple[int, int, int, Tuple[int, ...]]
NOT_INITIALIZED = "Cohort has not been initialized; use hvd.init()."

opened = 0  # how many worlds there were: an address may come again
_world: Optional[int] = None
_library: Any = None
_run: Any = None  # cohort_run, cohort_submit and cohort_call_free of the library
_submit: Any = None
_free: Any = None
_counters: Dict[Tuple[str, int], Iterator[int]] = {}
_starting: Set["Handle"] = set()  # whose call of the library has not returned


def set_world(world: Optional[int]) -> None:
    """For `basics` alone. Names that are made up count from 0 again: a worker that is new counts as the others do."""
    global opened, _world, _library, _run, _submit, _free
    if world is not None:
        opened += 1
        _library = native.library()
        _run, _submit, _free = _library.cohort_run, _library.cohort_submit, _library.cohort_call_free
    count_names_again()
    _world = world


def abandon(stub: Any) -> None:
    """For `basics`, in a forked child: there is no world, and `stub` stands in for the library."""
    global _world, _library, _free
    _world, _library, _free = None, stub, stub.cohort_call_free
    _abandoned.clear()


def world() -> int:
    """The address of the open world, for the library's other functions. ValueError: there is none."""
    if _world is None:
        raise ValueError(NOT_INITIALIZED)
    return _world


def count_names_again(set_id: Optional[int] = None) -> None:
    """At a point that all ranks (of a set) have reached, where they may have made up different numbers of names."""
    for key in [key for key in list(_counters) if set_id is None or key[1] == set_id]:
        _counters.pop(key, None)


def next_name(kind: str, set_id: int = 0) -> str:
    """A name for a request that has none: every rank of the set makes the same, as long as all make as many of a kind.

    Each process set counts for itself: its ranks are in different other sets.
    """
    key = (kind, set_id)
    counter = _counters.get(key)
    if counter is None:
        counter = _counters.setdefault(key, itertools.count())
    return f"{kind}.noname.{next(counter)}"


class _Slot:
    """The structs of one call at a time, with their addresses; kept for the next call."""

    __slots__ = ("parts",)

    def __init__(self) -> None:
        request, tensor = native.Request(), native.Tensor()
        request.struct_size = ctypes.sizeof(native.Request)
        call, error = ctypes.c_void_p(), ctypes.c_void_p()
        self.parts = (request, ctypes.byref(request), tensor, ctypes.addressof(tensor), call, ctypes.byref(call), error,
                      ctypes.byref(error))  # fmt: skip


_slots: List[_Slot] = []
_Shape = Tuple[Any, int, int]  # the array, its address, its length
_shapes: Dict[Tuple[int, ...], _Shape] = {}
_SHAPES_KEPT = 4096


def _array_of(shape: Tuple[int, ...]) -> _Shape:
    array = (ctypes.c_int64 * len(shape))(*shape)
    if len(_shapes) >= _SHAPES_KEPT:
        _shapes.clear()
    entry = _shapes[tuple(shape)] = (array, ctypes.addressof(array), len(shape))
    return entry


def _call(function: Any, kind: int, name: str, tensors: Sequence[TensorArgument], op: int, set_id: int, root: int,
          prescale: float, postscale: float, splits: Optional[Sequence[int]], shards: int,
          partials: Optional[Sequence[int]]) -> int:  # fmt: skip
    """One call of cohort_run or cohort_submit. Returns the address of the cohort_call."""
    if _world is None:
        raise ValueError(NOT_INITIALIZED)
    try:
        slot = _slots.pop()
    except IndexError:
        slot = _Slot()
    request, request_at, tensor, tensor_at, call, call_at, error, error_at = slot.parts
    request.kind = kind
    request.set = set_id
    request.name = name.encode()
    request.op = op
    request.root = root
    request.prescale = prescale
    request.postscale = postscale
    kept: Any = None
    count = len(tensors)
    if count == 1:
        source, target, dtype, shape = tensors[0]
        kept = _shapes.get(shape) or _array_of(shape)
        tensor.__init__(source, target, dtype, kept[2], kept[1])  # type: ignore[misc]
        request.tensors = tensor_at
    elif count:
        several = (native.Tensor * count)()
        kept = [several]
        for one, (source, target, dtype, shape) in zip(several, tensors):
            array = _shapes.get(shape) or _array_of(shape)
            kept.append(array)
            one.__init__(source, target, dtype, array[2], array[1])
        request.tensors = ctypes.addressof(several)
    request.tensor_count = count
    if splits is not None or shards:
        _set_rest(request, splits, shards, partials)
    status = function(_world, request_at, call_at, error_at)
    if splits is not None or shards:
        _set_rest(request, None, 0, None)
    if status:
        address, error.value = error.value, None
        _slots.append(slot)
        native.fail(status, address)
    result = call.value or 0
    _slots.append(slot)
    return result


def _set_rest(request: native.Request, splits: Optional[Sequence[int]], shards: int,
              partials: Optional[Sequence[int]]) -> None:  # fmt: skip
    request.splits, request.split_count = None, 0
    if splits is not None:
        array = (ctypes.c_int64 * len(splits))(*splits)
        request.splits, request.split_count = ctypes.addressof(array), len(splits)
        request.split_array = array  # an attribute of the object in Python: it lives as long as the struct
    request.shards = shards
    request.partials = None
    if partials is not None:
        memory = (ctypes.c_void_p * len(partials))(*partials)
        request.partials = ctypes.addressof(memory)
        request.partial_array = memory


def run(kind: int, name: str, tensors: Sequence[TensorArgument] = (), op: int = 1, set_id: int = 0, root: int = 0,
        prescale: float = 1.0, postscale: float = 1.0, splits: Optional[Sequence[int]] = None, shards: int = 0,
        partials: Optional[Sequence[int]] = None) -> Optional[Handle]:  # fmt: skip
    """One blocking call. Returns a handle, whose request is over, for GATHERED kinds and for JOIN."""
    call = _call(_run, kind, name, tensors, op, set_id, root, prescale, postscale,
                 splits, shards, partials)  # fmt: skip
    handle = None
    if kind in GATHERED or kind == JOIN:
        handle = Handle(call, None)
        handle.over = True
    else:
        _free(call)
    if signals.raised:
        signals.deliver()
    return handle


def submit(kind: int, name: str, tensors: Sequence[TensorArgument] = (), op: int = 1, set_id: int = 0, root: int = 0,
           prescale: float = 1.0, postscale: float = 1.0, splits: Optional[Sequence[int]] = None, shards: int = 0,
           partials: Optional[Sequence[int]] = None, keep: object = None) -> Handle:  # fmt: skip
    """Starts one. `keep` is held until it is over: the objects that own the memory of `tensors`."""
    if _abandoned:
        sweep()
    handle = Handle(0, keep)
    _starting.add(handle)  # a signal handler may raise right behind the call: the memory stays, then
    try:
        handle.call = _call(_submit, kind, name, tensors, op, set_id, root, prescale,
                            postscale, splits, shards, partials)  # fmt: skip
    except (ValueError, HorovodInternalError):  # refused: nothing is under way
        _starting.discard(handle)
        raise
    _starting.discard(handle)
    return handle


class Handle:
    """One request. What it allocated lives as long as this and every `memory` of it.

    `over` is True once `poll`, `wait` or `run` has seen its end; `keep` is what was given to `submit`, till then.
    """

    __slots__ = ("call", "keep", "over", "__weakref__")

    def __init__(self, call: int, keep: object) -> None:
        self.call = call
        self.keep = keep
        self.over = False

    def poll(self) -> bool:
        if not self.over and _library.cohort_call_poll(self.call):
            self.over = True
        return self.over

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Until it is over; raises when it failed, every time. False: `timeout` seconds were over first."""
        error = ctypes.c_void_p()
        milliseconds = -1 if timeout is None else int(timeout * 1000)
        status = _library.cohort_call_wait(self.call, milliseconds, ctypes.byref(error))
        if status == 0:
            self.over = True
            self.keep = None
        elif status != 1:
            if self.poll():
                self.keep = None
            native.fail(status, error.value)
        if signals.raised:
            signals.deliver()
        return self.over

    def result(self, index: int = 0) -> TensorArgument:
        """(0, address, dtype, shape) of a result, which must be there: after `wait`."""
        tensor = native.Tensor()
        native.call("cohort_call_result", self.call, index, ctypes.byref(tensor))
        shape = (ctypes.c_int64 * tensor.ndim).from_address(tensor.shape) if tensor.ndim else ()
        return 0, tensor.out or 0, tensor.dtype, tuple(shape)

    def result_shape(self, index: int = 0) -> Tuple[int, ...]:
        return tuple(self.result(index)[3])

    def result_pointer(self, index: int = 0) -> int:
        """0 for a result without elements."""
        return self.result(index)[1]

    def result_dtype(self, index: int = 0) -> int:
        return self.result(index)[2]

    def memory(self, index: int = 0) -> ctypes.Array[ctypes.c_ubyte]:
        """The bytes of a result, writable, without a copy. Every buffer made of it keeps this handle alive."""
        _, address, dtype, shape = self.result(index)
        size = ITEM_SIZE[dtype]
        for length in shape:
            size *= length
        if not size:
            return (ctypes.c_ubyte * 0)()
        array = (ctypes.c_ubyte * size).from_address(address)
        array.owner = self  # type: ignore[attr-defined]
        return array

    def received_splits(self) -> Tuple[int, ...]:
        """alltoall: how many rows came from each rank."""
        splits, count = ctypes.POINTER(ctypes.c_int64)(), ctypes.c_int32()
        native.call("cohort_call_received_splits", self.call, ctypes.byref(splits), ctypes.byref(count))
        return tuple(splits[: count.value])

    def value(self) -> int:
        """join: the rank that joined last."""
        return int(_library.cohort_call_value(self.call))

    def __del__(self) -> None:
        if _free is None or not self.call:  # the interpreter ends; nothing was submitted
            return
        if self.over or self.keep is None or _library.cohort_call_poll(self.call):
            _free(self.call)
        else:
            _abandoned.append((self.call, self.keep))


ITEM_SIZE = (1, 1, 2, 2, 4, 8, 2, 4, 8, 1, 2, 4, 8, 8, 16)  # by native.DType

_abandoned: List[Tuple[int, object]] = []  # under way; their handles were dropped


def sweep() -> None:
    """Frees abandoned requests that are over by now. Several threads may be in here."""
    for _ in range(len(_abandoned)):
        try:
            entry = _abandoned.pop(0)
        except IndexError:
            return
        if _library.cohort_call_poll(entry[0]):
            _free(entry[0])
        else:
            _abandoned.append(entry)
