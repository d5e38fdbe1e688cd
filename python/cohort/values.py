"""Values of Python as JSON has them."""

from __future__ import annotations

import math
import numbers
import os
from typing import Any, Mapping


def as_json(value: Any, name: str) -> Any:
    """The value as JSON has it: tuples are lists, paths are text, numbers and arrays of numpy and the like are
    numbers and lists. Throws TypeError that names what has no JSON, ValueError for a value that it has not."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{name} is {value}, which JSON does not have; give it as text: '{value}'")
    if isinstance(value, str):
        return _utf8(value, name)
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, os.PathLike):
        return as_json(os.fspath(value), name)
    if isinstance(value, Mapping):
        return {str(key): as_json(item, f"{name}.{key}") for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [as_json(item, f"{name}[{at}]") for at, item in enumerate(value)]
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return as_json(float(value), name)
    plain = getattr(value, "tolist", None) or getattr(value, "item", None)
    if callable(plain):
        return as_json(plain(), name)
    raise TypeError(f"{name}: a {type(value).__name__} cannot be sent; it must be what JSON has: {short(value)}")


def short(value: object) -> str:
    """The value for a message."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _utf8(text: str, name: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name} is {short(text)}, which is not UTF-8 text; rename it") from None
    return text
