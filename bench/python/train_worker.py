"""One worker of python_bench.py: what bench/train/worker.cpp does, with cohort.torch.

train_worker.py MODEL MODE BATCH WARMUP STEPS
  MODE  optimizer  DistributedOptimizer
        ddp        DistributedDataParallel
        shards     DistributedDataParallel with as many virtual shards as workers
"""

import hashlib
import json
import math
import pathlib
import sys
import time

import torch
from torch.nn import functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "train"))
import ddp_worker  # noqa: E402

import cohort.torch as hvd  # noqa: E402


def fingerprint(model):
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(parameter.detach().numpy().tobytes())
    return digest.hexdigest()


def main():
    name, mode, batch, warmup, steps = *sys.argv[1:3], *map(int, sys.argv[3:6])
    torch.set_num_threads(1)
    hvd.init()
    rank, size = hvd.rank(), hvd.size()
    kind, shape = ddp_worker.CASES[name]
    model = kind()
    ddp_worker.initialise(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    parallel = model
    if mode == "optimizer":
        optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    else:
        parallel = hvd.DistributedDataParallel(model, virtual_shards=size if mode == "shards" else None)
    each = math.prod(shape)
    data = ddp_worker.scattered(rank * batch * each, batch * each, 0).float().view(batch, *shape)
    target = torch.arange(rank * batch, (rank + 1) * batch) % 10
    with open("/proc/self/clear_refs", "w") as peak:
        peak.write("5")
    hvd.barrier()
    for i in range(warmup + steps):
        if i == warmup:
            begin = time.monotonic()
        optimizer.zero_grad()
        for x, y in parallel.step([(data, target)] * size) if mode == "shards" else ((data, target),):
            loss = F.cross_entropy(parallel(x), y)
            loss.backward()
        optimizer.step()
        value = loss.item()
    seconds = time.monotonic() - begin
    print(
        "measured",
        json.dumps(
            {
                "rank": rank,
                "samples_per_second": batch * steps / seconds,
                "loss": value,
                "weights": fingerprint(model),
                "share_kib": ddp_worker.memory_kib("smaps_rollup", "Pss:"),
                "peak_kib": ddp_worker.memory_kib("status", "VmHWM:"),
            }
        ),
        flush=True,
    )


main()
