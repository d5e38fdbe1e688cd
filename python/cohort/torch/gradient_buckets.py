"""Where gradients lie while the ranks sum them: a few large pieces of group memory, which parameters see as `.grad`.

A bucket holds the gradients of neighbouring parameters of one type. With virtual shards a rank has one such memory for
each node of the tree that it adds up (cohort_shard_nodes); the sum over all ranks comes to lie in the last one.
Confined to one thread at a time.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from typing import Dict, List, Sequence, Tuple

import torch

from cohort.common import memory, requests

DTYPES = {
    torch.uint8: 0,
    torch.int8: 1,
    torch.int16: 3,
    torch.int32: 4,
    torch.int64: 5,
    torch.float16: 6,
    torch.float32: 7,
    torch.float64: 8,
    torch.bool: 9,
    torch.bfloat16: 10,
    torch.complex64: 13,
    torch.complex128: 14,
}
_ALIGNMENT = 64  # bytes between the beginnings of two gradients


def group_tensor(elements: int, dtype: torch.dtype) -> torch.Tensor:
    """Zeros in memory that the other ranks of this host reach, as long as the world is open."""
    size = max(1, elements) * dtype.itemsize
    address = memory.allocate(size)
    array = (ctypes.c_ubyte * size).from_address(address)
    weakref.finalize(array, _free, address, os.getpid()).atexit = False
    return torch.frombuffer(array, dtype=dtype, count=elements).zero_()


def _free(address: int, process: int) -> None:
    """Also when its world was closed. Not in a forked child: the memory is its parent's."""
    if os.getpid() == process:
        memory.free(address)


def layout_of(parameters: Sequence[torch.Tensor], bucket_bytes: int) -> List[List[int]]:
    """Numbers of the parameters of each bucket: from the last to the first, as backward makes their gradients.

    A parameter of at least `bucket_bytes` has a bucket of its own.
    """
    layout: List[List[int]] = []
    last: Dict[torch.dtype, Tuple[List[int], int]] = {}  # the bucket that is being filled, and its bytes
    for number in reversed(range(len(parameters))):
        parameter = parameters[number]
        size = parameter.numel() * parameter.element_size()
        bucket, filled = last.get(parameter.dtype, ([], 0))
        if not bucket or filled + size > bucket_bytes:
            bucket, filled = [], 0
            layout.append(bucket)
        bucket.append(number)
        last[parameter.dtype] = (bucket, filled + size)
    return layout


def strides_of(parameter: torch.Tensor) -> Tuple[int, ...]:
    """As autograd lays gradients out: like the parameter where it fills its memory, else in order."""
    expected = 1
    for size, stride in sorted(zip(parameter.shape, parameter.stride()), key=lambda both: (both[1], both[0])):
        if size != 1:
            if stride != expected:
                return torch.empty(parameter.shape, device="meta").stride()
            expected *= size
    return tuple(parameter.stride())


class Bucket:
    """The gradients of some parameters. `views[node][entry]` is shaped and strided like parameter `numbers[entry]`."""

    def __init__(self, name: str, numbers: List[int], parameters: Sequence[torch.Tensor], nodes: int) -> None:
        self.name, self.numbers = name, numbers
        first = parameters[numbers[0]]
        offsets, elements = [], 0
        for number in numbers:
            offsets.append(elements)
            elements += (
                -(-parameters[number].numel() * first.element_size() // _ALIGNMENT)
                * _ALIGNMENT
                // first.element_size()
            )
        self.memories = [group_tensor(elements, first.dtype) for _ in range(max(1, nodes))]
        self.views = [
            [
                flat.as_strided(parameters[number].shape, strides_of(parameters[number]), offset)
                for number, offset in zip(numbers, offsets)
            ]
            for flat in self.memories
        ]
        self.missing = len(numbers)  # gradients, before it can go out
        address = self.memories[-1].data_ptr()
        self._tensor = (address, address, DTYPES[first.dtype], (elements,))
        self._partials = [flat.data_ptr() for flat in self.memories[:nodes]]

    def start_average(self, set_id: int) -> requests.Handle:
        return requests.submit(requests.ALLREDUCE, self.name, (self._tensor,), 0, set_id, keep=self.memories)

    def start_shard_sum(self, shards: int, postscale: float) -> requests.Handle:
        return requests.submit(
            requests.SHARD_SUM,
            self.name,
            (self._tensor,),
            1,
            postscale=postscale,
            shards=shards,
            partials=self._partials,
            keep=self.memories,
        )
