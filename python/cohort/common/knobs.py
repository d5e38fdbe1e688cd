"""Horovod's environment variables that set how a world works, as cohort_world_options."""

from __future__ import annotations

import os
from typing import Dict, Union

Number = Union[int, float]

_ELASTIC_TIMEOUT_MS = 600 * 1000  # a worker that is new waits until the others commit

_LOG_LEVELS = {"trace": "debug", "debug": "debug", "info": "info", "warning": "warning", "error": "error",
               "fatal": "error"}  # fmt: skip


def is_set(name: str) -> bool:
    """A switch: set to anything but nothing, 0 or false."""
    return os.environ.get(name, "").strip().lower() not in ("", "0", "false", "off", "no")


def _number(name: str, what: str) -> float:
    """The value of a variable that is set; ValueError when it is not a number from 0 on."""
    text = os.environ[name]
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise ValueError(f"{name} is '{text}'. Set it to {what}, or unset it")
    return value


def world_options(elastic: bool) -> Dict[str, Number]:
    """Fields of cohort_world_options that the environment sets. ValueError names a variable with a wrong value."""
    options: Dict[str, Number] = {}
    if os.environ.get("HOROVOD_FUSION_THRESHOLD"):
        options["fusion_bytes"] = int(_number("HOROVOD_FUSION_THRESHOLD", "a number of bytes (0: no fusion)")) or -1
    if os.environ.get("HOROVOD_CYCLE_TIME"):
        options["cycle_us"] = int(_number("HOROVOD_CYCLE_TIME", "milliseconds (0: no delay)") * 1000) or -1
    if os.environ.get("HOROVOD_STALL_CHECK_TIME_SECONDS"):
        options["stall_warning_s"] = _number("HOROVOD_STALL_CHECK_TIME_SECONDS", "seconds (0: no warning)") or -1.0
    if os.environ.get("HOROVOD_STALL_SHUTDOWN_TIME_SECONDS"):
        options["stall_shutdown_s"] = _number("HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "seconds (0: never)")
    if is_set("HOROVOD_STALL_CHECK_DISABLE"):
        options["stall_warning_s"] = -1.0
        options["stall_shutdown_s"] = 0.0
    timeouts = ("HOROVOD_ELASTIC_TIMEOUT",) if elastic else ("HOROVOD_START_TIMEOUT", "HOROVOD_GLOO_TIMEOUT_SECONDS")
    for name in timeouts:
        if os.environ.get(name):
            options["timeout_ms"] = int(_number(name, "seconds") * 1000)
            return options
    if elastic:
        options["timeout_ms"] = _ELASTIC_TIMEOUT_MS
    return options


def set_log_level() -> None:
    """HOROVOD_LOG_LEVEL for the library, which reads COHORT_LOG when it is loaded. COHORT_LOG itself goes first."""
    level = _LOG_LEVELS.get(os.environ.get("HOROVOD_LOG_LEVEL", "").strip().lower())
    if level and not os.environ.get("COHORT_LOG"):
        os.environ["COHORT_LOG"] = level
