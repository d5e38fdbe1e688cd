"""Small functions that the packages of all frameworks use."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import warnings
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple, TypeVar

T = TypeVar("T")


def is_iterable(value: object) -> bool:
    try:
        iter(value)  # type: ignore[call-overload]
    except TypeError:
        return False
    return True


@contextlib.contextmanager
def env(**variables: Optional[str]) -> Iterator[None]:
    """Environment variables for the block, as they were before afterwards; None: not set."""
    before = {name: os.environ.get(name) for name in variables}

    def set_all(values: Dict[str, Optional[str]]) -> None:
        for name, value in values.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

    set_all(variables)
    try:
        yield
    finally:
        set_all(before)


def is_version_greater_equal_than(ver: str, target: str) -> bool:
    """Whether a version is `target` or later, by their first three numbers: "2.12.0-tf" is that of "2.12.0"."""

    def numbers(version: str) -> Tuple[int, ...]:
        found = re.match(r"(\d+)\.(\d+)\.(\d+)", version)
        if found is None:
            raise ValueError(f"version '{version}' must begin with three numbers, as 2.12.0 does")
        return tuple(map(int, found.groups()))

    return numbers(ver) >= numbers(target)


def num_rank_is_power_2(num_rank: int) -> bool:
    return num_rank > 0 and num_rank & (num_rank - 1) == 0


def split_list(items: Sequence[T], parts: int) -> List[Sequence[T]]:
    """`parts` consecutive parts of nearly equal length; the first ones have one more."""
    length, more = divmod(len(items), parts)
    starts = [part * length + min(part, more) for part in range(parts + 1)]
    return [items[start:end] for start, end in zip(starts, starts[1:])]


def get_average_backwards_compatibility_fun(reduce_ops: Any) -> Callable[[Optional[int], Optional[bool]], int]:
    """A function of (op, average) that says which operation is meant; `reduce_ops` has Average and Sum."""

    def choose(op: Optional[int], average: Optional[bool]) -> int:
        if op is not None and average is not None:
            raise ValueError("give op or average, not both; average is the old way to say it: op=Average, op=Sum")
        if average is not None:
            warnings.warn("average=True is op=Average, and average=False is op=Sum; `average` will go",
                          DeprecationWarning, stacklevel=3)  # fmt: skip
            return int(reduce_ops.Average if average else reduce_ops.Sum)
        return int(reduce_ops.Average if op is None else op)

    return choose


def check_extension(*_: object, **__: object) -> None:
    """Horovod's check that a framework's extension was built: there is none to build."""


def extension_available(ext_base_name: str, verbose: bool = False) -> bool:
    """Whether a framework can be used: "torch" and "tensorflow", where they are installed."""
    return ext_base_name in ("torch", "tensorflow") and importlib.util.find_spec(ext_base_name) is not None


def gpu_available(ext_base_name: str, verbose: bool = False) -> bool:
    """Whether collectives run on GPUs: they run on the host's memory."""
    return False
