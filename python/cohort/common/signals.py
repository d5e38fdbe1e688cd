"""Ctrl-C, and every other signal with a handler in Python, inside a call that waits in the library.

The library calls back about every 50 ms from threads that wait. On the main thread Python then runs the handlers
of signals that arrived; what a handler raises ends the wait, and is raised again where the call returns. Other
threads are never interrupted: Python runs handlers on the main thread only.

The callback is a generator's `send`, not a function: Python runs pending handlers as soon as a frame is entered,
which for a function is before its `try`, and the exception would be lost in ctypes. A generator is entered at
its `yield`, inside the `try`.
"""

from __future__ import annotations

import ctypes
import functools
import operator
import threading
from typing import Callable, Generator, List

CHECK = ctypes.CFUNCTYPE(ctypes.c_int32)  # cohort_interrupt_check; its argument is not looked at

raised: List[BaseException] = []  # by handlers, during a wait of the main thread; the main thread takes them


def _run_handlers() -> Generator[int, None, None]:
    answer = 0
    while True:
        try:
            yield answer
            answer = 0
        except GeneratorExit:
            return
        except BaseException as error:
            raised.append(error)
            answer = 1


def _nothing(_: None) -> int:
    return 0


class _PerThread(threading.local):
    send: Callable[[None], int]

    def __init__(self) -> None:
        self.send = _nothing
        if threading.current_thread() is threading.main_thread():
            generator = _run_handlers()
            next(generator)
            self.send = generator.send


_per_thread = _PerThread()
check = CHECK(functools.partial(operator.methodcaller("send", None), _per_thread))


def watch_this_thread() -> None:
    """Before the main thread waits for the first time, and again should a signal ever have ended the generator."""
    _per_thread.__init__()  # type: ignore[misc]


def take() -> BaseException:
    """What a handler raised during the wait that has just ended as interrupted."""
    return raised.pop(0) if raised else KeyboardInterrupt()


def deliver() -> None:
    """Raises, on the main thread, what a handler raised during a wait that ended well all the same."""
    if raised and threading.current_thread() is threading.main_thread():
        raise raised.pop(0)
