"""Rank 0 waits in `python blocked.py WAIT` until it is interrupted; rank 1 waits for something else.

Prints "PID of rank N" when it is about to wait, and what ended the wait.
"""

import os
import signal
import sys
import threading
import time

import numpy as np

import cohort as hvd


def stop(number, frame):
    raise InterruptedError(f"signal {number}")


def wait(how):
    if how == "blocking":
        hvd.allreduce(np.ones(4), name="never")
    elif how == "handle":
        hvd.synchronize(hvd.allreduce_async(np.ones(4), name="never"))
    elif how == "large":  # the others have it, but one of them does not go on
        for index in range(10_000):
            hvd.allreduce(np.ones(1_000_000), name=f"large.{index}")
    elif how == "handler":
        signal.signal(signal.SIGUSR1, stop)
        hvd.barrier()
    elif how == "world":
        hvd.init()


def main():
    how = sys.argv[1]
    hvd.init()
    rank = hvd.rank()
    hvd.barrier()
    if how == "world":
        hvd.shutdown()
    print(f"{os.getpid()} of rank {rank}", flush=True)
    started = time.monotonic()
    try:
        if rank == 0:
            wait(how)
        elif how == "large":
            wait(how)
        elif how == "world":
            time.sleep(20)
        else:
            hvd.allreduce(np.ones(4), name="something else")
    except BaseException as error:
        took = time.monotonic() - started
        peer = getattr(error, "peer", None)
        print(f"rank {rank}: {type(error).__name__} after {took:.2f} s, peer {peer}: {error}", flush=True)
        assert threading.current_thread() is threading.main_thread()
        raise
    print(f"rank {rank}: not ended", flush=True)


main()
