"""Small models and steps for the cases of optimizers."""

import torch
import torch.nn.functional as F

import cohort.torch as hvd


def make_model(seed=0, width=4):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(3, width), torch.nn.Tanh(), torch.nn.Linear(width, 2))


def batch(rank, rows=5):
    generator = torch.Generator().manual_seed(1000 + rank)
    return torch.randn(rows, 3, generator=generator), torch.randn(rows, 2, generator=generator)


def loss_of(model, rank):
    x, y = batch(rank)
    return F.mse_loss(model(x), y)


def step(model, optimizer, rank):
    optimizer.zero_grad()
    loss_of(model, rank).backward()
    optimizer.step()


def average_step(model, optimizer, ranks):
    """What all ranks together do, in one process: a step with the average of their gradients."""
    optimizer.zero_grad()
    (sum(loss_of(model, rank) for rank in ranks) / len(ranks)).backward()
    optimizer.step()


def weights(model):
    return torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()])


def is_same_everywhere(tensor):
    """Whether all ranks have the same bits."""
    return torch.equal(hvd.allreduce(tensor, op=hvd.Min), hvd.allreduce(tensor, op=hvd.Max))


def optimizer_classes():
    """The optimizers of torch, by name, but for those that need closures or sparse or two-dimensional gradients."""
    names = [name for name, kind in sorted(vars(torch.optim).items())
             if isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer)
             and name not in ("Optimizer", "LBFGS", "SparseAdam", "Muon")]  # fmt: skip
    return [getattr(torch.optim, name) for name in names]
