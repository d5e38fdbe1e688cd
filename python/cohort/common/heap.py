"""Memory of large tensors that is used again instead of being fetched from the system in every step."""

from __future__ import annotations

import ctypes
import os

_ENOUGH = 32 << 20  # bytes of gradients; glibc itself keeps smaller blocks
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4
_kept = False


def keep_freed_memory(gradient_bytes: int) -> bool:
    """For training with `gradient_bytes` of gradients: tells the C library to keep large blocks that were freed.

    torch makes each gradient anew in each step. glibc gets blocks of more than 32 MiB from the system every time,
    zeroed page by page: for a model of 20 M parameters a fifth of a step's time. Does nothing for small models, with
    another C library, or with COHORT_REUSE_MEMORY=0. Memory that the process needs no more stays its own, though.
    Returns whether blocks are kept.
    """
    global _kept
    if not _kept and gradient_bytes >= _ENOUGH and os.environ.get("COHORT_REUSE_MEMORY", "1") != "0":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        _kept = (
            mallopt is not None and bool(mallopt(_M_MMAP_MAX, 0)) and bool(mallopt(_M_TRIM_THRESHOLD, (1 << 31) - 1))
        )
    return _kept
