"""Collectives on numpy arrays, with the names and arguments that Horovod has for tensors.

`tensor` is anything that numpy makes an array of. Results are new arrays, but for the functions whose names end in _,
which write to the array that they were given. Blocking functions may be called from any thread; handles are
finished with `synchronize`, once.
"""

from __future__ import annotations

import ctypes
from typing import Any, Callable, List, Optional, Sequence, Tuple, Union

import numpy as np

from cohort.common import requests
from cohort.common.basics import Average, Sum
from cohort.common.process_sets import ProcessSet, global_process_set, root_in_set, set_id_of
from cohort.common.util import get_average_backwards_compatibility_fun
from cohort.native import DType

Array = np.ndarray[Any, Any]
_Arguments = Tuple[int, str, List[requests.TensorArgument], int, int, int, float, float]  # of requests.run

_NUMBERS = {
    np.dtype(name): int(number)
    for name, number in (
        ("u1", DType.U8), ("i1", DType.I8), ("u2", DType.U16), ("i2", DType.I16), ("i4", DType.I32), ("i8", DType.I64),
        ("f2", DType.F16), ("f4", DType.F32), ("f8", DType.F64), ("?", DType.BOOL), ("u4", DType.U32),
        ("u8", DType.U64), ("c8", DType.C64), ("c16", DType.C128),
    )
}  # fmt: skip


class _Ops:
    Average, Sum = Average, Sum


_choose_op = get_average_backwards_compatibility_fun(_Ops)


def _number_of(dtype: np.dtype[Any]) -> int:
    number = _NUMBERS.get(dtype)
    if number is None:
        if dtype.name != "bfloat16":
            known = ", ".join(sorted(known.name for known in _NUMBERS))
            raise ValueError(f"arrays of dtype {dtype} cannot be exchanged. Convert it to one of {known}, bfloat16")
        number = _NUMBERS[dtype] = int(DType.BF16)
    return number


def _prepare(tensor: Any) -> Array:
    """Contiguous and of this host's byte order, without a copy where it is both."""
    array = np.asarray(tensor, order="C")
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    return array


_first_byte: Callable[[Any], ctypes.c_char] = ctypes.c_char.from_buffer


def _address(array: Array) -> int:
    try:
        return ctypes.addressof(_first_byte(array))  # a tenth of the time that numpy's own way takes
    except (TypeError, ValueError, BufferError):  # read-only, empty, or a dtype that has no buffers
        address: int = array.__array_interface__["data"][0]
        return address


