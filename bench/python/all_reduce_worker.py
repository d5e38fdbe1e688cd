"""One rank of python_bench.py's all-reduces: what all_reduce_worker.cpp does, on torch tensors; then it idles.

    all_reduce_worker.py BYTES...

Prints for each size `case f32 BYTES own RANK MIN MEDIAN P99` (microseconds), then `idle RANK SHARE WAITING`: how
much of a core the process used in a second without requests, and in one in which it waited for the other rank.
"""

import os
import sys
import time

import torch

import cohort.torch as hvd


def bind_to_core(rank, size):
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) >= size:
        os.sched_setaffinity(0, {cores[rank]})


def measure(size, rank, ranks):
    count = size // 4
    tensor = torch.arange(count, dtype=torch.float32).remainder_(5).add_(rank)
    wanted = torch.arange(count, dtype=torch.float32).remainder_(5).mul_(ranks).add_(sum(range(ranks)))
    hvd.allreduce_(tensor, op=hvd.Sum, name="x")
    if not torch.equal(tensor, wanted):
        sys.exit(f"rank {rank}: wrong result for {size} bytes")
    tensor.zero_()
    iterations = min(2000, max(7, (256 << 20) // size))
    micros = []
    for i in range(iterations + (iterations + 4) // 5):
        begin = time.perf_counter()
        hvd.allreduce_(tensor, op=hvd.Sum, name="x")
        micros.append((time.perf_counter() - begin) * 1e6)
    micros = sorted(micros[-iterations:])
    spread = (micros[0], micros[len(micros) // 2], micros[len(micros) * 99 // 100])
    print(f"case f32 {size} own {rank}", *(f"{value:.3f}" for value in spread), flush=True)


def idle_share(wait):
    begin, used = time.perf_counter(), time.process_time()
    wait()
    return (time.process_time() - used) / (time.perf_counter() - begin)


def main():
    torch.set_num_threads(1)
    hvd.init()
    rank, size = hvd.rank(), hvd.size()
    bind_to_core(rank, size)
    for argument in sys.argv[1:]:
        measure(int(argument), rank, size)
    hvd.synchronize(hvd.allreduce_async(torch.zeros(1000)))  # the library's threads are there
    sleeping = idle_share(lambda: time.sleep(1))
    hvd.barrier()
    if rank == 0:
        time.sleep(1)
    waiting = idle_share(hvd.barrier)
    print(f"idle {rank} {sleeping:.5f} {waiting if rank else 0:.5f}", flush=True)


main()
