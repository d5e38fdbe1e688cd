"""A training with cohort.torch.DistributedDataParallel and torch's DataLoader, as a person writes it.

    ddp_program.py [--shards M] [--ledger] [--compare]

With --shards each rank prints, for a small MLP and a small net with convolution, batch norm and dropout, a line
`NAME weights SHA256` of parameters and buffers; with --compare it compares what is averaged without shards with the
gradients of one process.
"""

from __future__ import annotations

import argparse
import hashlib

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import cohort.torch as hvd
from cohort.torch.distributed import DistributedDataParallel
from cohort.torch.sharded_sampler import ShardedSampler

BATCH = 24


def make_mlp() -> nn.Module:
    """With one weight that is large enough for DirectLinear."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, 520), nn.Tanh(), nn.Linear(520, 520), nn.Tanh(), nn.Linear(520, 10)
    )


def make_conv() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 6, 3, padding=1),
        nn.BatchNorm2d(6),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.3),
        nn.Linear(96, 10),
    )


def make_data() -> TensorDataset:
    generator = torch.Generator().manual_seed(7)
    images = torch.randn(100, 1, 8, 8, generator=generator)
    return TensorDataset(images, (images.abs().sum((1, 2, 3)) * 10).long() % 10)


def fingerprint(module: nn.Module) -> str:
    digest = hashlib.sha256()
    for name, value in sorted(module.state_dict().items()):
        digest.update(name.encode() + value.contiguous().numpy().tobytes())
    return digest.hexdigest()


def train(model: nn.Module, shards: int, ledger: bool) -> None:
    """100 samples in batches of 24: the last one has 4, so with 12 shards some are empty."""
    data = make_data()
    ddp = DistributedDataParallel(model, virtual_shards=shards, seed=5)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05, momentum=0.9)
    criterion = nn.CrossEntropyLoss()
    sampler = ShardedSampler(data, batch_size=BATCH, shards=shards, seed=3, ledger=ledger)
    loader = DataLoader(data, batch_sampler=sampler)
    for _ in range(3):
        for step in ddp.steps(loader):
            optimizer.zero_grad()
            for x, y in step:
                criterion(ddp(x), y).backward()
            optimizer.step()


def gradients(model: nn.Module) -> list[torch.Tensor]:
    return [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]


def compare() -> None:
    """What DistributedDataParallel gives without shards, beside one process that sees every rank's samples."""
    images, targets = make_data().tensors
    size, rank = hvd.size(), hvd.rank()
    criterion = nn.CrossEntropyLoss()
    torch.manual_seed(rank)  # rank 0's parameters count
    model = make_mlp()
    ddp = DistributedDataParallel(model, bucket_mb=0.01)
    torch.manual_seed(0)
    alone = make_mlp()
    optimizers = [torch.optim.Adam(m.parameters()) for m in (ddp, alone)]

    def both(mine: slice, all_of: slice) -> None:
        criterion(ddp(images[mine]), targets[mine]).backward()
        criterion(alone(images[all_of]), targets[all_of]).backward()

    for step in range(3):
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=step != 1)
        if step == 2:
            with ddp.no_sync():
                both(slice(80 + rank, 81 + rank), slice(80, 80 + size))
                before = gradients(model)
        both(slice(step * 20 + rank * 4, step * 20 + rank * 4 + 4), slice(step * 20, step * 20 + 4 * size))
        for mine, wanted in zip(gradients(model), gradients(alone)):
            torch.testing.assert_close(mine, wanted)
        for optimizer in optimizers:
            optimizer.step()
    assert size == 1 or not all(torch.equal(a, b) for a, b in zip(before, gradients(model)))

    normed = DistributedDataParallel(make_conv())
    normed(images[rank * 10 : rank * 10 + 10]).sum().backward()
    statistics = hvd.allgather(normed.module[1].running_mean.unsqueeze(0))
    assert torch.equal(statistics, statistics[:1].expand_as(statistics)), statistics
    print("gradients agree", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--shards", type=int)
    parser.add_argument("--compare", action="store_true")
    parser.add_argument("--ledger", action="store_true")
    arguments = parser.parse_args()
    hvd.init()
    if arguments.compare:
        compare()
    for name, make in (("mlp", make_mlp), ("conv", make_conv)) if arguments.shards else ():
        torch.manual_seed(11)
        model = make()
        train(model, arguments.shards, arguments.ledger and name == "mlp")
        print(f"{name} weights {fingerprint(model)}", flush=True)


if __name__ == "__main__":
    main()
