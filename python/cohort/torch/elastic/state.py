"""The state of a training in PyTorch: models, optimizers, schedulers, samplers, and other objects."""

from __future__ import annotations

import copy
from typing import Any, Dict, List, Optional, Tuple, Type

import torch

from cohort.common.elastic import ObjectState
from cohort.torch.elastic.sampler import ElasticSampler
from cohort.torch.functions import broadcast_object, broadcast_optimizer_state, broadcast_parameters
from cohort.torch.mpi_ops import rank


class StateHandler:
    """How one kind of object is saved, restored and synchronised. `value` is the object."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def save(self) -> None:
        raise NotImplementedError()

    def restore(self) -> None:
        raise NotImplementedError()

    def sync(self) -> None:
        """Takes over what rank 0 has. TorchState saves afterwards, once all of its objects are synchronised."""
        raise NotImplementedError()

    def set_value(self, value: Any) -> None:
        self.value = value
        self.save()


class _StateDictHandler(StateHandler):
    """Of an object with state_dict() and load_state_dict()."""

    def __init__(self, value: Any) -> None:
        super().__init__(value)
        self._saved: Any = None
        self.save()

    def save(self) -> None:
        self._saved = copy.deepcopy(self.value.state_dict())

    def restore(self) -> None:
        self.value.load_state_dict(copy.deepcopy(self._saved))

    def sync(self) -> None:
        self.value.load_state_dict(broadcast_object(self.value.state_dict(), root_rank=0))


class ModelStateHandler(_StateDictHandler):
    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__(model)

    def restore(self) -> None:
        self.value.load_state_dict(self._saved)  # copies

    def sync(self) -> None:
        broadcast_parameters(self.value.state_dict(), root_rank=0)


class OptimizerStateHandler(_StateDictHandler):
    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        super().__init__(optimizer)

    def sync(self) -> None:
        broadcast_optimizer_state(self.value, root_rank=0)


class LRSchedulerStateHandler(_StateDictHandler):
    def __init__(self, scheduler: Any) -> None:
        super().__init__(scheduler)


class SamplerStateHandler(_StateDictHandler):
    def __init__(self, sampler: ElasticSampler) -> None:
        super().__init__(sampler)


HandlerRegistry = List[Tuple[Type[Any], Type[Any]]]
_LR_SCHEDULER = getattr(torch.optim.lr_scheduler, "LRScheduler", None) or torch.optim.lr_scheduler._LRScheduler

_handler_registry: HandlerRegistry = [
    (torch.nn.Module, ModelStateHandler),
    (torch.optim.Optimizer, OptimizerStateHandler),
    (_LR_SCHEDULER, LRSchedulerStateHandler),
    (ElasticSampler, SamplerStateHandler),
]


def get_handler_registry() -> HandlerRegistry:
    """Pairs of a type and the handler of its objects; the first that fits is used."""
    return _handler_registry


def set_handler_registry(registry: HandlerRegistry) -> None:
    global _handler_registry
    _handler_registry = registry


class TorchState(ObjectState):
    """The state of a training. Everything is an attribute under the name that it was given.

    Args:
        model: optional.
        optimizer: optional.
        kwargs: more of them, learning rate schedulers, samplers, and any picklable object.
    """

    def __init__(self, model: Optional[torch.nn.Module] = None, optimizer: Optional[torch.optim.Optimizer] = None,
                 **kwargs: Any) -> None:  # fmt: skip
        self._handlers: Dict[str, StateHandler] = {}
        objects = {}
        for name, value in {**kwargs, "model": model, "optimizer": optimizer}.items():
            handler = next((make(value) for kind, make in _handler_registry if isinstance(value, kind)), None)
            if handler is None:
                objects[name] = value
            else:
                super().__setattr__(name, value)
                self._handlers[name] = handler
        super().__init__(bcast_object=broadcast_object, get_rank=rank, **objects)

    def save(self) -> None:
        for handler in self._handlers.values():
            handler.save()
        super().save()

    def restore(self) -> None:
        for handler in self._handlers.values():
            handler.restore()
        super().restore()

    def sync(self) -> None:
        for handler in self._handlers.values():
            handler.sync()
        super().sync()
        # Not before all are synchronised: a worker that is lost meanwhile must leave the last commit as it is.
        for handler in self._handlers.values():
            handler.save()

    def reset(self) -> None:
        for handler in self._handlers.values():
            if isinstance(handler.value, ElasticSampler):
                handler.value.reset()

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        handler = self.__dict__.get("_handlers", {}).get(name)
        if handler is not None:
            handler.set_value(value)
