"""Ctrl-C while a job is waited for: the job runs elsewhere, so what should become of it is a question."""

from __future__ import annotations

import contextlib
import enum
import signal
import sys
import threading
from typing import Iterator


class Answer(enum.Enum):
    STOP = "stop"
    LEAVE = "leave"
    WAIT = "wait"


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """A Ctrl-C comes after the block, not in the middle of it."""
    if threading.current_thread() is not threading.main_thread():  # which alone is interrupted
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


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
    except (EOFError, KeyboardInterrupt):
        return Answer.LEAVE
    return next((answer for answer in Answer if word and answer.value.startswith(word[0])), Answer.LEAVE)


def _in_notebook() -> bool:
    """Its kernel answers input() itself, and shows the question."""
    return getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)() is not None


def _in_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
