"""What a launcher told this process in its environment."""

from __future__ import annotations

import os
from typing import Tuple

_VARIABLES = (
    ("HOROVOD_RANK", "HOROVOD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
)


def get_env_rank_and_size() -> Tuple[int, int]:
    """(rank, number of ranks) of this process, before hvd.init(); (0, 1) where no launcher has set them.

    RuntimeError: the environment has one of the two only.
    """
    for rank_name, size_name in _VARIABLES:
        rank, size = os.environ.get(rank_name), os.environ.get(size_name)
        if rank is not None and size is not None:
            return int(rank), int(size)
        if rank is not None or size is not None:
            there, missing = (rank_name, size_name) if size is None else (size_name, rank_name)
            raise RuntimeError(f"the environment has {there}, but not {missing}: a launcher sets both")
    return 0, 1
