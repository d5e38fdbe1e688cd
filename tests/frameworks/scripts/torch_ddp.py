"""DistributedDataParallel over gloo; finds its role in torchrun's variables alone (env://).

Learns y = 3 a - 2 b. Rank i sees samples in which only feature i is not zero, so a rank that trained
alone would never learn the other's weight: right weights prove that gradients were exchanged.
"""

import argparse
import hashlib
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

TRUE_WEIGHTS = torch.tensor([[3.0, -2.0]])


def batch(rank):
    features = torch.zeros(32, 2)
    features[:, rank % 2] = torch.randn(32)
    return features, features @ TRUE_WEIGHTS.T


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--broken-rank", type=int, help="this rank reads a broken sample in the middle")
    options = parser.parse_args()

    dist.init_process_group("gloo", init_method="env://")
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(rank)
    model = DistributedDataParallel(torch.nn.Linear(2, 1, bias=False))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.4)
    for step in range(options.steps):
        if rank == options.broken_rank and step == options.steps // 2:
            raise ValueError(f"sample {step} is broken")
        features, labels = batch(rank)
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(features), labels)
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(f"step {step} loss {loss.item():.6f}", flush=True)

    weights = model.module.weight.detach()
    digest = hashlib.sha256(weights.numpy().tobytes()).hexdigest()[:16]
    digests = [None] * size
    dist.all_gather_object(digests, digest)
    error = (weights - TRUE_WEIGHTS).abs().max().item()
    print(f"trained rank={rank} size={size} local_rank={os.environ['LOCAL_RANK']} error={error:.4f} "
          f"weights={digest} all={','.join(digests)}", flush=True)  # fmt: skip
    dist.destroy_process_group()
    # Without the interpreter's clean-up: on a busy machine it aborts one run in two ("terminate called
    # without an active exception"), without Cohort too (torch 2.13).
    os._exit(0)


if __name__ == "__main__":
    main()
