"""A job that was submitted: watch it, end it, fetch what it left."""

from __future__ import annotations

import io
import os
import pathlib
import re
import sys
import time
from typing import Any, Dict, List, Optional, Sequence, Union

from cohort.client import Client
from cohort.connection import JsonObject
from cohort.errors import CohortError, JobFailed, JobStopped, ServiceError
from cohort.interrupt import Answer, ask_about, uninterrupted
from cohort.log_printer import LogPrinter
from cohort.tables import COLUMNS, MetricTable

_TASK = re.compile(r"[\w-]+:\d+")
ENDED = ("succeeded", "failed", "stopped")
Logs = Union[None, bool, str, Sequence[str]]


class ModelData(str):
    """The place of a model: a folder of this machine, or the address from which a shared service gives it."""

    _job: Job

    def download(self, folder: Union[str, "os.PathLike[str]"]) -> pathlib.Path:
        """Puts the model's files into a folder, and returns it."""
        return self._job.download(folder)


class Job:
    """A job of a service. Making one asks nothing; each method asks the service."""

    def __init__(self, client: Client, job_id: str) -> None:
        self.client = client
        self.id = job_id
        self._last_event: Optional[str] = None  # of the log that is being printed

    def __repr__(self) -> str:
        return f"<cohort job {self.id}>"

    def describe(self) -> JsonObject:
        """All that the service knows: state, reason, description, notes, attempts, tasks."""
        return self.client.job(self.id)

    @property
    def name(self) -> str:
        return str(self.describe()["name"])

    def status(self) -> str:
        """queued, starting, running, stopping, succeeded, failed or stopped."""
        return str(self.describe()["state"])

    def stop(self) -> None:
        """Asks the job to end. A job that ended already is left alone."""
        try:
            self.client.stop(self.id)
        except ServiceError:
            if self.status() not in ENDED:
                raise

    def resume(self) -> None:
        """Queues a job that did not succeed again; it goes on from its checkpoints."""
        self.client.resume(self.id)

    def scale(self, workers: int) -> None:
        """Another number of workers, while an elastic job runs."""
        self.client.scale(self.id, workers)

    def delete(self) -> None:
        """Removes an ended job, with its files."""
        self.client.delete(self.id)

    def metrics(self, name: Optional[str] = None) -> MetricTable:
        """What the job reported so far, all of it once the job has ended; of one metric, where a name is given."""
        ended = self.status() in ENDED
        rows = self.client.follow_metrics(self.id, name) if ended else self.client.metrics(self.id, name)
        return MetricTable({column: row[column] for column in COLUMNS} for row in rows)

    def files(self) -> List[JsonObject]:
        return self.client.files(self.id)

    def download(self, folder: Union[str, "os.PathLike[str]"], part: str = "model") -> pathlib.Path:
        """Puts the job's files of one part (model, output or all) into a folder, and returns it."""
        return self.client.download(self.id, folder, part)

    @property
    def model_data(self) -> ModelData:
        """Where the model is. The program wrote it to SM_MODEL_DIR, which is this folder."""
        place = ModelData(self.client.model_place(self.id))
        place._job = self
        return place

    def hyperparameters(self) -> Dict[str, Any]:
        return dict(self.describe()["spec"].get("hyperparameters") or {})

    def logs(self, task: Union[None, str, Sequence[str]] = None, *, follow: bool = True,
             since: Union[None, str, float] = None, tail: Optional[int] = None) -> None:  # fmt: skip
        """Prints the tasks' logs; with `follow`, until the job has ended. `since` is a time (RFC 3339) or a
        number of seconds before now; `tail` is how many of the lines that are there already."""
        tasks = [task] if isinstance(task, str) else list(task or ())
        if follow:
            self._last_event = None
            self._print_logs(tasks, since, tail)
            return
        printer = LogPrinter()
        for name in tasks or [entry["name"] for entry in self.client.tasks(self.id)]:
            text = b"".join(self.client.log(self.id, name, since=since)).decode(errors="replace")
            lines = list(io.StringIO(text, newline="\n"))  # a progress bar's carriage returns end no line
            text = "".join(lines if tail is None else lines[max(len(lines) - tail, 0):])
            printer.print({"task": name, "attempt": 1, "text": text})
        printer.finish()

    def wait(self, logs: Logs = "All") -> None:
        """Returns when the job has succeeded; prints its log meanwhile. Throws JobFailed, whose text is the
        root cause; JobStopped where it was stopped. Ctrl-C asks whether to stop the job or leave it."""
        tasks = tasks_of(logs)
        self._last_event = None
        answer = Answer.WAIT
        while answer is Answer.WAIT:
            try:
                end = self._wait(tasks)
                break
            except KeyboardInterrupt:
                answer = ask_about(self.id)
        else:
            if answer is Answer.STOP:
                self.stop()
                self._wait(None)
                print(f"cohort: job {self.id} is stopped", file=sys.stderr)
            raise KeyboardInterrupt  # a new one: where the first one came is of no use to a person
        if end["state"] != "succeeded":
            reason = end["reason"] or f"job {self.id} {'was stopped' if end['state'] == 'stopped' else 'failed'}"
            raise (JobStopped if end["state"] == "stopped" else JobFailed)(self, reason, end["exit_code"])

    def _wait(self, tasks: Optional[List[str]]) -> JsonObject:
        """How the job ended. Prints why it waits, and the log of `tasks` (None: no log; empty: of all)."""
        said, pause = "", 0.05
        while True:
            job = self.describe()
            if job["state"] in ENDED or (tasks is not None and job["state"] != "queued"):
                break
            if job["state"] == "queued" and job["reason"] and job["reason"] != said:
                said = job["reason"]
                print(f"cohort: job {self.id}: {said}", file=sys.stderr)
            time.sleep(pause)
            pause = min(1.5 * pause, 2.0)
        return job if tasks is None else self._print_logs(tasks)

    def _print_logs(self, tasks: Sequence[str], since: Union[None, str, float] = None,
                    tail: Optional[int] = None) -> JsonObject:  # fmt: skip
        """Prints log lines, those behind the last event, until the job has ended; then how it did."""
        printer = LogPrinter()
        for event in self.client.follow_logs(self.id, tasks=tasks, since=since, tail=tail, after=self._last_event):
            if event.kind == "log":
                with uninterrupted():  # a line that is printed is not printed again, and none is left out
                    printer.print(event.json())
                    self._last_event = event.id
            elif event.kind == "end":
                printer.finish()
                return dict(event.json())
        raise CohortError(f"the log of job {self.id} ended without saying how the job did")


def tasks_of(logs: Logs) -> Optional[List[str]]:
    """None: print nothing. Else the tasks whose log is printed; an empty list means all. Throws ValueError."""
    if logs is None or isinstance(logs, bool):
        return [] if logs else None
    names = [logs] if isinstance(logs, str) else list(logs)
    words = {name.lower() for name in names}
    if "all" in words:
        return []
    if words <= {"none"}:
        return None
    for name in names:
        if not _TASK.fullmatch(name):
            raise ValueError(f"logs is {logs!r}; give 'All', 'None', or tasks, as in 'worker:0' or ['ps:0', 'ps:1']")
    return names