class _Result:
    """What numpy asks for memory that is not its own; the array holds on to this, and this to the handle."""

    __slots__ = ("__array_interface__", "handle")

    def __init__(self, handle: requests.Handle, address: int, shape: Tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.handle = handle
        self.__array_interface__ = {"version": 3, "data": (address, False), "shape": shape, "typestr": dtype.str}


def _array_of(handle: requests.Handle, index: int, dtype: np.dtype[Any]) -> Array:
    """A result that the library allocated, without a copy."""
    _, address, _, shape = handle.result(index)
    if not address:
        return np.empty(shape, dtype)
    array = np.asarray(_Result(handle, address, shape, dtype))
    return array if array.dtype == dtype else array.view(dtype)


class ArrayHandle:
    """A collective under way; `synchronize` gives its result."""

    __slots__ = ("_handle", "_finish")

    def __init__(self, handle: requests.Handle, finish: Callable[[requests.Handle], Any]) -> None:
        self._handle = handle
        self._finish = finish


def poll(handle: ArrayHandle) -> bool:
    """Whether synchronize would return at once."""
    return handle._handle.poll()


def synchronize(handle: ArrayHandle) -> Any:
    """Waits for the end; returns what the function without `_async` returns."""
    handle._handle.wait()
    return handle._finish(handle._handle)


# ---- Reductions: the result is as large as the input ----


def _same_size(kind: int, what: str, tensors: Sequence[Any], in_place: bool, name: Optional[str],
               process_set: ProcessSet, root: int = 0, op: int = Sum, prescale: float = 1.0,
               postscale: float = 1.0) -> Tuple[_Arguments, List[Array], List[Array]]:  # fmt: skip
    """Arguments of requests.run; the arrays that own the memory of the results; those that go in."""
    sources = [_prepare(tensor) for tensor in tensors]
    if in_place:
        for tensor in tensors:
            if not isinstance(tensor, np.ndarray) or not tensor.flags.writeable:
                raise ValueError(f"{what}_ writes to its argument: give a writable numpy array, not {type(tensor)}")
        targets = sources
    else:
        targets = [np.empty(source.shape, source.dtype) for source in sources]
    arguments = [(_address(source), _address(target), _number_of(source.dtype), source.shape)
                 for source, target in zip(sources, targets)]  # fmt: skip
    number = set_id_of(process_set)
    request = (kind, name or requests.next_name(what, number), arguments, op, number, root, prescale, postscale)
    return request, targets, sources


def _copied_back(tensors: Sequence[Any], targets: List[Array]) -> List[Array]:
    """In place: an array that was not contiguous went through a copy."""
    for tensor, target in zip(tensors, targets):
        if tensor is not target and _address(tensor) != _address(target):
            tensor[...] = target
    return list(tensors)


def _run_same_size(in_place: bool, asynchronous: bool, grouped: bool, tensors: Sequence[Any], *rest: Any,
                   **more: Any) -> Any:  # fmt: skip
    kind, what, name, process_set = rest
    request, targets, sources = _same_size(kind, what, tensors, in_place, name, process_set, **more)

    def finish(_: object) -> Any:
        results = _copied_back(tensors, targets) if in_place else targets
        return results if grouped else results[0]

    if asynchronous:
        return ArrayHandle(requests.submit(*request, keep=(sources, targets)), finish)
    requests.run(*request)
    return finish(None)


def allreduce(tensor: Any, average: Optional[bool] = None, name: Optional[str] = None, op: Optional[int] = None,
              prescale_factor: float = 1.0, postscale_factor: float = 1.0,
              process_set: ProcessSet = global_process_set) -> Array:  # fmt: skip
    """The average (or `op`) of all ranks' arrays, which have one shape and dtype."""
    result: Array = _run_same_size(
        False, False, False, [tensor], requests.ALLREDUCE, "allreduce", name, process_set,
        op=_choose_op(op, average), prescale=prescale_factor, postscale=postscale_factor)  # fmt: skip
    return result


def allreduce_async(tensor: Any, average: Optional[bool] = None, name: Optional[str] = None, op: Optional[int] = None,
                    prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                    process_set: ProcessSet = global_process_set) -> ArrayHandle:  # fmt: skip
    handle: ArrayHandle = _run_same_size(
        False, True, False, [tensor], requests.ALLREDUCE, "allreduce", name, process_set,
        op=_choose_op(op, average), prescale=prescale_factor, postscale=postscale_factor)  # fmt: skip
    return handle


def allreduce_(tensor: Array, average: Optional[bool] = None, name: Optional[str] = None, op: Optional[int] = None,
               prescale_factor: float = 1.0, postscale_factor: float = 1.0,
               process_set: ProcessSet = global_process_set) -> Array:  # fmt: skip
    result: Array = _run_same_size(
        True, False, False, [tensor], requests.ALLREDUCE, "allreduce", name, process_set,
        op=_choose_op(op, average), prescale=prescale_factor, postscale=postscale_factor)  # fmt: skip
    return result


def allreduce_async_(tensor: Array, average: Optional[bool] = None, name: Optional[str] = None,
                     op: Optional[int] = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                     process_set: ProcessSet = global_process_set) -> ArrayHandle:  # fmt: skip
    handle: ArrayHandle = _run_same_size(
        True, True, False, [tensor], requests.ALLREDUCE, "allreduce", name, process_set,
        op=_choose_op(op, average), prescale=prescale_factor, postscale=postscale_factor)  # fmt: skip
    return handle


def grouped_allreduce(tensors: Sequence[Any], average: Optional[bool] = None, name: Optional[str] = None,
                      op: Optional[int] = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                      process_set: ProcessSet = global_process_set) -> List[Array]:  # fmt: skip
    """As allreduce of each, carried out together."""
    results: List[Array] = _run_same_size(
        False, False, True, list(tensors), requests.ALLREDUCE, "grouped_allreduce", name, process_set,
        op=_choose_op(op, average), prescale=prescale_factor, postscale=postscale_factor)  # fmt: skip
    return results


def grouped_allreduce_async(tensors: Sequence[Any], average: Optional[bool] = None, name: Optional[str] = None,
                            op: Optional[int] = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                            process_set: ProcessSet = global_process_set) -> ArrayHandle:  # fmt: skip
    handle: ArrayHandle = _run_same_size(
        False, True, True, list(tensors), requests.ALLREDUCE, "grouped_allreduce", name, process_set,
        op=_choose_op(op, average), prescale=prescale_factor, postscale=postscale_factor)  # fmt: skip
    return handle


def broadcast(tensor: Any, root_rank: int, name: Optional[str] = None,
              process_set: ProcessSet = global_process_set) -> Array:  # fmt: skip
    """The array of `root_rank`, a rank of the world; all have its shape and dtype."""
    result: Array = _run_same_size(False, False, False, [tensor], requests.BROADCAST, "broadcast", name, process_set,
                                   root=root_in_set(process_set, root_rank))  # fmt: skip
    return result


def broadcast_async(tensor: Any, root_rank: int, name: Optional[str] = None,
                    process_set: ProcessSet = global_process_set) -> ArrayHandle:  # fmt: skip
    handle: ArrayHandle = _run_same_size(False, True, False, [tensor], requests.BROADCAST, "broadcast", name,
                                         process_set, root=root_in_set(process_set, root_rank))  # fmt: skip
    return handle


def broadcast_(tensor: Array, root_rank: int, name: Optional[str] = None,
               process_set: ProcessSet = global_process_set) -> Array:  # fmt: skip
    result: Array = _run_same_size(True, False, False, [tensor], requests.BROADCAST, "broadcast", name, process_set,
                                   root=root_in_set(process_set, root_rank))  # fmt: skip
    return result


def broadcast_async_(tensor: Array, root_rank: int, name: Optional[str] = None,
                     process_set: ProcessSet = global_process_set) -> ArrayHandle:  # fmt: skip
    handle: ArrayHandle = _run_same_size(True, True, False, [tensor], requests.BROADCAST, "broadcast", name,
                                         process_set, root=root_in_set(process_set, root_rank))  # fmt: skip
    return handle


# ---- Results whose size is known at the end: the library allocates them ----


def _run_gathered(asynchronous: bool, grouped: bool, tensors: Sequence[Any], kind: int, what: str,
                  name: Optional[str], process_set: ProcessSet, op: int = Sum, prescale: float = 1.0,
                  postscale: float = 1.0, splits: Optional[Sequence[int]] = None) -> Any:  # fmt: skip
    sources = [_prepare(tensor) for tensor in tensors]
    arguments = [(_address(source), 0, _number_of(source.dtype), source.shape) for source in sources]
    number = set_id_of(process_set)
    request = (kind, name or requests.next_name(what, number), arguments, op, number, 0, prescale, postscale, splits)
    dtypes = [source.dtype for source in sources]

    def finish(handle: requests.Handle) -> Any:
        if grouped:
            return [_array_of(handle, index, dtype) for index, dtype in enumerate(dtypes)]
        result = _array_of(handle, 0, dtypes[0])
        return (result, np.array(handle.received_splits(), np.int32)) if splits is not None else result

    if asynchronous:
        return ArrayHandle(requests.submit(*request, keep=sources), finish)
    handle = requests.run(*request)
    assert handle is not None
    return finish(handle)


def allgather(tensor: Any, name: Optional[str] = None, process_set: ProcessSet = global_process_set) -> Array:
    """All ranks' arrays, one after another; they may differ in the first dimension."""
    result: Array = _run_gathered(False, False, [tensor], requests.ALLGATHER, "allgather", name, process_set)
    return result


def allgather_async(tensor: Any, name: Optional[str] = None,
                    process_set: ProcessSet = global_process_set) -> ArrayHandle:  # fmt: skip
    handle: ArrayHandle = _run_gathered(True, False, [tensor], requests.ALLGATHER, "allgather", name, process_set)
    return handle


def grouped_allgather(tensors: Sequence[Any], name: Optional[str] = None,
                      process_set: ProcessSet = global_process_set) -> List[Array]:  # fmt: skip
    results: List[Array] = _run_gathered(False, True, list(tensors), requests.ALLGATHER, "grouped_allgather", name,
                                         process_set)  # fmt: skip
    return results


def grouped_allgather_async(tensors: Sequence[Any], name: Optional[str] = None,
                            process_set: ProcessSet = global_process_set) -> ArrayHandle:  # fmt: skip
    handle: ArrayHandle = _run_gathered(True, True, list(tensors), requests.ALLGATHER, "grouped_allgather", name,
                                        process_set)  # fmt: skip
    return handle


def _split_list(splits: Any) -> Optional[List[int]]:
    return None if splits is None else [int(rows) for rows in np.asarray(splits).reshape(-1)]


def alltoall(tensor: Any, splits: Any = None, name: Optional[str] = None,
             process_set: ProcessSet = global_process_set) -> Union[Array, Tuple[Array, Array]]:  # fmt: skip
    """splits[i] rows go to rank i; without it, equal parts. With it, the result is (array, rows from each rank)."""
    result: Union[Array, Tuple[Array, Array]] = _run_gathered(
        False, False, [tensor], requests.ALLTOALL, "alltoall", name, process_set, splits=_split_list(splits))
    return result


def alltoall_async(tensor: Any, splits: Any = None, name: Optional[str] = None,
                   process_set: ProcessSet = global_process_set) -> ArrayHandle:  # fmt: skip
    handle: ArrayHandle = _run_gathered(True, False, [tensor], requests.ALLTOALL, "alltoall", name, process_set,
                                        splits=_split_list(splits))  # fmt: skip
    return handle


def reducescatter(tensor: Any, name: Optional[str] = None, op: int = Average,
                  process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                  postscale_factor: float = 1.0) -> Array:  # fmt: skip
    """This rank's part of allreduce: the first dimension is cut over the ranks, the first ones get one row more."""
    result: Array = _run_gathered(False, False, [tensor], requests.REDUCESCATTER, "reducescatter", name, process_set,
                                  op, prescale_factor, postscale_factor)  # fmt: skip
    return result


def reducescatter_async(tensor: Any, name: Optional[str] = None, op: int = Average,
                        process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                        postscale_factor: float = 1.0) -> ArrayHandle:  # fmt: skip
    handle: ArrayHandle = _run_gathered(True, False, [tensor], requests.REDUCESCATTER, "reducescatter", name,
                                        process_set, op, prescale_factor, postscale_factor)  # fmt: skip
    return handle


def grouped_reducescatter(tensors: Sequence[Any], name: Optional[str] = None, op: int = Average,
                          process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                          postscale_factor: float = 1.0) -> List[Array]:  # fmt: skip
    results: List[Array] = _run_gathered(False, True, list(tensors), requests.REDUCESCATTER, "grouped_reducescatter",
                                         name, process_set, op, prescale_factor, postscale_factor)  # fmt: skip
    return results


def grouped_reducescatter_async(tensors: Sequence[Any], name: Optional[str] = None, op: int = Average,
                                process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                                postscale_factor: float = 1.0) -> ArrayHandle:  # fmt: skip
    handle: ArrayHandle = _run_gathered(True, True, list(tensors), requests.REDUCESCATTER, "grouped_reducescatter",
                                        name, process_set, op, prescale_factor, postscale_factor)  # fmt: skip
    return handle
