"""Asynchronous calls are known to scripts by a number: what it stands for, until `synchronize` is called with it."""

from __future__ import annotations

import itertools
from typing import Any, Callable, Dict, Tuple

from cohort.common import basics, requests

Finish = Callable[[requests.Handle], Any]

_handle_map: Dict[int, Tuple[requests.Handle, Finish]] = {}
_numbers = itertools.count(1)

basics.on_init.append(_handle_map.clear)  # of the world before; until then `synchronize` says that it was closed


def add(handle: requests.Handle, finish: Finish) -> int:
    """The number of a call. `finish` makes its result, once it is over."""
    number = next(_numbers)
    _handle_map[number] = (handle, finish)
    return number


def poll(handle: int) -> bool:
    """Whether an asynchronous call is over: `synchronize` then returns at once. ValueError for no such handle."""
    entry = _handle_map.get(handle)
    if entry is None:
        raise ValueError(f"Handle {handle} was not created or has been cleared.")
    return entry[0].poll()


def synchronize(handle: int) -> Any:
    """Waits for an asynchronous call, and returns its result: a tensor, or several.

    A handle is used up by this, also when the call failed; None for one that was used up before.
    """
    entry = _handle_map.pop(handle, None)
    if entry is None:
        return None
    entry[0].wait()
    return entry[1](entry[0])
