"""A batch sampler for torch's DataLoader whose batches do not depend on the number of workers."""

from __future__ import annotations

import collections
import os
import pathlib
from typing import Any, Deque, Dict, Iterator, List, NamedTuple, Optional, Sized, Tuple, Union

import torch
from torch.utils.data import Sampler

from cohort.common import basics, shards
from cohort.common.ledger import LedgerWriter, Plan, Record
from cohort.torch.elastic.state import SamplerStateHandler, get_handler_registry

_RECORDS_KEPT = 16  # for a rank that becomes the writer of the ledger after one that died


class StepPlan(NamedTuple):
    """What one step of the training is made of."""

    epoch: int
    step: int  # of the epoch
    first: int  # place in the epoch's order
    counts: Tuple[int, ...]  # samples of each shard; 0 for some where the last batch is small


class ShardedSampler(Sampler[List[int]]):
    """Gives each rank the samples of its shards of every global batch, one list a shard.

        sampler = ShardedSampler(dataset, batch_size=256, shards=12, seed=1)
        loader = DataLoader(dataset, batch_sampler=sampler, num_workers=2)
        for step in ddp.steps(loader): ...

    `data` is the data set, or how many samples it has. `batch_size` is that of the whole job; it is cut into `shards`
    runs whose sizes differ by at most one. The order of samples comes from (seed, epoch). So which samples are in
    which shard of which step is the same at any number of workers, and a rank computes its shards of them.

    Exactly once: `epoch` and `step` are the next step to do. `DistributedDataParallel.steps` moves them on when a
    step's gradients are summed, and to the next epoch at its end. `state_dict()` and `load_state_dict()` save and
    restore them (into a checkpoint; `hvd.elastic.TorchState(model, optimizer, sampler=sampler)` does it): each sample of an epoch then enters exactly one of
    the updates that count. With `ledger` that is on record: a path, or True for the file `ledger` in the job's output
    folder; the first rank writes it, and `cohort ledger verify` proves it.

    Random transforms in the data set must depend on the sample's index (and epoch) alone, as `seed_of_sample` does.
    """

    def __init__(
        self,
        data: Union[int, Sized],
        batch_size: int,
        shards: int,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
        ledger: Union[None, bool, str, "os.PathLike[str]"] = None,
    ) -> None:
        self.samples = data if isinstance(data, int) else len(data)
        if self.samples < 1:
            raise ValueError(f"data={self.samples}: the data set has no samples")
        if batch_size < 1 or shards < 1 or shards > batch_size:
            raise ValueError(
                f"batch_size={batch_size}, shards={shards}: a batch needs at least one sample for each shard, "
                "and there is at least one shard"
            )
        self.batch_size, self.shards, self.shuffle, self.seed = batch_size, shards, shuffle, seed
        self.steps = self.samples // batch_size if drop_last else -(-self.samples // batch_size)
        if self.steps == 0:
            raise ValueError(f"drop_last=True: {self.samples} samples make no batch of {batch_size}")
        self.epoch, self.step = 0, 0
        self._plan = Plan(self.samples, batch_size, shards, seed, shuffle, self.steps if drop_last else 0)
        self._ledger = ledger
        self._writer: Optional[LedgerWriter] = None
        self._recent: Deque[Record] = collections.deque(maxlen=_RECORDS_KEPT)

    def set_epoch(self, epoch: int) -> None:
        """From the beginning of `epoch`; nothing where it is under way already."""
        if epoch != self.epoch:
            self.epoch, self.step = epoch, 0

    def plan(self, step: int) -> StepPlan:
        first = step * self.batch_size
        size = min(self.batch_size, self.samples - first)
        return StepPlan(self.epoch, step, first, tuple(shards.split(size, self.shards)))

    def order(self) -> List[int]:
        """The samples of the epoch by place."""
        if not self.shuffle:
            return list(range(self.samples))
        generator = torch.Generator().manual_seed(shards.seed_of(self.seed, self.epoch))
        return torch.randperm(self.samples, generator=generator).tolist()

    def seed_of_sample(self, index: int) -> int:
        """For a generator of random transforms of one sample in this epoch."""
        return shards.seed_of(self.seed, self.epoch, index)

    def __iter__(self) -> Iterator[List[int]]:
        first, count = shards.run_of(basics.rank(), basics.size(), self.shards)
        order = self.order()
        for step in range(self.step, self.steps):
            plan = self.plan(step)
            place = plan.first + sum(plan.counts[:first])
            for size in plan.counts[first : first + count]:
                if size:
                    yield order[place : place + size]
                place += size

    def __len__(self) -> int:
        """Lists that this rank gets from here to the end of the epoch."""
        first, count = shards.run_of(basics.rank(), basics.size(), self.shards)
        return sum(
            bool(size)
            for step in range(self.step, self.steps)
            for size in self.plan(step).counts[first : first + count]
        )

    def record(self, plan: StepPlan) -> None:
        """The step's gradients are summed: the next step comes, and the ledger says so."""
        owners = tuple(shards.owners_of(basics.size(), self.shards))
        number = plan.epoch * self.steps + plan.step
        record = Record(plan.epoch, number, plan.first, basics.world_info().view, plan.counts, owners)
        if basics.rank() == 0:
            self._write(record)
        elif self._writer is not None:  # another rank is the first now
            self._writer.close()
            self._writer = None
        self._recent.append(record)
        self.step = plan.step + 1
        if self.step == self.steps:
            self.epoch, self.step = plan.epoch + 1, 0

    def _write(self, record: Record) -> None:
        path = self.ledger_path()
        if path is None:
            return
        if self._writer is None:
            self._writer = LedgerWriter(path, self._plan)
            last = self._writer.last_step
            if last is not None and last >= record.step and record.view <= self._writer.last_view:
                self._writer.rewind(record.step)
        for earlier in self._recent:  # what the writer before this one could not write
            if earlier.step < record.step and self._writer.lacks(earlier):
                self._writer.append(earlier)
        self._writer.append(record)

    def ledger_path(self) -> Optional[pathlib.Path]:
        if self._ledger is None or self._ledger is False:
            return None
        if self._ledger is not True:
            return pathlib.Path(self._ledger)
        output = basics.job_info().output
        return pathlib.Path(output) / "ledger" if output else None

    def state_dict(self) -> Dict[str, Any]:
        recent = [tuple(record) for record in self._recent] if self.ledger_path() else []
        return {"epoch": self.epoch, "step": self.step, "records": recent}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        self.epoch, self.step = state["epoch"], state["step"]
        self._recent.clear()
        self._recent.extend(Record(*record) for record in state["records"])


get_handler_registry().append((ShardedSampler, SamplerStateHandler))
