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
    """Places for the sums of large gradients, in memory that the other ranks of this host reach. A reduction out of
    the gradient into its place copies less than one that works in place somewhere else: only what other ranks add up.
    A gradient that lies in its place already is not copied at all. Confined to one thread at a time.
    """

    def __init__(self) -> None:
        self._world: Optional[basics.WorldInfo] = None
        self._places: Dict[torch.Tensor, torch.Tensor] = {}
        _all.add(self)

    def place_of(self, parameter: torch.Tensor) -> Optional[torch.Tensor]:
        """Where the sum of `parameter.grad` over the ranks is to go; it becomes `parameter.grad` when it is there.

        None: where the gradient is, for one that is small, sparse, on a device, or not in order.
        """
        gradient = parameter.grad
        if gradient is None or gradient.numel() * gradient.element_size() < SMALLEST:
            return None
        if gradient.layout is not torch.strided or gradient.device.type != "cpu" or gradient.dtype != parameter.dtype:
            return None
        place = self._made(parameter)
        return place if gradient.stride() == place.stride() else None

    def _made(self, parameter: torch.Tensor) -> torch.Tensor:
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
