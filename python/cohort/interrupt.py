"""Ctrl-C while a job is waited for: the job runs elsewhere, so what should become of it is a question."""

from __future__ import annotations

import enum
import sys


class Answer(enum.Enum):
    STOP = "stop"
    LEAVE = "leave"
    WAIT = "wait"


def ask_about(job_id: str) -> Answer:
    """Asks the person, where there is one; else the job is left alone. Says how to come back to it."""
    answer = _ask(job_id) if _can_ask() else Answer.LEAVE
    if answer is Answer.LEAVE:
        print(f"cohort: job {job_id} goes on. Stop it with: cohort stop {job_id}\n"
              f"cohort: follow it with: cohort logs -f {job_id}, or cohort.attach('{job_id}').wait()",
              file=sys.stderr, flush=True)  # fmt: skip
    return answer


def _ask(job_id: str) -> Answer:
    question = f"\nJob {job_id}: (s)top it, (w)ait on, or (l)eave it running? [s/w/l] "
    try:
        word = input(question).strip().lower()
    except (EOFError, KeyboardInterrupt):
        return Answer.LEAVE
    return next((answer for answer in Answer if word and answer.value.startswith(word[0])), Answer.LEAVE)


def _can_ask() -> bool:
    """A terminal, or a notebook, whose kernel answers input() itself."""
    kernel = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return kernel is not None or (sys.stdin is not None and sys.stdin.isatty())
