"""Functions in the background."""

from __future__ import annotations

import threading
from typing import Any, Callable, Optional, Tuple


def in_thread(target: Callable[..., Any], args: Tuple[Any, ...] = (), name: Optional[str] = None, daemon: bool = True,
              silent: bool = False) -> threading.Thread:  # fmt: skip
    """Calls the function on a new thread, which is returned.

    daemon   the program does not wait for it when it ends
    silent   an exception of the function ends the thread, and is not shown
    """
    if not isinstance(args, tuple):
        raise ValueError(f"args must be a tuple, not {type(args).__name__}; for a single argument use (argument,)")

    def call() -> None:
        try:
            target(*args)
        except Exception:
            if not silent:
                raise

    thread = threading.Thread(target=call, name=name, daemon=daemon)
    thread.start()
    return thread
