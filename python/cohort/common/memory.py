"""Memory that the other ranks of this host reach, and the tree of virtual shards (SHARD_SUM)."""

from __future__ import annotations

import ctypes
from typing import List, Tuple

from cohort import native
from cohort.common import requests


def allocate(size: int) -> int:
    """The address of `size` bytes of group memory, until the world is closed: reductions on it copy nothing."""
    memory = ctypes.c_void_p()
    native.call("cohort_buffer_allocate", requests.world(), size, ctypes.byref(memory))
    return memory.value or 0


def free(address: int) -> None:
    """Also when its world was closed."""
    native.library().cohort_buffer_free(requests._world, address)


def shard_nodes(shards: int) -> List[Tuple[int, int]]:
    """The nodes of the tree over `shards` virtual shards that this rank adds up, as (first shard, how many)."""
    world, count, capacity = requests.world(), ctypes.c_int32(), 64
    while True:
        nodes = (native.ShardNode * capacity)()
        native.call("cohort_shard_nodes", world, shards, nodes, capacity, ctypes.byref(count))
        if count.value <= capacity:
            return [(node.first, node.count) for node in nodes[: count.value]]
        capacity = count.value


def shard_add(dtype: int, a: int, b: int, out: int, count: int) -> None:
    """out[i] = a[i] + b[i] as the tree adds; a, b and out are addresses of `count` elements."""
    native.call("cohort_shard_add", dtype, a, b, out, count)
