"""Tasks' logs on standard output, by lines, as `cohort logs` prints them."""

from __future__ import annotations

import re
import sys
from typing import Dict, List, Mapping, Optional

from cohort.interrupt import is_terminal

# What a terminal would obey, but for tabs and colours.
_CONTROLS = re.compile(r"\x1b\[[0-9;]*m|[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class LogPrinter:
    """Prints pieces of logs so that lines of several tasks never mix, each behind the name of its task. Of a
    line that was redrawn (a progress bar, carriage returns) the last version is printed. Where a job is tried
    again, a line says so."""

    def __init__(self) -> None:
        self._partial: Dict[str, str] = {}  # by task: what has no line end yet
        self._attempt: Optional[int] = None

    def print(self, piece: Mapping[str, object]) -> None:
        """Takes {"task", "attempt", "text"}."""
        task, attempt, text = str(piece["task"]), piece["attempt"], str(piece["text"])
        if attempt != self._attempt and self._attempt is not None:
            self.finish()
            print(f"-- attempt {attempt} --", flush=True)
        self._attempt = attempt if isinstance(attempt, int) else None
        *lines, rest = (self._partial.pop(task, "") + text).split("\n")
        if rest:
            self._partial[task] = rest
        _write(task, lines)

    def finish(self) -> None:
        """Prints what has no line end."""
        for task, text in self._partial.items():
            _write(task, [text])
        self._partial.clear()


def _write(task: str, lines: List[str]) -> None:
    clean = is_terminal(sys.stdout)
    shown = "".join(f"{task} {_cleaned(line) if clean else line}\n" for line in map(_last_version, lines))
    if not shown:
        return
    try:
        print(shown, end="", flush=True)  # line ends, too, at once: other threads print as well
    except UnicodeEncodeError as error:  # before anything was written
        print(shown.encode(error.encoding, "backslashreplace").decode(error.encoding), end="", flush=True)


def _last_version(line: str) -> str:
    return line.rstrip("\r").rpartition("\r")[2]


def _cleaned(line: str) -> str:
    return _CONTROLS.sub(lambda found: found.group() if len(found.group()) > 1 else "", line)
