"""The world of this process: init, shutdown, who we are in it; and the job that it belongs to.

A process joins its job once, at the first init, and leaves it when the program ends; shutdown closes the world alone,
so that init can open another, any number of times. In a forked child rank() and size() still answer, but nothing can
be exchanged.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
import threading
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Union

from cohort import native
from cohort.common import knobs, process_sets as sets, requests, signals
from cohort.common.exceptions import HorovodInternalError
from cohort.common.process_sets import ProcessSet
from cohort.common.requests import NOT_INITIALIZED
from cohort.common.util import is_iterable

Average, Sum, Adasum, Min, Max, Product = range(6)

on_init: List[Callable[[], None]] = []  # called without arguments when a world was opened, and before it is closed
on_shutdown: List[Callable[[], None]] = []

_LEAVE_MS = 10 * 60 * 1000  # how long a task that hosts something stays for the others
_LEAVE_FAILED_MS = 5 * 1000


class JobInfo(NamedTuple):
    """See cohort_job_info. In an elastic job `rank` is the slot, and `size` the most that there can be."""

    rank: int
    size: int
    elastic: bool
    alone: bool
    id: str
    output: str
    dialect: str
    authenticated: bool


class WorldInfo(NamedTuple):
    """See cohort_world_info."""

    rank: int
    size: int
    local_rank: int
    local_size: int
    cross_rank: int
    cross_size: int
    homogeneous: bool
    view: int
    newcomer: bool


_lock = threading.RLock()
_job: Optional[int] = None
_info: Optional[WorldInfo] = None
_forked = False


def job() -> int:
    """The address of the job; joins it when that was not done yet."""
    global _job
    with _lock:
        if _forked:
            raise ValueError(
                "this process was forked after hvd.init(), and cannot take part in the job. Start it with "
                'multiprocessing\'s "spawn" or "forkserver", or fork before hvd.init()'
            )
        if _job is None:
            knobs.set_log_level()
            joined = ctypes.c_void_p()
            native.call("cohort_job_join", None, ctypes.byref(joined))
            _job = joined.value
            atexit.register(_leave)
        assert _job is not None
        return _job


def job_info() -> JobInfo:
    info = native.JobInfo(struct_size=ctypes.sizeof(native.JobInfo))
    native.call("cohort_job_describe", job(), ctypes.byref(info))
    return JobInfo(info.rank, info.size, bool(info.elastic), bool(info.alone), (info.id or b"").decode(),
                   (info.output or b"").decode(), (info.dialect or b"").decode(), bool(info.authenticated))  # fmt: skip


def world_info() -> WorldInfo:
    """ValueError when no world is open."""
    if _info is None:
        raise ValueError(NOT_INITIALIZED)
    return _info


def open_world(ranks: Optional[Sequence[int]] = None, stage: int = 0, why: Optional[str] = None,
               process_sets: Sequence[ProcessSet] = ()) -> WorldInfo:  # fmt: skip
    """Opens a world; no other is open. `stage` and `why`: elastic, not the first world (see cohort_world_options)."""
    global _info
    with _lock:
        options = native.WorldOptions(struct_size=ctypes.sizeof(native.WorldOptions), stage=stage,
                                      why=why.encode() if why is not None else None)  # fmt: skip
        for name, value in knobs.world_options(job_info().elastic).items():
            setattr(options, name, value)
        if ranks:
            options.ranks = (ctypes.c_int32 * len(ranks))(*ranks)
            options.rank_count = len(ranks)
        signals.watch_this_thread()
        world = ctypes.c_void_p()
        native.call("cohort_world_open", job(), ctypes.byref(options), ctypes.byref(world))
        requests.set_world(world.value)
        try:
            info = native.WorldInfo(struct_size=ctypes.sizeof(native.WorldInfo))
            native.call("cohort_world_describe", world, ctypes.byref(info))
            _info = WorldInfo(info.rank, info.size, info.local_rank, info.local_size, info.cross_rank, info.cross_size,
                              bool(info.homogeneous), info.view, bool(info.newcomer))  # fmt: skip
            sets.world_opened(_info.rank, _info.size, process_sets)
            timeline = os.environ.get("HOROVOD_TIMELINE", "")
            if timeline and timeline.upper() != "DYNAMIC":
                start_timeline(timeline, knobs.is_set("HOROVOD_TIMELINE_MARK_CYCLES"))
            for hook in on_init:
                hook()
        except BaseException:
            shutdown()
            raise
        return _info


def init(comm: Optional[Sequence[int]] = None, process_sets: Union[None, str, Sequence[ProcessSet]] = None) -> None:
    """Joins the job, and opens the world of all its ranks, or of the ranks `comm`. Does nothing when one is open.

    `process_sets` are added at once, on every rank the same; "dynamic" allows add_process_set later.
    """
    if isinstance(process_sets, str):
        if process_sets.lower() != "dynamic":
            raise ValueError(f"process_sets is '{process_sets}'. Give a list of ProcessSet, or \"dynamic\"")
        os.environ["HOROVOD_DYNAMIC_PROCESS_SETS"] = "1"
        process_sets = None
    static = [known if isinstance(known, ProcessSet) else ProcessSet(known) for known in process_sets or ()]
    with _lock:
        if _info is None or _forked:
            open_world(_ranks_of(comm), process_sets=static)
        else:
            for process_set in static:
                _adopt(process_set)


def _ranks_of(comm: Any) -> List[int]:
    if comm is None:
        return []
    if not is_iterable(comm):
        raise ValueError(
            f"comm is {comm!r}. Give a list of ranks, or None for all: Cohort does not use MPI. For a communicator "
            "these are the ranks that comm.allgather(MPI.COMM_WORLD.rank) lists"
        )
    ranks = sorted(comm)
    if any(not isinstance(rank, int) for rank in ranks):
        raise ValueError(f"comm is {comm!r}. Give a list of ranks, each an int, or None for all")
    return ranks


def _adopt(process_set: ProcessSet) -> None:
    """A set that is given to an init which finds the world open: it must be there."""
    for number, ranks in sets.ids_and_ranks().items():
        if number and ranks == process_set.ranks:
            process_set.process_set_id = number
            return
    raise ValueError(f"{process_set} is not part of the world that is open. Call hvd.shutdown() before hvd.init()")


def shutdown() -> None:
    """Closes the world. Requests under way fail, here and on the ranks that wait for this one."""
    global _info
    with _lock:
        if _forked or requests._world is None:
            return
        world = requests.world()
        try:
            for hook in on_shutdown:
                hook()
        finally:
            _info = None
            requests.set_world(None)
            sets.world_closed()
            native.library().cohort_world_close(world)
            requests.sweep()


def is_initialized() -> bool:
    return _info is not None


def _leave() -> None:
    """At the end of the program: the others learn that this rank is done, or, after an exception, that it failed."""
    global _job
    if _job is None or _forked:
        return
    succeeded = not hasattr(sys, "last_value")  # set when Python printed the exception that ended the program
    leaving, _job = _job, None
    try:
        shutdown()
        native.call("cohort_job_leave", leaving, int(succeeded), _LEAVE_MS if succeeded else _LEAVE_FAILED_MS)
    except HorovodInternalError as error:
        if succeeded:
            print(f"leaving the job: {error}", file=sys.stderr)
    finally:
        native.library().cohort_set_interrupt_check(signals.CHECK(), None)


class _AfterFork:
    """In place of the library in a forked child: handles that the child inherited may be dropped."""

    @staticmethod
    def cohort_call_poll(_: int) -> int:
        return 1

    @staticmethod
    def cohort_call_free(_: int) -> None:
        pass


def _in_forked_child() -> None:
    global _forked, _lock
    _lock = threading.RLock()
    if _job is not None:
        _forked = True
        requests.abandon(_AfterFork())


os.register_at_fork(after_in_child=_in_forked_child)


def rank() -> int:
    if _info is None:
        raise ValueError(NOT_INITIALIZED)
    return _info.rank


def size() -> int:
    if _info is None:
        raise ValueError(NOT_INITIALIZED)
    return _info.size


def local_rank() -> int:
    """The rank among those of this host."""
    return world_info().local_rank


def local_size() -> int:
    return world_info().local_size


def cross_rank() -> int:
    """The rank among the hosts that have a rank of this local rank."""
    return world_info().cross_rank


def cross_size() -> int:
    return world_info().cross_size


def is_homogeneous() -> bool:
    """Every host has as many ranks."""
    return world_info().homogeneous


def start_timeline(file_path: str, mark_cycles: bool = False) -> None:
    """Rank 0 writes a trace of its requests to `file_path` from now on; Perfetto opens it."""
    if rank() == 0:
        native.call("cohort_timeline_start", requests.world(), os.fspath(file_path).encode(), int(mark_cycles))


def stop_timeline() -> None:
    if rank() == 0:
        native.call("cohort_timeline_stop", requests.world())


def mpi_enabled() -> bool:
    return False


def mpi_built() -> bool:
    return False


def mpi_threads_supported() -> bool:
    """ValueError, as in Horovod where MPI is not enabled."""
    raise ValueError("MPI is not enabled: Cohort has transports of its own, and may be mixed with MPI in any way")


def gloo_enabled() -> bool:
    return False


def gloo_built() -> bool:
    return False


def nccl_built() -> int:
    """The version of NCCL, or 0."""
    return 0


def ddl_built() -> bool:
    return False


def ccl_built() -> bool:
    return False


def cuda_built() -> bool:
    return False


def rocm_built() -> bool:
    return False


class HorovodBasics:
    """The functions of this module as methods; frameworks keep one as `_basics`."""

    Average, Sum, Adasum, Min, Max, Product = Average, Sum, Adasum, Min, Max, Product

    def __init__(self, pkg_path: Optional[str] = None, *args: object) -> None:
        pass

    init = staticmethod(init)
    shutdown = staticmethod(shutdown)
    is_initialized = staticmethod(is_initialized)
    start_timeline = staticmethod(start_timeline)
    stop_timeline = staticmethod(stop_timeline)
    size = staticmethod(size)
    local_size = staticmethod(local_size)
    cross_size = staticmethod(cross_size)
    rank = staticmethod(rank)
    local_rank = staticmethod(local_rank)
    cross_rank = staticmethod(cross_rank)
    is_homogeneous = staticmethod(is_homogeneous)
    mpi_threads_supported = staticmethod(mpi_threads_supported)
    mpi_enabled = staticmethod(mpi_enabled)
    mpi_built = staticmethod(mpi_built)
    gloo_enabled = staticmethod(gloo_enabled)
    gloo_built = staticmethod(gloo_built)
    nccl_built = staticmethod(nccl_built)
    ddl_built = staticmethod(ddl_built)
    ccl_built = staticmethod(ccl_built)
    cuda_built = staticmethod(cuda_built)
    rocm_built = staticmethod(rocm_built)

    @staticmethod
    def _get_process_set_ids_and_ranks() -> Dict[int, List[int]]:
        return sets.ids_and_ranks()
