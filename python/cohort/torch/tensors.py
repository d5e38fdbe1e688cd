"""torch tensors as the memory of requests: what can be handed over as it is, what needs a copy, and results as tensors.

The library reads and writes contiguous memory of the host. Other tensors (views with strides, those of a device) go
through a copy, and so do int16 tensors that are reduced: as int32, which holds every sum that int16 would wrap.
"""

from __future__ import annotations

import ctypes
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch

from cohort.common import requests
from cohort.native import DType

NUMBERS: Dict[torch.dtype, int] = {
    getattr(torch, name): int(number)
    for name, number in (
        ("uint8", DType.U8), ("int8", DType.I8), ("uint16", DType.U16), ("int16", DType.I16), ("int32", DType.I32),
        ("int64", DType.I64), ("float16", DType.F16), ("float32", DType.F32), ("float64", DType.F64),
        ("bool", DType.BOOL), ("bfloat16", DType.BF16), ("uint32", DType.U32), ("uint64", DType.U64),
        ("complex64", DType.C64), ("complex128", DType.C128),
    )
    if hasattr(torch, name)  # the larger unsigned ones are of torch 2.3
}  # fmt: skip

_STRIDED = torch.strided
_COPIED = 64 * 1024  # bytes; a result up to this size is copied, which costs less than keeping its request


def number_of(tensor: torch.Tensor) -> int:
    """The number of its dtype. ValueError for one that cannot be exchanged."""
    number = NUMBERS.get(tensor.dtype)
    if number is None:
        names = ", ".join(str(dtype).replace("torch.", "") for dtype in NUMBERS)
        raise ValueError(f"Tensor type {tensor.type()} is not supported. Convert it to one of {names}")
    return number


def on_host(tensor: torch.Tensor, reduced: bool = False) -> torch.Tensor:
    """`tensor` itself where a request can use its memory, else a copy that it can."""
    if not isinstance(tensor, torch.Tensor):
        raise ValueError(f"a collective takes a torch.Tensor, not {type(tensor).__name__}; use torch.as_tensor()")
    dtype = tensor.dtype
    if tensor.layout is _STRIDED and tensor.is_cpu and tensor.is_contiguous():
        if dtype is torch.int16 and reduced:
            return tensor.detach().to(torch.int32)
        if not dtype.is_complex:
            return tensor
    return _copied_to_host(tensor, torch.int32 if dtype is torch.int16 and reduced else dtype)


def _copied_to_host(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    if tensor.layout is not _STRIDED:
        raise ValueError(
            f"Tensor type {tensor.type()} is not supported: it is not dense. Use hvd.sparse_allreduce_async(), or "
            "to_dense()"
        )
    if tensor.device.type == "meta":
        raise ValueError("a tensor of device 'meta' has no data to exchange. Use to_empty(device=...) first")
    return tensor.detach().to("cpu", dtype).resolve_conj().resolve_neg().contiguous()


def like(result: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """A result in the dtype and on the device of the tensor that was given."""
    if result.dtype is tensor.dtype and result.device == tensor.device:
        return result
    return result.to(device=tensor.device, dtype=tensor.dtype)


def write_back(tensor: torch.Tensor, used: torch.Tensor) -> torch.Tensor:
    """After a request in place: `used`, where it is a copy, goes back to the tensor. Returns the tensor."""
    if used is not tensor:
        with torch.no_grad():
            tensor.copy_(used)
    return tensor


def source(tensor: torch.Tensor) -> requests.TensorArgument:
    """For kinds whose result the library allocates."""
    return tensor.data_ptr(), 0, number_of(tensor), tensor.shape


def in_place(tensor: torch.Tensor) -> requests.TensorArgument:
    address = tensor.data_ptr()
    return address, address, number_of(tensor), tensor.shape


def into(tensor: torch.Tensor, output: torch.Tensor) -> requests.TensorArgument:
    return tensor.data_ptr(), output.data_ptr(), number_of(tensor), tensor.shape


def result_of(handle: requests.Handle, index: int, used: torch.Tensor) -> torch.Tensor:
    """A result that the library allocated, of the dtype of `used`. A large one is used without a copy."""
    _, address, _, shape = handle.result(index)
    count = 1
    for length in shape:
        count *= length
    size = count * used.element_size()
    if size > _COPIED:
        return torch.frombuffer(handle.memory(index), dtype=used.dtype).view(shape)
    result = torch.empty(shape, dtype=used.dtype)
    if size:
        ctypes.memmove(result.data_ptr(), address, size)
    return result


def split_sizes(splits: Any, tensor: torch.Tensor) -> Tuple[torch.Tensor, Optional[List[int]]]:
    """alltoall's `splits` as a list, and the rows of `tensor` that they cover. ValueError for what cannot be splits."""
    if splits is None:
        return tensor, None
    if not isinstance(splits, torch.Tensor):
        splits = torch.tensor(splits, dtype=torch.int32)
    if splits.dim() != 1:
        raise ValueError(f"alltoall expects a 1D splits tensor, not one of shape {tuple(splits.shape)}")
    if splits.dtype not in (torch.int32, torch.int64):
        raise ValueError(f"alltoall expects splits to contain 32-bit integers, not {splits.dtype}; use splits.int()")
    sizes: List[int] = splits.tolist()
    total = sum(sizes)
    if tensor.dim() and sizes and total < tensor.shape[0] and min(sizes) >= 0:
        tensor = tensor.narrow(0, 0, total)
    return tensor, sizes


def all_of(tensors: Sequence[torch.Tensor]) -> List[torch.Tensor]:
    """The tensors of a grouped call. ValueError for one tensor where a list is meant."""
    if isinstance(tensors, torch.Tensor):
        raise ValueError("a grouped collective takes a list of tensors, not one tensor")
    return list(tensors)
