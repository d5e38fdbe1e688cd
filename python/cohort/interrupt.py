"""Ctrl-C while a job is waited for: the job runs elsewhere, so what should become of it is a question."""

from __future__ import annotations

import contextlib
import enum
import signal
import sys
import threading
import types
from typing import Iterator, List, Optional, Tuple


class Answer(enum.Enum):
    STOP = "stop"
    LEAVE = "leave"
    WAIT = "wait"


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """A Ctrl-C comes after the block, not in the middle of it, also where other threads of the process take the
    signal, as in a notebook."""
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler) or threading.current_thread() is not threading.main_thread():
        yield  # it is ignored, or interrupts the main thread alone
        return
    came: List[Tuple[int, Optional[types.FrameType]]] = []
    signal.signal(signal.SIGINT, lambda number, frame: came.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
    if came:
        handler(*came[0])


def ask_about(job_id: str) -> Answer:
    """Asks the person, where there is one; else the job is left alone. Says how to come back to it."""
    answer = _ask(job_id) if _in_notebook() or _in_terminal() else Answer.LEAVE
    if answer is Answer.LEAVE:
        print(f"cohort: job {job_id} goes on. Stop it with: cohort stop {job_id}\n"
              f"cohort: follow it with: cohort logs -f {job_id}, or cohort.attach('{job_id}').wait()",
              file=sys.stderr, flush=True)  # fmt: skip
    return answer


def _ask(job_id: str) -> Answer:
    question = f"\nJob {job_id}: (s)top it, (w)ait on, or (l)eave it running? [s/w/l] "
    try:
        if not _in_notebook():
            print(question, end="", file=sys.stderr, flush=True)  # standard output may be a file
        word = input(question if _in_notebook() else "").strip().lower()
    except (EOFError, KeyboardInterrupt, OSError, RuntimeError):  # the last: a notebook that runs by itself
        return Answer.LEAVE
    return next((answer for answer in Answer if word and answer.value.startswith(word[0])), Answer.LEAVE)


def _in_notebook() -> bool:
    """Its kernel answers input() itself, and shows the question."""
    return getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)() is not None


def _in_terminal() -> bool:
    return is_terminal(sys.stdin) and is_terminal(sys.stderr)


def is_terminal(stream: object) -> bool:
    """Whether a person reads or writes there. What programs put in place of standard streams may be anything."""
    ask = getattr(stream, "isatty", None)
    return bool(ask and ask())
