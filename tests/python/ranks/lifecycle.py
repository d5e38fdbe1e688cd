"""Every rank runs this: worlds opened and closed many times, of all ranks and of some; then a fork."""

import multiprocessing
import os
import threading
import time

import numpy as np

import cohort as hvd


def exchange():
    assert hvd.allreduce(np.ones(4), op=hvd.Sum).tolist() == [hvd.size()] * 4
    assert hvd.allgather_object(hvd.rank()) == list(range(hvd.size()))


def refused(call):
    try:
        call()
    except ValueError as error:
        assert "has not been initialized; use hvd.init()." in str(error), error
    else:
        raise AssertionError("not refused")


def before_init():
    for call in (hvd.rank, hvd.size, hvd.local_rank, hvd.local_size, hvd.cross_rank, hvd.cross_size,
                 lambda: hvd.allreduce(np.ones(1)), hvd.barrier, lambda: hvd.broadcast_object(1),
                 lambda: hvd.start_timeline("x"), hvd.stop_timeline):  # fmt: skip
        refused(call)
    assert not hvd.is_initialized()
    hvd.shutdown()


def many_worlds():
    started = time.monotonic()
    for _ in range(20):
        hvd.init()
        hvd.init()
        assert hvd.is_initialized()
        exchange()
        hvd.shutdown()
        hvd.shutdown()
        refused(hvd.rank)
    return (time.monotonic() - started) / 20


def worlds_of_some_ranks():
    hvd.init()
    rank, size = hvd.rank(), hvd.size()
    hvd.shutdown()
    for ranks in ([0], list(range(size)), list(range(size))[::-1], list(range(1, size)), [0, size - 1]):
        if not ranks:
            continue
        ranks = list(dict.fromkeys(ranks))
        hvd.init(comm=ranks)
        expected = (sorted(ranks).index(rank), len(ranks)) if rank in ranks else (0, 1)
        assert (hvd.rank(), hvd.size()) == expected, (ranks, rank, hvd.rank(), hvd.size())
        exchange()
        hvd.shutdown()
    hvd.init()
    assert (hvd.rank(), hvd.size()) == (rank, size)


def closed_while_a_thread_waits():
    """Requests under way fail, whether a thread waits for them or has a handle."""
    if hvd.size() == 1:
        return
    found = []

    def wait(call):
        try:
            call()
        except hvd.HorovodInternalError as error:
            found.append(str(error))

    def ours(name):  # no other rank has a request of this name
        return f"{name} of {hvd.rank()}"

    handle = hvd.allreduce_async(np.ones(4), name=ours("handle"))
    waiting = threading.Thread(target=wait, args=(lambda: hvd.allreduce(np.ones(4), name=ours("thread")),))
    waiting.start()
    time.sleep(0.1)
    assert not hvd.poll(handle) and waiting.is_alive()
    hvd.barrier()  # a rank that is late has looked, too
    hvd.shutdown()
    waiting.join(timeout=5)
    wait(lambda: hvd.synchronize(handle))
    assert len(found) == 2, found
    hvd.init()
    exchange()


def use_in_child(queue):
    try:
        hvd.init()
        queue.put("not refused")
    except ValueError as error:
        queue.put((hvd.rank(), hvd.size(), str(error)))


def forks():
    """A child that was forked after init knows the ranks, but cannot take part; the parent goes on."""
    handle = hvd.allreduce_async(np.ones(4), name="over a fork")
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=use_in_child, args=(queue,))
    child.start()
    rank, size, text = queue.get(timeout=20)
    child.join()
    assert (rank, size) == (hvd.rank(), hvd.size()) and "forked after hvd.init()" in text, text
    pid = os.fork()
    if pid == 0:
        raise SystemExit(0)  # through atexit, as a program ends
    assert os.waitpid(pid, 0)[1] == 0
    assert hvd.synchronize(handle).tolist() == [1.0] * 4
    exchange()


before_init()
seconds = many_worlds()
worlds_of_some_ranks()
closed_while_a_thread_waits()
forks()
assert [hvd.mpi_built(), hvd.mpi_enabled(), hvd.gloo_built(), hvd.nccl_built(), hvd.cuda_built()] == [0] * 5
hvd.barrier()
if hvd.rank() == 0:
    print(f"init and shutdown: {seconds * 1000:.1f} ms")
print("all is well")
