"""cohort.run(): a function on several ranks of this machine, through `cohort run`."""

from __future__ import annotations

import json
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import tempfile
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, TypeVar

from cohort.errors import CohortError
from cohort.program import find_program
from cohort.runner import channel, pickling

Result = TypeVar("Result")

_DRAIN = 10.0  # seconds for reports that are on their way when the job has ended
_WORKER = "import sys; sys.path.insert(0, {folder!r}); from cohort.runner.task import main; main()"


class RunFailed(CohortError, RuntimeError):
    """run() did not get a result from every rank. The text has the traceback of the rank that began it, and what the
    launcher found to be the cause; `__cause__` is the exception itself, where it could be sent.

    rank        the one that began it; None where no rank did
    exit_code   of the job
    """

    def __init__(self, message: str, rank: Optional[int], exit_code: int) -> None:
        super().__init__(message)
        self.rank = rank
        self.exit_code = exit_code


def run(func: Callable[..., Result], args: Sequence[Any] = (), kwargs: Optional[Mapping[str, Any]] = None,
        n: int = 2, *, least: Optional[int] = None, env: Optional[Mapping[str, str]] = None,
        output: Optional[str] = None, python: Optional[str] = None, options: Sequence[str] = (),
        verbose: bool = False) -> List[Result]:  # fmt: skip
    """Calls func(*args, **kwargs) in `n` processes of this machine, which are the ranks of one job, and returns what
    they returned, in the order of their ranks. In an elastic job it is what the last members returned.

    least     the job is elastic: workers that die are started again, and it goes on with as few as this
    env       more variables for the workers
    output    folder for logs and records; without it nothing is kept
    python    the interpreter of the workers [this one]
    options   more words for `cohort run`, as in ["--max-run", "60"]
    verbose   the launcher's remarks are shown; the workers' output is shown always

    Throws RunFailed when a rank fails or ends without returning; TypeError when the function, an argument or a result
    cannot be sent to another process.
    """
    if n < 1:
        raise ValueError(f"n is {n}; run() needs at least one rank")
    if least is not None and not 1 <= least <= n:
        raise ValueError(f"least is {least}; it must be from 1 to n, which is {n}")
    reports: Dict[int, Dict[str, Any]] = {}

    def take(data: bytes) -> None:
        report = pickle.loads(data)  # of a worker that has proven itself
        reports[report["rank"]] = report

    with tempfile.TemporaryDirectory(prefix="cohort-run-output-") as scratch:
        folder = pathlib.Path(output or pathlib.Path(scratch, "job"))
        server = channel.Server(pickling.dump_work(func, args, kwargs or {}), take)
        try:
            size = [str(n)] if least is None else [f"{least}:{n}", "--elastic"]
            words = [find_program(), "run", "-n", *size, "--output", str(folder), *([] if verbose else ["--quiet"]),
                     *options, "--", python or sys.executable, "-c",
                     _WORKER.format(folder=_package_folder())]  # fmt: skip
            code = _wait_for(words, {**os.environ, **(env or {}), **server.environment()})
        finally:
            server.close(_DRAIN)
        if code != 0:
            raise _failure(reports, folder, code)
    values = {rank: report["value"] for rank, report in reports.items() if "value" in report}
    for rank in range(n):
        if rank not in values and least is None:
            raise RunFailed(f"rank {rank} of {n} ended without returning from the function; it called sys.exit(0), "
                            "or something like it", rank, code)  # fmt: skip
    return [pickle.loads(values[rank]) for rank in sorted(values)]


def _package_folder() -> str:
    return str(pathlib.Path(__file__).resolve().parents[2])


def _wait_for(words: List[str], environment: Dict[str, str]) -> int:
    """The exit code of the job. It leads a process group of its own: a Ctrl-C is passed on once, not twice."""
    job = subprocess.Popen(words, env=environment, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        return job.wait()
    except BaseException:  # KeyboardInterrupt, or what a handler of another signal threw
        job.send_signal(signal.SIGINT)
        try:
            job.wait()
        except KeyboardInterrupt:
            job.send_signal(signal.SIGINT)  # the second: it kills
            job.wait()
        raise


def _failure(reports: Dict[int, Dict[str, Any]], folder: pathlib.Path, code: int) -> RunFailed:
    cause = _root_cause(folder)
    rank = cause.get("index")
    if rank is None:  # the launcher names none
        rank = next((rank for rank in sorted(reports) if "error" in reports[rank]), None)
    report = reports.get(rank, {}) if rank is not None else {}
    parts = [f"rank {rank} failed" if rank is not None else f"the job failed with exit code {code}"]
    if "text" in report:
        parts[0] += f": {report['text'].rstrip().splitlines()[-1]}"
        parts.append(f"Traceback of rank {rank}:\n{report['text'].rstrip()}")
    if cause and cause.get("summary"):
        parts.append(f"Root cause, as the launcher tells it: {cause['summary']}")
        if "text" not in report and cause.get("last_lines"):
            parts.append("Its last lines:\n" + "\n".join(map(str, cause["last_lines"])))
    failure = RunFailed("\n\n".join(parts), rank, code)
    if report.get("error"):
        failure.__cause__ = pickle.loads(report["error"])
    return failure


def _root_cause(folder: pathlib.Path) -> Dict[str, Any]:
    """As job.json has it; empty where there is none."""
    try:
        record = json.loads((folder / "job.json").read_text())
    except (OSError, ValueError):
        return {}  # the launcher said on standard error why it did not begin
    cause = record.get("root_cause") or {}
    if not cause and record.get("failure"):
        cause = {"summary": record["failure"]}
    return dict(cause)
