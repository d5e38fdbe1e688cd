"""One worker of train_bench.py: what worker.cpp does, with PyTorch's DistributedDataParallel on gloo.

    ddp_worker.py MODEL BATCH WARMUP STEPS
"""

import json
import math
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, inside, out):
        super().__init__()
        self.stride = 1 if inside == out else 2
        self.extra = out - inside
        self.conv1 = nn.Conv2d(inside, out, 3, stride=self.stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(out)

    def forward(self, x):
        y = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        if self.extra:
            x = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, 0, self.extra))
        return F.relu(y + x)


class ResNet20(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(16)
        widths = [16] * 4 + [32] * 3 + [64] * 3
        self.blocks = nn.Sequential(*(Block(a, b) for a, b in zip(widths, widths[1:])))
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        return self.head(self.blocks(F.relu(self.norm(self.stem(x)))).mean((2, 3)))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(784, 4096), nn.Linear(4096, 4096)
        self.third = nn.Linear(4096, 10)

    def forward(self, x):
        return self.third(F.relu(self.second(F.relu(self.first(x)))))


class GptBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1 = nn.LayerNorm(width)
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"),
                                 nn.Linear(4 * width, width))

    def forward(self, x):
        batch, tokens, width = x.shape
        parts = (part.view(batch, tokens, self.heads, -1).transpose(1, 2)
                 for part in self.c_attn(self.ln_1(x)).split(width, dim=2))
        seen = F.scaled_dot_product_attention(*parts, is_causal=True)
        x = x + self.c_proj(seen.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.mlp(self.ln_2(x))


class Gpt(nn.Module):
    """The 6 M parameters of examples/gpt, without dropout."""

    def __init__(self, layers=6, heads=6, width=288):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCABULARY, width), nn.Embedding(SEQUENCE, width)
        self.h = nn.Sequential(*(GptBlock(width, heads) for _ in range(layers)))
        self.ln_f = nn.LayerNorm(width)

    def forward(self, ids):
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1]))
        return F.linear(self.ln_f(self.h(x)), self.wte.weight)


SEQUENCE, VOCABULARY = 128, 256
CASES = {"resnet20": (ResNet20, (3, 32, 32)), "mlp": (Mlp, (784,)), "gpt": (Gpt, None)}


def scattered(first, count, phase):
    sine = torch.sin(torch.arange(first, first + count, dtype=torch.float64) + phase) * 43758.5453
    return (sine - sine.floor()) * 2 - 1


@torch.no_grad()
def initialise(model):
    k = 0
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            parameter.zero_()
        if parameter.dim() >= 2:
            k += 1
            fan_in = parameter.numel() / parameter.shape[0]
            values = scattered(0, parameter.numel(), 0.5 * k) / math.sqrt(fan_in)
            parameter.copy_(values.view(parameter.shape))


def make_data(shape, batch, rank):
    """A batch and its targets; without a shape runs of tokens, of which each tells the one before it."""
    if shape is None:
        each = SEQUENCE + 1
        numbers = (scattered(rank * batch * each, batch * each, 0) + 1) * (VOCABULARY // 2)
        tokens = numbers.floor().long().view(batch, each)
        return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    each = math.prod(shape)
    data = scattered(rank * batch * each, batch * each, 0).float().view(batch, *shape)
    return data, torch.arange(rank * batch, (rank + 1) * batch) % 10


def memory_kib(file, name):
    with open(f"/proc/self/{file}") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(name))


def main():
    name, batch, warmup, steps = sys.argv[1], *map(int, sys.argv[2:5])
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank()
    kind, shape = CASES[name]
    model = kind()
    initialise(model)
    parallel = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    data, target = make_data(shape, batch, rank)
    with open("/proc/self/clear_refs", "w") as peak:  # making the first weights is not training
        peak.write("5")
    torch.distributed.barrier()
    for i in range(warmup + steps):
        if i == warmup:
            begin = time.monotonic()
        optimizer.zero_grad()
        loss = F.cross_entropy(parallel(data).flatten(0, -2), target.flatten())
        loss.backward()
        optimizer.step()
        value = loss.item()
    seconds = time.monotonic() - begin
    share = memory_kib("smaps_rollup", "Pss:")
    print("measured", json.dumps({
        "rank": rank, "share_kib": share, "samples_per_second": batch * steps / seconds, "loss": value,
        "peak_kib": memory_kib("status", "VmHWM:")}), flush=True)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
