"""Virtual shards: how a step's work is cut so that its bits do not depend on the number of workers.

docs/determinism.md says what for, docs/algorithms.md ("One order of addition") in which order shards are added.
Pure functions, without the library.
"""

from __future__ import annotations

import hashlib
import struct
from typing import List, Tuple


def run_of(rank: int, ranks: int, shards: int) -> Tuple[int, int]:
    """(first, count) of the shards that `rank` of `ranks` computes: as the library's cohort_shard_nodes cuts them."""
    if shards < ranks:
        raise ValueError(
            f"{shards} virtual shards are too few for {ranks} workers: give at least {ranks}, or use fewer workers"
        )
    each, larger = divmod(shards, ranks)
    return rank * each + min(rank, larger), each + (rank < larger)


def owners_of(ranks: int, shards: int) -> List[int]:
    """The rank that computes each shard."""
    owners: List[int] = []
    for rank in range(ranks):
        owners += [rank] * run_of(rank, ranks, shards)[1]
    return owners


def merges_of(count: int) -> List[int]:
    """How the leaves of a node of `count` shards are added up on a stack, as they come.

    Entry i says how often, after leaf i was put on the stack, the two topmost sums become one.
    """
    if count == 1:
        return [0]
    left = 1 << ((count - 1).bit_length() - 1)  # the largest power of two that is less
    merges = merges_of(left) + merges_of(count - left)
    merges[-1] += 1
    return merges


def split(samples: int, parts: int) -> List[int]:
    """Sizes of `parts` runs that differ by at most one, the larger ones first."""
    each, larger = divmod(samples, parts)
    return [each + (part < larger) for part in range(parts)]


def seed_of(*numbers: int) -> int:
    """A generator's seed, of 63 bits, that depends on all of these numbers and on nothing else."""
    digest = hashlib.sha256(struct.pack(f"<{len(numbers)}q", *numbers)).digest()
    return int(struct.unpack("<Q", digest[:8])[0] >> 1)
