"""What runner_test.py has run on ranks: functions of a module, which pickle can name."""

import os
import signal
import sys
import time

RANK = int(os.environ.get("COHORT_RANK", -1))


class Unreadable(Exception):
    """Can be pickled, and not be read again."""

    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


def describe(word, times=1):
    return [RANK, word * times]


def large(size):
    return bytes([RANK]) * size


def environment(name):
    return os.environ.get(name)


def secrets():
    return [name for name in os.environ if name.startswith("COHORT_RUN_")]


def raise_on_rank_1(kind):
    if RANK == 1:
        if kind == "unreadable":
            raise Unreadable("this", "that")
        raise {"value": ValueError, "key": KeyError}[kind]("shard 3 is empty")
    time.sleep(60)


def killed_on_rank_1():
    if RANK == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)


def exit_on_rank_1():
    if RANK == 1:
        sys.exit(0)


def return_what_cannot_be_sent():
    return open(os.devnull)


def sleep(path):
    with open(f"{path}.{RANK}", "w") as file:
        file.write(str(os.getpid()))
    time.sleep(60)


def gather():
    import cohort

    cohort.init()
    ranks = cohort.allgather_object(cohort.rank())
    cohort.shutdown()
    return ranks


def gather_and_fail():
    import cohort

    cohort.init()
    if cohort.rank() == 1:
        raise ValueError("shard 3 is empty")
    cohort.barrier()


def gather_elastically():
    """Worker 1 is killed once, on its way to step 3."""
    import cohort
    from cohort.common.elastic import ObjectState, reset_world, run_fn

    def train(state):
        while state.step < 5:
            if state.step == 2 and RANK == 1 and "COHORT_INCARNATION" not in os.environ:
                os.kill(os.getpid(), signal.SIGKILL)
            cohort.allgather_object(state.step)
            state.step += 1
            state.commit()
        return state.step

    cohort.init()
    return run_fn(train, reset_world)(ObjectState(cohort.broadcast_object, cohort.rank, step=0))
