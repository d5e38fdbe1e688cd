"""ddp_program.py's convolutional net in an elastic job whose rank 1 kills itself in the middle, once.

    ddp_elastic_program.py SHARDS

Commits every second step, so that some are done again. Every worker prints `conv weights SHA256` at the end.
"""

from __future__ import annotations

import os
import pathlib
import signal
import sys

import torch
from ddp_program import BATCH, fingerprint, make_conv, make_data
from torch import nn
from torch.utils.data import DataLoader

import cohort.torch as hvd
from cohort.common import basics

EPOCHS = 3
KILL_AT = (1, 2)  # epoch and step, after which a rank kills itself


def main() -> None:
    hvd.init()
    shards = int(sys.argv[1])
    torch.manual_seed(11)
    model, data = make_conv(), make_data()
    ddp = hvd.DistributedDataParallel(model, virtual_shards=shards, seed=5)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05, momentum=0.9)
    criterion = nn.CrossEntropyLoss()
    sampler = hvd.ShardedSampler(data, batch_size=BATCH, shards=shards, seed=3, ledger=True)
    loader = DataLoader(data, batch_sampler=sampler)
    state = hvd.elastic.TorchState(model, optimizer, sampler=sampler)
    killed = pathlib.Path(basics.job_info().output) / "killed"

    @hvd.elastic.run
    def train(state: hvd.elastic.TorchState) -> None:
        while sampler.epoch < EPOCHS:
            for step in ddp.steps(loader):
                optimizer.zero_grad()
                for x, y in step:
                    criterion(ddp(x), y).backward()
                optimizer.step()
                if step.number == KILL_AT and hvd.rank() == 1 and not killed.exists():
                    killed.touch()
                    os.kill(os.getpid(), signal.SIGKILL)
                if step.number[1] % 2 == 1:
                    state.commit()

    train(state)
    print(f"conv weights {fingerprint(model)}", flush=True)


if __name__ == "__main__":
    main()
