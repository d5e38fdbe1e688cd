"""A peer of gpu_bench.py: the same training in Python on this machine's GPU, data already on it.

    peer.py resnet eager|compile BATCH SECONDS [--precision bf16|f32] [--data FILE...]
    peer.py gpt eager|compile BATCH SECONDS --data TOKENS
    peer.py ddp eager BATCH SECONDS     one rank of several, started by cohort run; BATCH is the global one
    peer.py allreduce BYTES SECONDS     one rank of several: NCCL itself, by torch.distributed

Prints a line `measured {JSON}`: speed after a first pass that is warm-up, mean losses of the first pass and of the
last steps, and the most memory that PyTorch's allocator held.
"""

import argparse
import json
import os
import pathlib
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "train"))
import ddp_worker

IMAGE_BYTES = 3 * 32 * 32
CHUNK = 20  # steps between two looks at the clock, which wait for the GPU


class Gpt(nn.Module):
    """GPT-2 as examples/gpt makes it, without dropout."""

    def __init__(self, layers, heads, width, sequence, vocabulary):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(sequence, width)
        self.h = nn.Sequential(*(ddp_worker.GptBlock(width, heads) for _ in range(layers)))
        self.ln_f = nn.LayerNorm(width)
        for name, parameter in self.named_parameters():
            if parameter.dim() >= 2:
                nn.init.normal_(parameter, 0, 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, ids):
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1], device=ids.device))
        return F.linear(self.ln_f(self.h(x)), self.wte.weight)


def cifar(files, device):
    """All images as normalised floats, and their labels."""
    raw = torch.frombuffer(bytearray(b"".join(pathlib.Path(file).read_bytes() for file in files)), dtype=torch.uint8)
    raw = raw.view(-1, 1 + IMAGE_BYTES)
    mean = torch.tensor([0.4914, 0.4822, 0.4465], device=device).view(1, 3, 1, 1)
    std = torch.tensor([0.2470, 0.2435, 0.2616], device=device).view(1, 3, 1, 1)
    images = raw[:, 1:].to(device).view(-1, 3, 32, 32).float() / 255
    return (images - mean) / std, raw[:, 0].long().to(device)


def tokens(file, sequence, device):
    raw = torch.frombuffer(bytearray(pathlib.Path(file).read_bytes()), dtype=torch.int16).to(torch.int32) & 0xFFFF
    count = (raw.numel() - 1) // sequence
    data, target = raw[:count * sequence], raw[1:count * sequence + 1]
    return data.view(count, sequence).long().to(device), target.view(count, sequence).long().to(device)


def synchronise(device):
    if device.type == "cuda":
        torch.cuda.synchronize()


def train(arguments, device):
    gpt = arguments.what == "gpt"
    ranks = 1
    batch = arguments.batch
    if arguments.what == "ddp":
        torch.distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
        ranks = torch.distributed.get_world_size()
        batch //= ranks
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = arguments.precision != "f32"
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(1)
    if gpt:
        sizes = (2, 2, 64, 64, 512) if arguments.tiny else (12, 12, 768, 1024, 50304)
        model = Gpt(*sizes).to(device)
        data, target = tokens(arguments.data[0], sizes[3], device)
    else:
        model = ddp_worker.ResNet20()
        for module in model.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        model = model.to(device)
        data, target = cifar(arguments.data, device)
        if arguments.precision == "bf16":
            model = model.to(memory_format=torch.channels_last)
            data = data.contiguous(memory_format=torch.channels_last)
    if arguments.what == "ddp":
        model = nn.parallel.DistributedDataParallel(model)
    fused = device.type == "cuda"
    if gpt:
        optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=fused)
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4, fused=fused)

    def compute(images, labels):
        with torch.autocast(device.type, torch.bfloat16, enabled=arguments.precision == "bf16"):
            output = model(images)
            return F.cross_entropy(output.flatten(0, -2).float(), labels.flatten())

    if arguments.mode == "compile":
        compute = torch.compile(compute, mode="reduce-overhead")
    order = torch.randperm(data.shape[0], generator=torch.Generator().manual_seed(1)).to(device)
    steps_of_pass = data.shape[0] // batch
    step = 0

    def run(steps):
        """The sum of the losses, on the device."""
        nonlocal step
        total = torch.zeros((), device=device)
        for _ in range(steps):
            first = step % steps_of_pass * batch
            mine = order[first:first + batch]
            loss = compute(data[mine], target[mine])
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            total += loss.detach()
            step += 1
        return total

    warm = min(steps_of_pass, arguments.warmup) if arguments.warmup else steps_of_pass
    first_loss = run(warm).item() / warm
    synchronise(device)
    begin = time.monotonic()
    timed, seconds = 0, 0.0
    while seconds < arguments.seconds:
        last = run(CHUNK)
        synchronise(device)
        timed += CHUNK
        if ranks > 1:  # all make the same number of steps: rank 0's clock decides
            now = torch.tensor([time.monotonic() - begin], device=device)
            torch.distributed.broadcast(now, 0)
            seconds = now.item()
        else:
            seconds = time.monotonic() - begin
    return {"rank": int(os.environ.get("RANK", 0)), "samples_per_second": timed * batch * ranks / seconds,
            "steps": step, "first_loss": first_loss, "last_loss": last.item() / CHUNK,
            "peak_bytes": torch.cuda.max_memory_reserved() if device.type == "cuda" else 0}


def all_reduce(arguments, device):
    torch.distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
    size = torch.distributed.get_world_size()
    tensor = torch.zeros(arguments.batch // 4, device=device)

    def timed(calls):
        synchronise(device)
        torch.distributed.barrier()
        begin = time.monotonic()
        for _ in range(calls):
            torch.distributed.all_reduce(tensor)
        synchronise(device)
        return time.monotonic() - begin

    timed(5)
    calls = torch.tensor([arguments.seconds / (timed(5) / 5)], device=device)
    torch.distributed.broadcast(calls, 0)
    count = int(calls.item()) + 5
    each = timed(count) / count
    return {"rank": torch.distributed.get_rank(), "seconds": each,
            "bus_gb_per_second": 2 * (size - 1) / size * arguments.batch / each / 1e9}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("resnet", "gpt", "ddp", "allreduce"))
    parser.add_argument("mode", choices=("eager", "compile"))
    parser.add_argument("batch", type=int, help="samples a step; of allreduce: bytes")
    parser.add_argument("seconds", type=float)
    parser.add_argument("--precision", choices=("bf16", "f32"), default="bf16")
    parser.add_argument("--data", nargs="*", default=[])
    parser.add_argument("--warmup", type=int, default=0, help="steps; 0: a pass over the data")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true", help="a small GPT, to try the benchmark on a CPU")
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    measured = (all_reduce if arguments.what == "allreduce" else train)(arguments, device)
    print("measured", json.dumps(measured), flush=True)
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


main()
