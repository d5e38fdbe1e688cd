"""Weight gradients of large linear layers, computed where they are exchanged instead of being copied there.

autograd makes each gradient in memory of its own. For a large weight the copy from there into group memory is a few
percent of a step. While `DirectLinear` is entered, linear layers with one of its weights compute that gradient into a
given place. Everywhere else, and whenever a gradient would have to be added to another one, autograd does as always.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

import torch
from torch.overrides import TorchFunctionMode

SMALLEST = 1 << 20  # bytes of a weight that is worth it


class _Place:
    """Where one weight's gradient goes."""

    __slots__ = ("memory", "uses", "written")

    def __init__(self) -> None:
        self.memory: Optional[torch.Tensor] = None  # None: autograd's own
        self.uses = 0  # in graphs that backward has not gone through
        self.written = False

    def take(self, weight: torch.Tensor) -> Optional[torch.Tensor]:
        """A new tensor on the memory, for the one gradient that this backward makes; else None."""
        hooks = getattr(weight, "_post_accumulate_grad_hooks", None) or ()
        if self.memory is None or self.uses != 1 or self.written or weight.grad is not None:
            return None
        if weight._backward_hooks or len(hooks) > 1 or torch.is_grad_enabled():
            return None
        self.written = True
        return self.memory.as_strided(self.memory.shape, self.memory.stride(), self.memory.storage_offset())


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, place: _Place, x: torch.Tensor, weight: torch.Tensor, bias: Optional[torch.Tensor]) -> Any:
        ctx.save_for_backward(x, weight)
        ctx.place = place
        return torch.nn.functional.linear(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:  # type: ignore[override]
        x, weight = ctx.saved_tensors
        _, needs_x, needs_weight, needs_bias = ctx.needs_input_grad
        rows = gradient.reshape(-1, gradient.shape[-1])
        of_x = gradient.matmul(weight) if needs_x else None
        of_weight = None
        if needs_weight:
            # autograd keeps a gradient that has no other owner: `.grad` then lies in the place itself.
            of_weight = torch.mm(rows.t(), x.reshape(-1, x.shape[-1]), out=ctx.place.take(weight))
        return None, of_x, of_weight, rows.sum(0) if needs_bias else None


class DirectLinear(TorchFunctionMode):
    """For a forward pass: `with direct: module(x)`. Confined to one thread at a time."""

    def __init__(self, module: torch.nn.Module, parameters: Sequence[torch.nn.Parameter]) -> None:
        super().__init__()
        compiled = any(type(part).__name__ == "OptimizedModule" for part in module.modules())
        linear = {id(part.weight) for part in module.modules() if isinstance(part, torch.nn.Linear)}
        self.places: List[_Place] = [_Place() for _ in parameters]
        self._known: Dict[int, int] = {}
        for number, parameter in enumerate(parameters):
            large = parameter.numel() * parameter.element_size() >= SMALLEST
            if large and id(parameter) in linear and parameter.is_contiguous() and not compiled:
                self._known[id(parameter)] = number

    def __bool__(self) -> bool:
        return bool(self._known)

    def finish_backward(self) -> None:
        for place in self.places:
            place.uses, place.written = 0, False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.nn.functional.linear and not kwargs and len(args) > 1:
            number = self._known.get(id(args[1]))
            if number is not None and torch.is_grad_enabled() and _is_plain(args[0], args[1]):
                place = self.places[number]
                place.uses += 1
                return _Linear.apply(place, args[0], args[1], args[2] if len(args) > 2 else None)
        return func(*args, **(kwargs or {}))


def _is_plain(x: Any, weight: torch.Tensor) -> bool:
    autocast = torch.is_autocast_enabled("cpu") if _NEW_AUTOCAST else torch.is_autocast_cpu_enabled()
    return type(x) is torch.Tensor and x.dtype == weight.dtype and x.device == weight.device and not autocast


_NEW_AUTOCAST = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 4)
