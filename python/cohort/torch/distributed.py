"""Data-parallel training of a torch module: gradients in group memory, summed while backward runs."""

from __future__ import annotations

import contextlib
import itertools
import weakref
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple, Union

import torch

from cohort.common import basics, requests
from cohort.common.heap import keep_freed_memory
from cohort.common.process_sets import ProcessSet, global_process_set, set_id_of
from cohort.torch.direct_linear import DirectLinear
from cohort.torch.gradient_buckets import DTYPES, Bucket, layout_of
from cohort.torch.shard_steps import Step, StepEngine
from cohort.torch.sharded_sampler import ShardedSampler

_Broadcast = Tuple[requests.Handle, torch.Tensor, List[torch.Tensor]]  # the values in one piece, and where they go
_instances = itertools.count()
_open: "weakref.WeakSet[DistributedDataParallel]" = weakref.WeakSet()


def _before_shutdown() -> None:
    for model in list(_open):
        model._leave_world()


basics.on_shutdown.append(_before_shutdown)


class DistributedDataParallel(torch.nn.Module):
    """Wraps `module`: its gradients become the average over all ranks.

        hvd.init()
        ddp = hvd.DistributedDataParallel(model)
        optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
        for x, y in loader:
            optimizer.zero_grad()
            criterion(ddp(x), y).backward()
            optimizer.step()

    Rank 0's parameters and buffers are everyone's to begin with (in an elastic job `state.sync()` does that).
    `backward()` returns when the averages are in `.grad`; each bucket of about `bucket_mb` is averaged as soon as its
    last gradient is there, while backward goes on. `.grad` are views of group memory: any optimizer works on them. A
    parameter without a gradient on this rank counts as zeros. `with ddp.no_sync():` gradients only add up locally;
    the next backward outside of it averages the sums. Such a backward also gives everyone rank 0's buffers (batch
    norm's statistics) in training, unless `broadcast_buffers` is False.

    **The same bits at any number of workers.** With `virtual_shards=M` a global batch is computed in M parts, each on
    its own, and the parts are added in an order that depends on M alone (docs/determinism.md):

        ddp = hvd.DistributedDataParallel(model, virtual_shards=12)
        sampler = hvd.ShardedSampler(dataset, batch_size=256, shards=12)
        loader = DataLoader(dataset, batch_sampler=sampler)
        for epoch in range(10):
            for step in ddp.steps(loader):
                optimizer.zero_grad()
                for x, y in step:                     # this rank's shards, one after the other
                    criterion(ddp(x), y).backward()   # a mean over the shard's samples
                optimizer.step()

    After the inner loop `.grad` is the mean over the batch, weighted by the shards' samples. In each shard torch's
    generator is seeded with (`seed`, epoch, step, shard), so dropout does not depend on the rank; every shard begins
    with the buffers from before the step, and the new ones are the weighted mean of the shards', in their order.
    torch computes with `threads` threads meanwhile: their number shows in the bits. M is at least the number of
    workers.

    For the bits: float32 and float64 parameters; one backward() a shard; a loss that is a mean over samples. Not with
    `process_set`. CPU tensors and dense gradients only.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        virtual_shards: Optional[int] = None,
        bucket_mb: float = 25,
        process_set: ProcessSet = global_process_set,
        broadcast_buffers: bool = True,
        seed: int = 0,
        threads: int = 1,
    ) -> None:
        super().__init__()
        if virtual_shards is not None and virtual_shards < 1:
            raise ValueError(f"virtual_shards={virtual_shards}: give at least 1, or None")
        if bucket_mb <= 0:
            raise ValueError(f"bucket_mb={bucket_mb}: give more than 0")
        if virtual_shards is not None and process_set is not global_process_set:
            raise ValueError(
                "virtual_shards with a process_set: shards are those of all workers. Leave process_set out"
            )
        self.module = module
        self.virtual_shards, self.seed, self.threads = virtual_shards, seed, threads
        self.broadcast_buffers = broadcast_buffers
        self._set = process_set
        self._bucket_bytes = int(bucket_mb * 1e6)
        self._name = f"ddp.{next(_instances)}"
        self._named = {name: p for name, p in module.named_parameters() if p.requires_grad}
        self._parameters_list: List[torch.nn.Parameter] = list(self._named.values())
        self._check_parameters()
        keep_freed_memory(sum(p.numel() * p.element_size() for p in self._parameters_list))
        self._direct = DirectLinear(module, self._parameters_list)
        self._world: Optional[basics.WorldInfo] = None  # that the buckets are of
        self._engine: Optional[StepEngine] = None
        self._buckets: List[Bucket] = []
        self._places: List[Tuple[Bucket, torch.Tensor]] = []
        self._synchronizes = True
        self._fired: List[bool] = []
        self._handles: Optional[List[requests.Handle]] = None  # of the backward that is under way
        self._buffer_broadcasts: List[_Broadcast] = []
        self._step_number = 0
        self._steps_token: object = None  # of the steps() that is under way
        self._threads_before: Optional[int] = None
        for number, parameter in enumerate(self._parameters_list):
            parameter.register_post_accumulate_grad_hook(self._make_hook(number))
        if not basics.job_info().elastic:
            with torch.no_grad():
                self._finish_broadcast(
                    self._start_broadcast([*module.parameters(), *module.buffers()], ".parameters")
                )
        self._enter_world()
        _open.add(self)

    def _check_parameters(self) -> None:
        if not self._named:
            raise ValueError("the module has no parameter that requires a gradient: there is nothing to average")
        for name, parameter in self._named.items():
            if parameter.device.type != "cpu":
                raise ValueError(
                    f"parameter '{name}' is on {parameter.device}: DistributedDataParallel works on CPU tensors. "
                    "Use DistributedOptimizer for others"
                )
            if parameter.dtype not in DTYPES or not parameter.is_floating_point():
                raise ValueError(f"parameter '{name}' is {parameter.dtype}, which the ranks cannot add up")

    # ---- In general

    def forward(self, *inputs: Any, **options: Any) -> Any:
        if self.virtual_shards is None and torch.is_grad_enabled():
            self._enter_world()
            if self._handles:
                raise RuntimeError(
                    "a backward() before this forward ended with an error while gradients were being averaged: "
                    "the ranks no longer agree. End the program, or reset the elastic state"
                )
            self._handles = None
        if self._direct and torch.is_grad_enabled() and self._synchronizes:
            with self._direct:
                return self.module(*inputs, **options)
        return self.module(*inputs, **options)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Gradients add up locally inside; the next backward outside averages the sums."""
        if self.virtual_shards is not None:
            raise RuntimeError(
                "no_sync() with virtual_shards: a step sums over its shards already. Use a larger batch"
            )
        before, self._synchronizes = self._synchronizes, False
        try:
            yield
        finally:
            self._synchronizes = before

    def _enter_world(self) -> None:
        """Makes the memory anew where the ranks are others than before."""
        world = basics.world_info()
        if world is self._world:
            return
        self._leave_world()
        if self.virtual_shards is not None:
            self._engine = StepEngine(
                self._name, self.module, self._named, self._direct, self.virtual_shards, self.seed, self._bucket_bytes
            )
        else:
            self._buckets = [
                Bucket(f"{self._name}.{i}", numbers, self._parameters_list, 1)
                for i, numbers in enumerate(layout_of(self._parameters_list, self._bucket_bytes))
            ]
            places = {
                number: (bucket, view)
                for bucket in self._buckets
                for number, view in zip(bucket.numbers, bucket.views[0])
            }
            self._places = [places[number] for number in range(len(self._parameters_list))]
            for place, (_, view) in zip(self._direct.places, self._places):
                place.memory = view
        self._world = world

    def _leave_world(self) -> None:
        """Before the memory of the gradients goes."""
        if self._world is not None:
            for parameter in self._parameters_list:
                if parameter.grad is not None:
                    parameter.grad = parameter.grad.clone()
        if self._engine is not None:
            self._engine.leave()
        self._world, self._handles, self._engine = None, None, None
        self._buckets, self._places = [], []
        for place in self._direct.places:
            place.memory = None

    def _start_broadcast(self, tensors: Sequence[torch.Tensor], what: str) -> List[_Broadcast]:
        """Rank 0's values are to become everyone's: one request a type."""
        if self._set.size() == 1:
            return []
        by_type: Dict[torch.dtype, List[torch.Tensor]] = {}
        for tensor in tensors:
            if tensor.numel():
                by_type.setdefault(tensor.dtype, []).append(tensor)
        started: List[_Broadcast] = []
        for dtype, several in by_type.items():
            flat = torch.cat([tensor.reshape(-1) for tensor in several])
            request = (flat.data_ptr(), flat.data_ptr(), DTYPES[dtype], (flat.numel(),))
            name, set_id = f"{self._name}{what}.{dtype}", set_id_of(self._set)
            handle = requests.submit(requests.BROADCAST, name, (request,), set_id=set_id, keep=flat)
            started.append((handle, flat, several))
        return started

    def _finish_broadcast(self, started: Sequence[_Broadcast]) -> None:
        for handle, flat, several in started:
            handle.wait()
            if self._set.rank() != 0:
                pieces = flat.split([tensor.numel() for tensor in several])
                torch._foreach_copy_(several, [piece.view(t.shape) for piece, t in zip(pieces, several)])

    # ---- Gradients

    def _make_hook(self, number: int) -> Any:
        def hook(_: torch.Tensor) -> None:
            if self._engine is not None:
                self._engine.on_gradient(number)
            elif self._synchronizes:
                self._on_gradient(number)

        return hook

    def _on_gradient(self, number: int) -> None:
        handles = self._handles
        if handles is None:
            handles = self._begin_backward()
        if self._fired[number]:
            raise RuntimeError(
                f"parameter '{list(self._named)[number]}' got its gradient twice in one backward(): checkpoint "
                "activations with use_reentrant=False"
            )
        self._take(number, handles)

    def _begin_backward(self) -> List[requests.Handle]:
        self._enter_world()
        self._handles = []
        self._fired = [False] * len(self._parameters_list)
        for bucket in self._buckets:
            bucket.missing = len(bucket.numbers)
        self._buffer_broadcasts = []
        if self.broadcast_buffers and self.module.training:
            with torch.no_grad():
                self._buffer_broadcasts = self._start_broadcast(list(self.module.buffers()), ".buffers")
        torch.autograd.Variable._execution_engine.queue_callback(self._finish_backward)
        return self._handles

    def _take(self, number: int, handles: List[requests.Handle]) -> None:
        self._fired[number] = True
        parameter = self._parameters_list[number]
        bucket, view = self._places[number]
        gradient = parameter.grad
        if gradient is None:
            view.zero_()
            parameter.grad = view
        elif gradient is not view:
            if gradient.is_sparse:
                raise ValueError(
                    f"parameter '{list(self._named)[number]}' has a sparse gradient: make its layer with "
                    "sparse=False, or use DistributedOptimizer(sparse_as_dense=True)"
                )
            if gradient.data_ptr() != view.data_ptr():  # DirectLinear
                with torch.no_grad():
                    view.copy_(gradient)
            parameter.grad = view
        bucket.missing -= 1
        if bucket.missing == 0:
            handles.append(bucket.start_average(set_id_of(self._set)))

    def _finish_backward(self) -> None:
        handles = self._handles or []
        for number, fired in enumerate(self._fired):
            if not fired:
                self._take(number, handles)
        for handle in handles:
            handle.wait()
        with torch.no_grad():
            self._finish_broadcast(self._buffer_broadcasts)
        self._buffer_broadcasts = []
        self._handles = None
        self._direct.finish_backward()

    # ---- Steps of virtual shards

    def steps(self, loader: torch.utils.data.DataLoader[Any]) -> Iterator[Step]:
        """The steps of an epoch, from where `loader`'s ShardedSampler stands. See the class."""
        sampler = loader.batch_sampler
        if not isinstance(sampler, ShardedSampler):
            raise ValueError(
                "steps(loader): the loader's batch_sampler must be a cohort.torch.ShardedSampler, as in "
                "DataLoader(data, batch_sampler=ShardedSampler(data, batch_size, shards))"
            )
        if sampler.shards != self.virtual_shards:
            raise ValueError(
                f"steps(loader): the sampler has shards={sampler.shards}, and this model "
                f"virtual_shards={self.virtual_shards}: give the same number"
            )
        with self._fixed_threads():
            epoch, batches = sampler.epoch, iter(loader)
            while sampler.epoch == epoch:
                plan = sampler.plan(sampler.step)
                step = Step(
                    (epoch, plan.step),
                    self._run(
                        lambda shard: next(batches), (epoch, plan.step), plan.counts, lambda: sampler.record(plan)
                    ),
                )
                yield step
                if not step.finished:
                    raise RuntimeError(
                        f"step {plan.step} of epoch {epoch} was not gone through: write `for x, y in step:` and "
                        "leave it at its end only"
                    )

    def step(
        self, shards: Sequence[Any], weights: Optional[Sequence[int]] = None, number: Optional[int] = None
    ) -> Step:
        """One step on a batch that every rank has whole, cut into `virtual_shards` parts:

            for x, y in ddp.step(list(zip(xs.chunk(12), ys.chunk(12)))): ...

        `weights`: the samples of each part; equal ones without. `number` is that of the step, for random numbers;
        counted from 0 without. Set torch's number of threads yourself.
        """
        if self.virtual_shards != len(shards) or weights is not None and len(weights) != len(shards):
            raise ValueError(
                f"step(): {len(shards)} shards for virtual_shards={self.virtual_shards}: give a part, and where "
                "there are weights a weight, for each"
            )
        step_number = self._step_number if number is None else number
        self._step_number = step_number + 1
        counts = [1] * len(shards) if weights is None else weights
        return Step((step_number,), self._run(shards.__getitem__, (step_number,), counts, lambda: None))

    def _run(self, batches: Any, number: Tuple[int, ...], counts: Sequence[int], done: Any) -> Iterator[Any]:
        self._enter_world()
        assert self._engine is not None
        return self._engine.run(batches, number, counts, done)

    @contextlib.contextmanager
    def _fixed_threads(self) -> Iterator[None]:
        """Also where the steps of an epoch that broke off are cleared away only after the next ones have begun."""
        token = self._steps_token = object()
        if self._threads_before is None:
            self._threads_before = torch.get_num_threads()
        torch.set_num_threads(self.threads)
        try:
            yield
        finally:
            if self._steps_token is token:
                torch.set_num_threads(self._threads_before)
                self._threads_before = None
