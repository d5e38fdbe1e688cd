"""Elastic training of images in PyTorch, as a user of Horovod writes it. The data are made up, so that it takes seconds."""

import argparse
import hashlib
import os
import time

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, Dataset

import horovod.torch as hvd

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--until", default="", help="train until this file is there, instead of --epochs")
parser.add_argument("--samples", type=int, default=960)
parser.add_argument("--batch-size", type=int, default=8)
parser.add_argument("--batches-per-commit", type=int, default=1)
parser.add_argument("--lr", type=float, default=0.01)
parser.add_argument("--step-ms", type=int, default=20, help="what a step takes at least")
args = parser.parse_args()

hvd.init()
torch.manual_seed(42)
torch.set_num_threads(1)


class Digits(Dataset):
    """Noisy pictures of ten patterns."""

    def __init__(self, samples):
        generator = torch.Generator().manual_seed(1)
        patterns = torch.rand(10, 1, 14, 14, generator=generator)
        self.targets = torch.randint(10, (samples,), generator=generator)
        self.images = patterns[self.targets] + 0.3 * torch.rand(samples, 1, 14, 14, generator=generator)

    def __getitem__(self, index):
        return self.images[index], self.targets[index], index

    def __len__(self):
        return len(self.targets)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 8, kernel_size=5)
        self.norm = nn.BatchNorm2d(8)
        self.fc = nn.Linear(8 * 5 * 5, 10)

    def forward(self, x):
        x = F.relu(F.max_pool2d(self.norm(self.conv(x)), 2))
        return F.log_softmax(self.fc(x.flatten(1)), dim=1)


dataset = Digits(args.samples)
sampler = hvd.elastic.ElasticSampler(dataset)
loader = DataLoader(dataset, batch_size=args.batch_size, sampler=sampler)
model = Net()
optimizer = optim.SGD(model.parameters(), lr=args.lr * hvd.size(), momentum=0.5)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())


def is_over(epochs):
    if args.until:
        return hvd.broadcast_object(os.path.exists(args.until))
    return epochs == args.epochs


@hvd.elastic.run
def train(state):
    print(f"begin epoch={state.epoch} rank={hvd.rank()} size={hvd.size()} pid={os.getpid()} at={time.time():.3f}")
    while not state.is_over:
        for batch, (data, target, indices) in enumerate(loader):
            optimizer.zero_grad()
            loss = F.nll_loss(model(data), target)
            loss.backward()
            optimizer.step()
            time.sleep(args.step_ms / 1000)
            seen = hvd.allgather(indices, name="seen")
            state.seen = state.seen + torch.bincount(seen, minlength=len(dataset))
            state.sampler.record_batch(batch, len(data))
            state.step += 1
            print(f"step number={state.step} rank={hvd.rank()} size={hvd.size()} pid={os.getpid()} at={time.time():.3f}")
            if state.step % args.batches_per_commit == 0:
                state.commit()
        if hvd.rank() == 0:
            print(f"epoch number={state.epoch} least={int(state.seen.min())} samples={int(state.seen.sum())} "
                  f"loss={loss.item():.4f}")  # fmt: skip
        state.is_over = is_over(state.epoch + 1)
        state.seen = torch.zeros_like(state.seen)
        state.epoch += 1
        state.sampler.set_epoch(state.epoch)
        state.commit()
    return "trained"


def on_state_reset():
    for group in optimizer.param_groups:
        group["lr"] = args.lr * hvd.size()


state = hvd.elastic.TorchState(model, optimizer, sampler=sampler, epoch=0, step=0, is_over=False,
                               seen=torch.zeros(len(dataset), dtype=torch.int64))  # fmt: skip
state.register_reset_callbacks([on_state_reset])
assert train(state) == "trained"

digest = hashlib.sha256()
for parameter in model.parameters():
    digest.update(parameter.detach().numpy().tobytes())
weights = hvd.allgather_object(digest.hexdigest()[:16])
print(f"done rank={hvd.rank()} size={hvd.size()} step={state.step} pid={os.getpid()} weights={weights[hvd.rank()]} "
      f"equal={len(set(weights)) == 1}")  # fmt: skip
