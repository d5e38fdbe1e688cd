"""Estimators: describe a training, fit() it on a service, and look at what came of it.

    from cohort.estimator import TensorFlow

    estimator = TensorFlow(entry_point="train.py", source_dir="code", instance_count=2, instance_type="local",
                           distributions={"parameter_server": {"enabled": True}})
    estimator.fit("data")
"""

from __future__ import annotations

import os
import pathlib
import sys
from typing import TYPE_CHECKING, Any, Dict, Mapping, Optional, Sequence, Type, TypeVar, Union

from cohort import packing
from cohort.arguments import EstimatorArguments, elastic_of, environment_of, fields_of, signature
from cohort.client import Client
from cohort.connection import JsonObject
from cohort.errors import CohortError, SourceError
from cohort.job import Job, Logs, ModelData, tasks_of
from cohort.places import Inputs, Path, channels_of, output_of
from cohort.tables import MetricTable
from cohort.values import as_json

if TYPE_CHECKING:
    from typing_extensions import Unpack

E = TypeVar("E", bound="Estimator")


class Estimator:
    """What the estimators share. Its arguments are the fields of a job description (docs/sdk.md); those that
    go by several names elsewhere are taken under all of them: `train_instance_count` is `instance_count`.

    Threads: confined to one. Nothing happens before fit().
    """

    framework = ""

    def __init__(self, entry_point: Optional[Path] = None, *, client: Optional[Client] = None,
                 **arguments: Unpack[EstimatorArguments]) -> None:  # fmt: skip
        given: Dict[str, Any] = {"entry_point": entry_point, **arguments}
        self._fields, ignored = fields_of(type(self).__name__, given)
        for name in ignored:
            _say(f"{name} has no meaning here, and is left out")
        self._check_program()
        self._hyperparameters: Dict[str, Any] = dict(self._fields.pop("hyperparameters", {}))
        self._client = client
        self.latest_training_job: Optional[Job] = None

    def __repr__(self) -> str:
        program = self._fields.get("entry_point") or self._fields["program"]
        job = f"job {self.latest_training_job.id}" if self.latest_training_job else "no job yet"
        return f"<cohort.{type(self).__name__} of {program}, {job}>"

    @property
    def client(self) -> Client:
        """The service that jobs are submitted to: this user's own, or the one of COHORT_SERVICE."""
        if self._client is None:
            self._client = Client()
        return self._client

    @classmethod
    def attach(cls: Type[E], job_id: str, *, client: Optional[Client] = None) -> E:
        """An estimator of a job that was submitted before, from here or from elsewhere: by id, its beginning,
        or the job's name. It does not wait: `latest_training_job.wait()` does."""
        client = client or Client()
        described = client.job(job_id)
        estimator = cls.__new__(cls)
        estimator._fields = dict(described["spec"])
        estimator._hyperparameters = dict(estimator._fields.pop("hyperparameters", None) or {})
        estimator._client = client
        estimator.latest_training_job = Job(client, described["id"])
        return estimator

    def fit(self, inputs: Inputs = None, wait: bool = True, logs: Logs = "All",
            job_name: Optional[str] = None) -> Job:  # fmt: skip
        """Submits the job, and with `wait` returns once it has succeeded.

        inputs: a path, a URI, or a dictionary of channel names to either; a place alone is channel "training".
        logs: "All" prints the log of every task, "None" nothing, "worker:0" (or a list) that of these tasks.
        Throws JobFailed, whose text is the root cause; ServiceError for a job that the service refuses.
        """
        tasks_of(logs)  # throws before anything is submitted
        submitted = self.client.submit(self._with_source(self.job_description(inputs, job_name)))
        self.latest_training_job = job = Job(self.client, submitted["id"])
        _say(f"job {job.id} ({submitted['name']}) is submitted")
        for note in job.describe()["notes"]:
            _say(note)
        if wait:
            job.wait(logs)
        return job

    def check(self, inputs: Inputs = None) -> JsonObject:
        """What the service would make of the job: {"resolved", "notes"}. Starts nothing. Throws as fit() does
        for a job that would be refused."""
        return self.client.check(self._with_source(self.job_description(inputs)))

    def job_description(self, inputs: Inputs = None,
                        job_name: Optional[str] = None) -> Dict[str, Any]:  # fmt: skip
        """The fields of the job as fit() submits them, but for the packed source."""
        local = self.client.is_local
        apart = ("source_dir", "env", "elastic", "output")
        spec = {name: as_json(value, name) for name, value in self._fields.items() if name not in apart}
        if self.framework:
            spec["framework"] = self.framework
        if self._hyperparameters:
            spec["hyperparameters"] = as_json(self._hyperparameters, "hyperparameters")
        if job_name:
            spec["name"] = as_json(job_name, "job_name")
        if "elastic" in self._fields:
            spec["elastic"] = elastic_of(self._fields["elastic"])
        if "output" in self._fields:
            spec["output"] = output_of(self._fields["output"], local)
        env = environment_of(self._fields.get("env"), local)
        if env:
            spec["env"] = env
        channels = channels_of(inputs, local)
        if channels:
            spec["inputs"] = channels
        if "entry_point" in spec and "source_dir" not in self._fields and "source" not in self._fields:
            spec["entry_point"] = pathlib.Path(spec["entry_point"]).name  # packed alone
        if "program" in spec:
            spec["program"] = self._program_words(spec["program"])
        return spec

    # The newest job.

    @property
    def job(self) -> Job:
        """The newest job. Throws CohortError before fit()."""
        if self.latest_training_job is None:
            raise CohortError(f"{type(self).__name__} has no job yet: call fit(), or attach() to one")
        return self.latest_training_job

    def hyperparameters(self) -> Dict[str, Any]:
        return dict(self._hyperparameters)

    def set_hyperparameters(self, **values: Any) -> None:
        """Adds or changes hyperparameters, for the next fit()."""
        self._hyperparameters = {**self._hyperparameters, **values}  # a copy of this estimator keeps its own

    def status(self) -> str:
        """queued, starting, running, stopping, succeeded, failed or stopped."""
        return self.job.status()

    def logs(self, task: Union[None, str, Sequence[str]] = None, *, follow: bool = True,
             since: Union[None, str, float] = None, tail: Optional[int] = None) -> None:  # fmt: skip
        """Prints the job's log; with `follow`, until the job has ended."""
        self.job.logs(task, follow=follow, since=since, tail=tail)

    def stop(self) -> None:
        """Asks the job to end."""
        self.job.stop()

    def wait(self, logs: Logs = "All") -> None:
        """Waits for the job as fit() does."""
        self.job.wait(logs)

    def metrics(self, name: Optional[str] = None) -> MetricTable:
        """What the job reported so far, as a table: pandas.DataFrame(estimator.metrics())."""
        return self.job.metrics(name)

    @property
    def model_data(self) -> ModelData:
        """Where the model is: a folder, or an address. `model_data.download(folder)` fetches it."""
        return self.job.model_data

    def download(self, folder: Path, part: str = "model") -> pathlib.Path:
        """Puts the job's files of one part (model, output or all) into a folder, and returns it."""
        return self.job.download(folder, part)

    # What runs.

    def _check_program(self) -> None:
        has = [name for name in ("entry_point", "program") if name in self._fields]
        if len(has) != 1:
            raise ValueError(f"{type(self).__name__} needs " + ("entry_point, a file of source_dir" if not has
                             else "entry_point or program, not both"))  # fmt: skip

    def _with_source(self, spec: Dict[str, Any]) -> Dict[str, Any]:
        """The description with its source, which the service has afterwards."""
        source = self._source()
        if not source:
            return spec
        with packing.pack(source) as packed:
            self._check_entry_point(packed, source)
            if "requirements.txt" in packed.names:
                _say("requirements.txt of source_dir is not installed: install it into the job's Python environment")
            self.client.put_source(packed)
            return {**spec, "source": packed.sha256}

    def _source(self) -> Optional[pathlib.Path]:
        """What is packed: source_dir, or the entry point alone. None: nothing, or what the service has from the
        job that this estimator was attached to."""
        folder, entry_point = self._fields.get("source_dir"), self._fields.get("entry_point")
        if folder is not None and "://" in os.fspath(folder):
            raise SourceError(f"source_dir: {os.fspath(folder)} is not a folder of this machine; fetch it first")
        if folder is not None and pathlib.Path(folder).expanduser().is_file():
            raise SourceError(f"source_dir: {os.fspath(folder)} is a file; give the folder that holds it")
        if folder is not None:
            return pathlib.Path(folder).expanduser()
        if entry_point is None or "source" in self._fields:
            return None
        file = pathlib.Path(entry_point).expanduser()
        if not file.is_file():
            raise SourceError(f"entry_point: there is no file {file}; source_dir names the folder that holds it")
        return file

    def _check_entry_point(self, packed: packing.PackedSource, source: pathlib.Path) -> None:
        entry_point = self._fields.get("entry_point")
        if entry_point is None or source.is_file():
            return
        name = pathlib.PurePosixPath(entry_point).as_posix()
        if name not in packed.names:
            there = ", ".join(name for name in packed.names if "/" not in name)
            raise SourceError(f"entry_point: there is no '{name}' in {source}, only: {there[:300]}")

    def _program_words(self, program: Union[str, Sequence[str]]) -> Any:
        """A program of this machine by its whole path: its tasks do not run in the folder of this process."""
        words = [program] if isinstance(program, str) else list(program)
        local = pathlib.Path(words[0]).expanduser() if words else None
        if local and self.client.is_local and "source_dir" not in self._fields and "/" in words[0] and local.is_file():
            words[0] = str(local.absolute())
        return words


Estimator.__signature__ = signature()  # type: ignore[attr-defined]


class TensorFlow(Estimator):
    """Trains a TensorFlow program: entry_point, a .py file of source_dir."""

    framework = "tensorflow"


class PyTorch(Estimator):
    """Trains a PyTorch program: entry_point, a .py file of source_dir."""

    framework = "pytorch"


class Cohort(Estimator):
    """Trains a C++ program that is built with Cohort: program=["build/bin/train", "--data", "mnist"]."""

    framework = "cohort"


class Generic(Estimator):
    """Runs any program: `program`, a word or a list of them, or entry_point, a file of source_dir."""


def _say(text: str) -> None:
    print(f"cohort: {text}", file=sys.stderr, flush=True)
