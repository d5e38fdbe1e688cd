"""Batch normalization over the batches of all ranks."""

from __future__ import annotations

from typing import Any, Optional

import torch
import torch.nn.functional
from torch.nn.modules.batchnorm import _BatchNorm

from cohort.common import requests
from cohort.common.basics import Sum, size
from cohort.common.process_sets import global_process_set
from cohort.torch import blocking


class SyncBatchNorm(_BatchNorm):
    """As torch.nn.BatchNorm1d, 2d, 3d, with the mean and the variance over all ranks' batches while it trains.

    Input of shape (batch, num_features, ...); batches may differ in size, and be empty on some ranks. Every rank calls
    forward and backward. On one rank it is plain batch normalization.
    """

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: Optional[float] = 0.1, affine: bool = True,
                 track_running_stats: bool = True) -> None:  # fmt: skip
        super().__init__(num_features, eps, momentum, affine, track_running_stats)

    def _check_input_dim(self, input: torch.Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        self._check_input_dim(input)
        trains = self.training or self.running_mean is None
        if not trains or size() == 1:
            return super().forward(input)
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
        output, mean, variance, count = _SyncBatchNorm.apply(input, self.weight, self.bias, self.eps)
        if self.training and self.track_running_stats and self.running_mean is not None:
            self._track(mean, variance, float(count))
        result: torch.Tensor = output
        return result

    def _track(self, mean: torch.Tensor, variance: torch.Tensor, count: float) -> None:
        assert self.running_mean is not None and self.running_var is not None
        factor = self.momentum
        if factor is None:  # the average over all batches
            assert self.num_batches_tracked is not None
            factor = 1.0 / float(self.num_batches_tracked)
        with torch.no_grad():
            unbiased = variance * (count / max(count - 1, 1))
            self.running_mean.lerp_(mean.to(self.running_mean.dtype), factor)
            self.running_var.lerp_(unbiased.to(self.running_var.dtype), factor)


def _per_feature(values: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """A vector over the features, so that it goes with (batch, features, ...)."""
    return values.view(1, -1, *(1 for _ in range(like.dim() - 2)))


class _SyncBatchNorm(torch.autograd.Function):
    """Each rank gathers the others' means, variances and counts; backward adds two sums a feature over the ranks."""

    @staticmethod
    def forward(ctx: Any, input: torch.Tensor, weight: Optional[torch.Tensor], bias: Optional[torch.Tensor],
                eps: float) -> Any:  # fmt: skip
        x = input.detach().to(torch.promote_types(input.dtype, torch.float32))
        dimensions = [d for d in range(x.dim()) if d != 1]
        features = x.shape[1]
        rows = x.numel() // features if features else 0
        own = torch.zeros(1, 2 * features + 1, dtype=torch.float64, device=x.device)
        if rows:
            variance, mean = torch.var_mean(x, dimensions, unbiased=False)
            own[0, :features], own[0, features:-1], own[0, -1] = mean, variance, rows
        everyone = blocking.gather(own, requests.next_name("sync_batch_norm.statistics"), global_process_set)
        counts, means, variances = everyone[:, -1:], everyone[:, :features], everyone[:, features:-1]
        count = counts.sum()
        mean = (means * counts).sum(0) / count
        variance = ((variances + (means - mean) ** 2) * counts).sum(0) / count
        scale = (variance + eps).rsqrt().to(x.dtype)
        mean, variance = mean.to(x.dtype), variance.to(x.dtype)
        normal = (x - _per_feature(mean, x)) * _per_feature(scale, x)
        output = normal
        if weight is not None:
            output = output * _per_feature(weight.detach().to(x.dtype), x)
        if bias is not None:
            output = output + _per_feature(bias.detach().to(x.dtype), x)
        ctx.save_for_backward(normal, scale, weight)
        ctx.count, ctx.dimensions, ctx.has_bias = float(count), dimensions, bias is not None
        ctx.mark_non_differentiable(mean, variance, count)
        return output.to(input.dtype), mean, variance, count

    @staticmethod
    def backward(ctx: Any, grad_output: torch.Tensor, *_: Any) -> Any:  # type: ignore[override]
        normal, scale, weight = ctx.saved_tensors
        grad = grad_output.to(normal.dtype)
        sums = torch.stack([grad.sum(ctx.dimensions), (grad * normal).sum(ctx.dimensions)])
        grad_input = None
        if ctx.needs_input_grad[0]:
            name = requests.next_name("sync_batch_norm.gradients")
            total, product = blocking.reduce(sums, name, Sum, 1.0, 1.0, global_process_set) / ctx.count
            grad_input = grad - _per_feature(total, grad) - normal * _per_feature(product, grad)
            factor = scale if weight is None else scale * weight.to(scale.dtype)
            grad_input = (grad_input * _per_feature(factor, grad)).to(grad_output.dtype)
        grad_weight = sums[1].to(weight.dtype) if weight is not None else None
        return grad_input, grad_weight, sums[0].to(weight.dtype) if ctx.has_bias else None, None
