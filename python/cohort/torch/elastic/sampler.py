"""Samples of a data set, dealt to the ranks, and dealt again when the ranks change in the middle of an epoch."""

from __future__ import annotations

import math
import random
from typing import Any, Dict, Iterator, List, Sized

import torch.utils.data

from cohort.common.basics import rank, size


class ElasticSampler(torch.utils.data.Sampler[int]):
    """As torch's DistributedSampler; and what was recorded as processed is not dealt again in the same epoch.

    Give it to a TorchState, call `record_batch` after each batch, and `set_epoch` at the end of each epoch (at its
    beginning it would forget what an interrupted epoch has processed). Ranks get equally many samples: where the rest
    cannot be divided, a few samples come twice.

    Args:
        dataset: has a length, which does not change.
        shuffle: another order in every epoch.
        seed: of that order; the same on all ranks.
    """

    def __init__(self, dataset: Sized, shuffle: bool = True, seed: int = 0) -> None:
        self.dataset = dataset
        self.shuffle = shuffle
        self.seed = seed
        self.epoch = 0
        self.processed_num = 0  # samples of this epoch, on all ranks together
        self.num_replicas = 1
        self.rank = 0
        self.remaining_indices: List[int] = []
        self.indices: List[int] = []
        self.num_samples = 0
        self.total_size = 0
        self.reset()

    def set_epoch(self, epoch: int) -> None:
        """Begins an epoch: no sample of it is processed."""
        self.epoch = epoch
        self.processed_num = 0
        self.reset()

    def record_batch(self, batch_idx: int, batch_size: int) -> None:
        """Every rank has processed a batch of that size."""
        self.processed_num += batch_size * self.num_replicas

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        self.epoch = state_dict["epoch"]
        self.processed_num = state_dict["processed_num"]
        self.reset()

    def state_dict(self) -> Dict[str, Any]:
        return {"epoch": self.epoch, "processed_num": self.processed_num}

    def reset(self) -> None:
        """Deals what is left of the epoch to the ranks that there are now."""
        self.num_replicas = size()
        self.rank = rank()
        order = list(range(len(self.dataset)))
        if self.shuffle:
            random.Random(self.seed + self.epoch).shuffle(order)
        self.remaining_indices = order[self.processed_num :]
        self.num_samples = math.ceil(len(self.remaining_indices) / self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas

    def __iter__(self) -> Iterator[int]:
        # Dealt one by one, so that the first n batches of all ranks are the first samples of the order.
        dealt = list(self.remaining_indices)
        while dealt and len(dealt) < self.total_size:
            dealt += dealt[: self.total_size - len(dealt)]
        self.indices = dealt[self.rank :: self.num_replicas]
        return iter(self.indices)

    def __len__(self) -> int:
        return self.num_samples
