"""The sum over virtual shards of what each shard computes: its own part on this rank's nodes of the tree, then all."""

from __future__ import annotations

from typing import List, Optional, Sequence, Tuple

import torch

from cohort.common import memory, requests, shards
from cohort.torch.gradient_buckets import Bucket, layout_of


class ShardExchange:
    """Sums gradients, and what else is added up, over the shards of a step, in one world.

    Per step: `begin_step`. Per own shard: `begin`, then `add` for each tensor, in any order, then `end`, for which
    those that are missing count as zeros.
    A tensor may be added once a shard. After the last own shard `finish` waits for the sums, which lie in
    `sum_of(number)`. Confined to one thread at a time.
    """

    def __init__(
        self, name: str, tensors: Sequence[torch.Tensor], labels: Sequence[str], count: int, bucket_bytes: int
    ) -> None:
        self.shards, self._labels = count, labels
        nodes = memory.shard_nodes(count)
        self.own = [shard for first, length in nodes for shard in range(first, first + length)]
        self._turns: List[Tuple[int, int, bool]] = (
            []
        )  # by own shard: its node, merges after it, whether the node is whole
        for number, (_, length) in enumerate(nodes):
            merges = shards.merges_of(length)
            self._turns += [(number, merge, i + 1 == length) for i, merge in enumerate(merges)]
        self.buckets = [
            Bucket(f"{name}.{i}", numbers, tensors, len(nodes))
            for i, numbers in enumerate(layout_of(tensors, bucket_bytes))
        ]
        self._places = {
            number: (bucket, entry) for bucket in self.buckets for entry, number in enumerate(bucket.numbers)
        }
        self._stacks: List[List[torch.Tensor]] = [[] for _ in tensors]
        self._added = [False] * len(tensors)
        self._handles: List[requests.Handle] = []
        self._turn = -1
        self._weight, self._postscale = 1.0, 1.0

    def begin_step(self, postscale: float) -> None:
        self._postscale, self._turn = postscale, -1
        self._handles = []
        for stack in self._stacks:
            stack.clear()
        for bucket in self.buckets:
            bucket.missing = len(bucket.numbers)

    def begin(self, weight: float) -> None:
        """The next own shard. What it adds is multiplied by `weight` first."""
        self._turn += 1
        self._weight = weight
        self._added = [False] * len(self._added)

    def place_of(self, number: int) -> Optional[torch.Tensor]:
        """Where this shard's value goes as it is, if anywhere: who makes it there saves a copy."""
        node, merges, whole = self._turns[self._turn]
        bucket, entry = self._places[number]
        return bucket.views[node][entry] if whole and not merges and self._weight == 1.0 else None

    def add(self, number: int, value: torch.Tensor) -> None:
        """`value`'s memory belongs to this object from now on."""
        if self._added[number]:
            raise RuntimeError(
                f"'{self._labels[number]}' got its gradient twice in one shard: with virtual_shards call "
                "backward() once a shard, on the sum of the losses"
            )
        self._added[number] = True
        bucket, entry = self._places[number]
        node, merges, whole = self._turns[self._turn]
        with torch.no_grad():
            self._put(self._stacks[number], value, merges, bucket.views[node][entry] if whole else None)
        if self._turn + 1 == len(self._turns):
            bucket.missing -= 1
            if bucket.missing == 0:
                self._handles.append(bucket.start_shard_sum(self.shards, self._postscale))

    def _put(
        self, stack: List[torch.Tensor], value: torch.Tensor, merges: int, target: Optional[torch.Tensor]
    ) -> None:
        """`target`: where the node's sum goes, with this value whole. Multiplied, then added: never in one rounding."""
        straight = target if merges == 0 else None
        if self._weight != 1.0:
            value = torch.mul(value, self._weight, out=value if straight is None else straight)
        elif straight is not None and value.data_ptr() != straight.data_ptr():
            straight.copy_(value)
        for merge in range(1, merges + 1):
            value = torch.add(stack.pop(), value, out=target if target is not None and merge == merges else value)
        if target is None:
            stack.append(value)

    def end(self, shapes: Sequence[torch.Tensor]) -> None:
        """The shard is over: what was not added counts as zeros."""
        for number, added in enumerate(self._added):
            if not added:
                self.add(number, torch.zeros_like(shapes[number]))

    def finish(self) -> None:
        """Until all sums are there."""
        handles, self._handles = self._handles, []
        for handle in handles:
            handle.wait()

    def sum_of(self, number: int) -> torch.Tensor:
        bucket, entry = self._places[number]
        return bucket.views[-1][entry]
