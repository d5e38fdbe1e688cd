"""Large gradients in group memory, for who reduces each parameter's gradient by itself."""

from __future__ import annotations

import weakref
from typing import Dict, Optional

import torch

from cohort.common import basics
from cohort.torch.gradient_buckets import group_tensor, strides_of

SMALLEST = 1 << 20  # bytes: less is reduced as fast where it is

_all: "weakref.WeakSet[GroupGradients]" = weakref.WeakSet()


class GroupGradients:
    """Moves `.grad` of large parameters to memory that the other ranks of this host reach, where a reduction in place
    copies nothing: one copy of the gradient instead of two through staging buffers. Confined to one thread at a time.
    """

    def __init__(self) -> None:
        self._world: Optional[basics.WorldInfo] = None
        self._places: Dict[torch.Tensor, torch.Tensor] = {}
        _all.add(self)

    def take(self, parameter: torch.Tensor) -> None:
        """Before `parameter.grad` is reduced in place. Does nothing for one that is small, sparse, or on a device."""
        gradient = parameter.grad
        if gradient is None or gradient.numel() * gradient.element_size() < SMALLEST:
            return
        if gradient.layout is not torch.strided or gradient.device.type != "cpu" or gradient.dtype != parameter.dtype:
            return
        place = self._place_of(parameter)
        if gradient is not place:
            with torch.no_grad():
                place.copy_(gradient)
            parameter.grad = place

    def _place_of(self, parameter: torch.Tensor) -> torch.Tensor:
        world = basics.world_info()
        if world is not self._world:
            self.leave_world()
            self._world = world
        place = self._places.get(parameter)
        if place is None:
            flat = group_tensor(parameter.numel(), parameter.dtype)
            place = self._places[parameter] = flat.as_strided(parameter.shape, strides_of(parameter))
        return place

    def leave_world(self) -> None:
        """Before the memory goes: gradients that lie in it move to memory of their own."""
        for parameter, place in self._places.items():
            if parameter.grad is place:
                parameter.grad = place.clone()
        self._places = {}


def _before_shutdown() -> None:
    for gradients in list(_all):
        gradients.leave_world()


basics.on_shutdown.append(_before_shutdown)
