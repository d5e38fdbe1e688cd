"""Every rank runs this: process sets, given to init and added later. At least 2 ranks."""

import sys

import numpy as np

import cohort as hvd


def refused(call, *words):
    try:
        call()
    except ValueError as error:
        assert all(word in str(error) for word in words), error
    else:
        raise AssertionError(f"not refused: {words}")


def static_sets():
    first = hvd.ProcessSet([0])
    others = hvd.ProcessSet(range(size - 1, 0, -1))
    assert (first.process_set_id, first.size(), first.rank()) == (None, None, None)
    refused(lambda: hvd.allreduce(np.ones(1), process_set=first), "is not registered")
    hvd.init(process_sets=[first, others])
    assert others.ranks == list(range(1, hvd.size())), others
    assert {first.process_set_id, others.process_set_id} == {1, 2}, (first, others)
    assert str(first) == f"ProcessSet(process_set_id={first.process_set_id}, ranks=[0], mpi_comm=None)", str(first)
    mine, foreign = (first, others) if hvd.rank() == 0 else (others, first)
    assert mine.included() and not foreign.included()
    assert mine.rank() == max(hvd.rank() - 1, 0) and mine.size() == len(mine.ranks)
    refused(foreign.rank, "not part of")
    refused(lambda: hvd.allreduce(np.ones(2), process_set=foreign))
    for _ in range(10):  # each set at its own pace
        total = hvd.allreduce(np.full(3, float(hvd.rank())), op=hvd.Sum, process_set=mine)
        assert total.tolist() == [float(sum(mine.ranks))] * 3, total
    for _ in range(hvd.rank() == 0):  # and one more call of a set must not confuse the others' names
        hvd.allreduce(np.ones(1), process_set=mine)
    assert hvd.allgather(np.array([hvd.rank()]), process_set=mine).tolist() == mine.ranks
    assert hvd.broadcast(np.array([hvd.rank()]), mine.ranks[-1], process_set=mine).tolist() == [mine.ranks[-1]]
    refused(lambda: hvd.broadcast(np.ones(1), foreign.ranks[0], process_set=mine), "root_rank")
    assert hvd.broadcast_object(hvd.rank(), mine.ranks[-1], process_set=mine) == mine.ranks[-1]
    assert hvd.allgather_object(hvd.rank(), process_set=mine) == mine.ranks
    hvd.barrier(process_set=mine)
    assert hvd.allreduce(np.ones(1), op=hvd.Sum).item() == hvd.size()
    assert hvd.allreduce(np.ones(1), op=hvd.Sum, process_set=hvd.global_process_set).item() == hvd.size()
    refused(lambda: hvd.add_process_set([0, 1]), "HOROVOD_DYNAMIC_PROCESS_SETS=1")
    refused(lambda: hvd.remove_process_set(first), "HOROVOD_DYNAMIC_PROCESS_SETS=1")
    hvd.barrier()
    hvd.shutdown()
    assert (first.process_set_id, first.ranks) == (None, [0])


def repeated_sets():
    refused(lambda: hvd.init(process_sets=[hvd.ProcessSet([0]), hvd.ProcessSet([0])]), "process_sets[1]")
    assert not hvd.is_initialized()
    refused(lambda: hvd.init(process_sets=[hvd.ProcessSet(range(size))]), "process_sets[0]")
    refused(lambda: hvd.init(process_sets="some"), '"dynamic"')
    refused(lambda: hvd.ProcessSet(3), "list of ranks")
    refused(lambda: hvd.ProcessSet(["a"]), "list of ranks")


def dynamic_sets():
    hvd.init(process_sets="dynamic")
    ranks = [0, size - 1] if size > 2 else [1]
    ids = set()
    for _ in range(3):
        pair = hvd.add_process_set(ranks)
        refused(lambda: hvd.add_process_set(ranks[::-1]), "already")
        if pair.included():
            assert hvd.allreduce(np.ones(2), op=hvd.Sum, process_set=pair).tolist() == [len(ranks)] * 2
        ids.add(pair.process_set_id)
        assert hvd.remove_process_set(pair) is True
        assert pair.process_set_id is None
        refused(lambda: hvd.allreduce(np.ones(2), process_set=pair), "is not registered")
        assert hvd.remove_process_set(pair) is False
    assert ids == {1}, ids  # the lowest number that is free
    assert hvd.remove_process_set(hvd.global_process_set) is False
    if hvd.size() > 2:
        order = [[0, 1], [1, 2]]
        added = [hvd.add_process_set(ranks) for ranks in order]
        numbers = hvd.allgather_object([one.process_set_id for one in added])
        assert all(one == numbers[0] for one in numbers), numbers
        for one in added:  # rank 1 is in both
            if one.included():
                assert hvd.allgather(np.array([hvd.rank()]), process_set=one).tolist() == one.ranks
    hvd.barrier()
    hvd.shutdown()


hvd.init()
size = hvd.size()
hvd.shutdown()
static_sets()
repeated_sets()
dynamic_sets()
print("all is well")
sys.exit(0)
