"""Steps of a training with virtual shards. `DistributedDataParallel.steps` makes them, and says how to use them."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import torch

from cohort.common import requests, shards
from cohort.torch.direct_linear import DirectLinear
from cohort.torch.shard_exchange import ShardExchange


class _Buffers:
    """Batch norm's statistics and other buffers over a step: every shard begins with those from before it.

    Afterwards a floating-point buffer is what it was plus the weighted mean of the shards' changes, added in the order
    of the shards; any other is what shard 0 made of it.
    """

    def __init__(self, name: str, module: torch.nn.Module, count: int, bucket_bytes: int) -> None:
        named = dict(module.named_buffers())
        self._floats = [b for b in named.values() if b.is_floating_point() and b.numel()]
        self._others = [b for b in named.values() if not b.is_floating_point() and b.numel()]
        labels = [n for n, b in named.items() if b.is_floating_point() and b.numel()]
        for label, buffer in zip(labels, self._floats):
            if buffer.dtype not in (torch.float32, torch.float64):
                raise ValueError(f"buffer '{label}' is {buffer.dtype}: with virtual_shards use float32 or float64")
        self.exchange = ShardExchange(name, self._floats, labels, count, bucket_bytes) if self._floats else None
        self._name = name
        self._before: List[torch.Tensor] = []
        self._others_before: List[torch.Tensor] = []
        self._others_after: Optional[List[torch.Tensor]] = None

    def begin_step(self, postscale: float) -> None:
        self._before = [buffer.clone() for buffer in self._floats]
        self._others_before = [buffer.clone() for buffer in self._others]
        self._others_after = None
        if self.exchange:
            self.exchange.begin_step(postscale)

    def begin(self, weight: float) -> None:
        with torch.no_grad():
            for buffer, before in zip(self._floats + self._others, self._before + self._others_before):
                buffer.copy_(before)
        if self.exchange:
            self.exchange.begin(weight)

    def end(self) -> None:
        if self._others_after is None:
            self._others_after = [buffer.clone() for buffer in self._others]
        if self.exchange:
            for number, (buffer, before) in enumerate(zip(self._floats, self._before)):
                same = buffer == before  # infinite ones, too
                self.exchange.add(number, torch.where(same, torch.zeros_like(buffer), buffer - before))

    def finish(self) -> None:
        with torch.no_grad():
            if self.exchange:
                self.exchange.finish()
                for number, (buffer, before) in enumerate(zip(self._floats, self._before)):
                    torch.add(before, self.exchange.sum_of(number), out=buffer)
            if self._others:
                self._take_from_first_shard()

    def _take_from_first_shard(self) -> None:
        after = self._others_after or self._others_before
        flat = torch.cat([buffer.reshape(-1).view(torch.uint8) for buffer in after])
        address = flat.data_ptr()
        requests.run(requests.BROADCAST, self._name + ".others", ((address, address, 0, (flat.numel(),)),))
        place = 0
        for buffer, value in zip(self._others, after):
            size = value.numel() * value.element_size()
            buffer.copy_(flat[place : place + size].clone().view(value.dtype).view(value.shape))
            place += size


class StepEngine:
    """What all steps of one model in one world share. Confined to one thread at a time."""

    def __init__(
        self,
        name: str,
        module: torch.nn.Module,
        parameters: Dict[str, torch.nn.Parameter],
        direct: DirectLinear,
        count: int,
        seed: int,
        bucket_bytes: int,
    ) -> None:
        for label, parameter in parameters.items():
            if parameter.dtype not in (torch.float32, torch.float64):
                raise ValueError(
                    f"parameter '{label}' is {parameter.dtype}: virtual_shards adds up float32 and float64. "
                    "Keep parameters in float32, and compute in lower precision with torch.autocast"
                )
        self._parameters = list(parameters.values())
        self._gradients = ShardExchange(name, self._parameters, list(parameters), count, bucket_bytes)
        self._buffers = _Buffers(name + ".buffers", module, count, bucket_bytes)
        self._direct, self._seed = direct, seed
        self.own = self._gradients.own
        self.shard: Optional[int] = None  # under way
        self._token: object = None  # of the step that is under way

    def leave(self) -> None:
        """The world goes: a step that is under way does nothing more."""
        self._token, self.shard = None, None

    def on_gradient(self, number: int) -> None:
        """Autograd has made parameter `number`'s gradient."""
        if self.shard is None:
            raise RuntimeError(
                "backward() outside of a step: with virtual_shards write `for step in ddp.steps(loader):` and, "
                "in it, `for x, y in step: criterion(ddp(x), y).backward()`"
            )
        parameter = self._parameters[number]
        gradient, parameter.grad = parameter.grad, None
        if gradient is not None:
            self._gradients.add(number, gradient)

    def run(
        self, batches: Callable[[int], Any], numbers: Tuple[int, ...], counts: Sequence[int], done: Callable[[], None]
    ) -> Iterator[Any]:
        """Gives the batch of each own shard, one after the other; afterwards the gradients are in place."""
        equal = len(set(counts)) == 1
        postscale = 1.0 / (len(counts) if equal else sum(counts))
        self._gradients.begin_step(postscale)
        self._buffers.begin_step(postscale)
        token = self._token = object()
        state = torch.random.get_rng_state()
        try:
            for shard in self.own:
                weight = 1.0 if equal else float(counts[shard])
                self._begin(shard, weight)
                torch.default_generator.manual_seed(shards.seed_of(self._seed, *numbers, shard))
                if counts[shard]:
                    yield batches(shard)
                self._end()
            self._gradients.finish()
            self._buffers.finish()
        finally:
            if self._token is token:  # not where a step that broke off is cleared away only now
                self.shard = None
                torch.random.set_rng_state(state)
        for number, parameter in enumerate(self._parameters):
            parameter.grad = self._gradients.sum_of(number)
        done()

    def _begin(self, shard: int, weight: float) -> None:
        self.shard = shard
        for parameter in self._parameters:
            parameter.grad = None
        self._gradients.begin(weight)
        self._buffers.begin(weight)
        for number, place in enumerate(self._direct.places):
            place.memory = self._gradients.place_of(number)

    def _end(self) -> None:
        self._gradients.end(self._parameters)
        self._buffers.end()
        self._direct.finish_backward()


class Step:
    """One step: iterate over it once, to its end. It gives what the data loader made of each of this rank's shards."""

    def __init__(self, number: Tuple[int, ...], batches: Iterator[Any]) -> None:
        self.number = number  # (epoch, step of the epoch), or (step,)
        self._batches = batches
        self.finished = False

    def __iter__(self) -> Iterator[Any]:
        yield from self._batches
        self.finished = True
