"""Process sets: ranks of the world that run collectives among themselves."""

from __future__ import annotations

import ctypes
import weakref
from typing import Any, Dict, List, Optional, Sequence, Union

from cohort import native
from cohort.common import knobs, requests
from cohort.common.util import is_iterable

_rank = -1  # of this process in the world
_ranks_of: Dict[int, List[int]] = {}  # the sets of the open world, by number
_objects: weakref.WeakSet[ProcessSet] = weakref.WeakSet()  # those that have a number


class ProcessSet:
    """Some ranks of the world. Give it to `init(process_sets=[...])` or `add_process_set`, then to collectives.

    `process_set_id` is None until then, and again once it was removed or the world was closed.
    """

    process_set_id: Optional[int] = None
    ranks: Optional[List[int]] = None
    mpi_comm: Any = None

    def __init__(self, ranks_or_comm: Sequence[int]) -> None:
        if not is_iterable(ranks_or_comm):
            raise ValueError(
                f"ProcessSet takes a list of ranks, not {ranks_or_comm!r}: Cohort does not use MPI. "
                "Give the ranks of the communicator, comm.allgather(hvd.rank())"
            )
        ranks = list(ranks_or_comm)
        if any(not isinstance(rank, int) for rank in ranks):
            raise ValueError(f"ProcessSet takes a list of ranks, each an int, not {ranks!r}")
        self.ranks = sorted(ranks)

    def size(self) -> Optional[int]:
        """How many ranks it has; None before it has a number."""
        return None if self.process_set_id is None else len(ranks_of(self.process_set_id))

    def rank(self) -> Optional[int]:
        """This process's rank within the set; None before it has a number; ValueError when it is not in it."""
        if self.process_set_id is None:
            return None
        ranks = ranks_of(self.process_set_id)
        if _rank not in ranks:
            raise ValueError(f"rank {_rank} is not part of {self}")
        return ranks.index(_rank)

    def included(self) -> Optional[bool]:
        """Whether this process is in it."""
        if self.ranks is None:
            return None
        if not _ranks_of:
            raise ValueError(requests.NOT_INITIALIZED)
        return _rank in self.ranks

    def __str__(self) -> str:
        return f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks}, mpi_comm={self.mpi_comm})"

    __repr__ = __str__


global_process_set = ProcessSet([])
global_process_set.process_set_id = 0


def ranks_of(process_set_id: int) -> List[int]:
    """The ranks of a set of the open world. ValueError: there is none of this number."""
    if not _ranks_of:
        raise ValueError(requests.NOT_INITIALIZED)
    if process_set_id not in _ranks_of:
        raise ValueError(f"there is no process set {process_set_id}; it was removed, or never added")
    return _ranks_of[process_set_id]


def set_id_of(process_set: ProcessSet) -> int:
    """For a request. ValueError for a set that is not of the open world."""
    if process_set.process_set_id is None:
        raise ValueError(f"{process_set} is not registered: give it to hvd.init(process_sets=[...]) or "
                         "hvd.add_process_set() first")  # fmt: skip
    return process_set.process_set_id


def root_in_set(process_set: ProcessSet, root_rank: int) -> int:
    """Collectives name the root by its rank in the world; requests by its rank in the set."""
    if process_set.process_set_id == 0:
        return root_rank
    ranks = ranks_of(set_id_of(process_set))
    if root_rank not in ranks:
        raise ValueError(f"root_rank {root_rank} is not part of {process_set}; give one of its ranks {ranks}")
    return ranks.index(root_rank)


def ids_and_ranks() -> Dict[int, List[int]]:
    return {number: list(ranks) for number, ranks in _ranks_of.items()}


def process_set_by_id(process_set_id: int) -> ProcessSet:
    """A process set object of this number."""
    ranks = ranks_of(process_set_id)
    if process_set_id == 0:
        return global_process_set
    for known in _objects:
        if known.process_set_id == process_set_id:
            return known
    made = ProcessSet(ranks)
    made.process_set_id = process_set_id
    _objects.add(made)
    return made


def world_opened(rank: int, size: int, static: Sequence[ProcessSet]) -> None:
    """For `basics`: the global set has its ranks, and the sets that were given to init are added, in their order."""
    global _rank
    _rank = rank
    _ranks_of[0] = global_process_set.ranks = list(range(size))
    for index, process_set in enumerate(static):
        if process_set.ranks in _ranks_of.values():
            raise ValueError(f"process_sets[{index}] of hvd.init() is there already: {process_set}. Leave it out")
        _register(process_set)


def world_closed() -> None:
    """For `basics`: no set has a number any more, but the global one."""
    _ranks_of.clear()
    global_process_set.ranks = []
    for known in list(_objects):
        known.process_set_id = None
    _objects.clear()


def _register(process_set: ProcessSet) -> None:
    assert process_set.ranks is not None
    ranks = process_set.ranks
    number = ctypes.c_int32()
    native.call("cohort_set_add", requests.world(), (ctypes.c_int32 * len(ranks))(*ranks), len(ranks),
                ctypes.byref(number))  # fmt: skip
    requests.count_names_again(number.value)  # the number may have been another set's
    process_set.process_set_id = number.value
    _ranks_of[number.value] = ranks
    _objects.add(process_set)


def _need_dynamic(what: str) -> None:
    requests.world()
    if not knobs.is_set("HOROVOD_DYNAMIC_PROCESS_SETS"):
        raise ValueError(f"{what} after hvd.init() needs HOROVOD_DYNAMIC_PROCESS_SETS=1, "
                         'or hvd.init(process_sets="dynamic")')  # fmt: skip


def add_process_set(process_set: Union[ProcessSet, Sequence[int]]) -> ProcessSet:
    """Adds a set to the open world: every rank of the world calls it with the same ranks. Blocks until all have.

    ValueError for ranks of which there is a set already.
    """
    if not isinstance(process_set, ProcessSet):
        process_set = ProcessSet(process_set)
    _need_dynamic("adding a process set")
    if process_set.ranks in _ranks_of.values():
        raise ValueError(f"there is a process set of these ranks already: {process_set}")
    _register(process_set)
    return process_set


def remove_process_set(process_set: ProcessSet) -> bool:
    """Removes a set: every rank of the world calls it. False for the global set and for one without a number."""
    number = process_set.process_set_id
    if number is None or number == 0:
        return False
    _need_dynamic("removing a process set")
    if number not in _ranks_of:
        return False
    native.call("cohort_set_remove", requests.world(), number)
    del _ranks_of[number]
    for known in list(_objects):
        if known.process_set_id == number:
            known.process_set_id = None
            _objects.discard(known)
    process_set.process_set_id = None
    return True
