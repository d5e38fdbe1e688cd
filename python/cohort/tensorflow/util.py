"""Small functions of the TensorFlow package."""

from __future__ import annotations

import functools
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import tensorflow as tf

from cohort.common import basics
from cohort.common.exceptions import HorovodInternalError

_FAILURE = "Cohort: "  # how the message of an operation begins (src/cohort/capi/tensorflow/request.cpp)


def _executing_eagerly() -> bool:
    return bool(tf.executing_eagerly())


def _make_subgraph(function: Callable[..., Any]) -> Any:
    return tf.function(function)


def _cache(function: Callable[..., Any]) -> Callable[..., Any]:
    """Remembers results by arguments, one set for eager execution and one for graphs."""
    results: Dict[Any, Any] = {}

    @functools.wraps(function)
    def cached(*args: Any, **kwargs: Any) -> Any:
        key = (args, frozenset(kwargs.items()), _executing_eagerly())
        if key not in results:
            results[key] = function(*args, **kwargs)
        return results[key]

    return cached


def vars_to_refs(variables: Any) -> Any:
    """Variables as what can be compared and hashed; lists become tuples."""
    if isinstance(variables, (list, tuple)):
        return tuple(vars_to_refs(variable) for variable in variables)
    return variables.ref()


def refs_to_vars(references: Any) -> Any:
    """The other way; tuples become lists."""
    if isinstance(references, (list, tuple)):
        return [refs_to_vars(reference) for reference in references]
    return references.deref()


def key_of(variable: Any) -> Any:
    """What tells variables and tensors apart, hashable; the same for a Keras 3 variable and TensorFlow's in it."""
    inner = getattr(variable, "_value", None)
    if inner is not None and hasattr(inner, "ref"):
        return inner.ref()
    return variable.ref() if hasattr(variable, "ref") else id(variable)


def is_elastic() -> bool:
    """Whether the number of ranks may change: graphs then decide nothing by it when they are made."""
    return bool(basics.job_info().elastic)


def as_cohort_error(error: BaseException) -> Optional[HorovodInternalError]:
    """What a failed operation means: HorovodInternalError when it could not reach its peers any more, else None."""
    if isinstance(error, HorovodInternalError):
        return error
    if not isinstance(error, (tf.errors.UnknownError, tf.errors.CancelledError)):
        return None
    before, found, message = str(error.message).rpartition(_FAILURE)
    return HorovodInternalError(message) if found else None


def unzip(pairs: Sequence[Tuple[Any, Any]]) -> Tuple[List[Any], List[Any]]:
    return [first for first, _ in pairs], [second for _, second in pairs]
