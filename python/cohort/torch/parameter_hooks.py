"""What the distributed optimizers share: making one of another, and hearing of gradients."""

from __future__ import annotations

from typing import Any, Callable

import torch

TOO_MANY_PASSES = (
    "Gradients were computed more than backward_passes_per_step times before call to step(). Increase "
    "backward_passes_per_step to accumulate gradients locally."
)
ZERO_GRAD_TOO_EARLY = (
    "optimizer.zero_grad() was called after loss.backward() but before optimizer.step() or optimizer.synchronize(): "
    "the gradients are being reduced. Call it after step(), or before backward()."
)


def wrapped(optimizer: torch.optim.Optimizer, mixin: type) -> Any:
    """An optimizer of the class `mixin` + the given one's, with the state and the groups of the given one."""
    cls: Any = type(type(optimizer).__name__, (mixin, type(optimizer)), {})
    made = cls.__new__(cls)
    made.__dict__.update({key: value for key, value in optimizer.__dict__.items() if key != "step"})
    return made


def when_accumulated(parameter: torch.Tensor, call: Callable[[torch.Tensor], None]) -> Any:
    """Calls `call(parameter)` whenever backward has added to its gradient. Returns what keeps that going."""
    if hasattr(parameter, "register_post_accumulate_grad_hook"):  # since torch 2.1
        return parameter.register_post_accumulate_grad_hook(call)
    accumulator: Any = parameter.expand_as(parameter).grad_fn.next_functions[0][0]  # type: ignore[union-attr]
    accumulator.register_hook(lambda *_: call(parameter))
    return accumulator
