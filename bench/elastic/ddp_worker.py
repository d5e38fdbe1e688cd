"""elastic_program's peer: the same MLP with PyTorch's DistributedDataParallel, restarted by torchrun.

    torchrun --nproc-per-node N --max-restarts R ddp_worker.py WIDTH BATCH STEPS FOLDER CHECKPOINT EVERY

Rank 0 saves model, optimizer and step every EVERY steps; a restarted training goes on from there, as torchrun's
documentation advises. Every process appends each step that it has applied to FOLDER/worker-RANK.PID:
"STEP NANOSECONDS LOSS", nanoseconds of CLOCK_MONOTONIC.
"""

import os
import pathlib
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

INPUTS, CLASSES = 784, 10


def main():
    width, batch, steps = map(int, sys.argv[1:4])
    folder, checkpoint, every = pathlib.Path(sys.argv[4]), pathlib.Path(sys.argv[5]), int(sys.argv[6])
    torch.set_num_threads(1)
    torch.manual_seed(1)
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    # With torch 2.13's --standalone, restarted workers find the addresses of the dead ones in the store and never meet:
    # give each attempt keys of its own.
    store = torch.distributed.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
    attempt = torch.distributed.PrefixStore(f"attempt {os.environ['TORCHELASTIC_RESTART_COUNT']}", store)
    torch.distributed.init_process_group("gloo", store=attempt, rank=rank, world_size=size)
    model = nn.Sequential(nn.Linear(INPUTS, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Dropout(0.1),
                          nn.Linear(width, CLASSES))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    begin = 0
    if checkpoint.exists():
        saved = torch.load(checkpoint)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        begin = saved["step"]
    parallel = nn.parallel.DistributedDataParallel(model)
    generator = torch.Generator().manual_seed(rank)
    data = torch.rand(batch // size, INPUTS, generator=generator)
    target = data[:, :780].view(-1, CLASSES, 78).sum(2).argmax(1)
    with open(folder / f"worker-{rank}.{os.getpid()}", "w") as times:
        for step in range(begin + 1, steps + 1):
            optimizer.zero_grad()
            loss = F.cross_entropy(parallel(data), target)
            loss.backward()
            optimizer.step()
            times.write(f"{step} {time.monotonic_ns()} {loss.item()}\n")
            times.flush()
            if rank == 0 and step % every == 0:
                torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step},
                           checkpoint.with_suffix(".new"))
                checkpoint.with_suffix(".new").rename(checkpoint)
    torch.distributed.destroy_process_group()


main()
