"""The HTTP API of the service, one method an endpoint. `cohort.estimator` is the comfortable way."""

from __future__ import annotations

import http.client
import json
import os
import pathlib
import shutil
import sys
import tarfile
import time
import urllib.parse
import uuid
from typing import IO, Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, TypeVar, Union, cast

from cohort import packing, service
from cohort.connection import BROKEN, Address, JsonObject
from cohort.errors import CohortError, ServiceError, ServiceUnavailable
from cohort.events import Event, parse_events

T = TypeVar("T")
SILENCE_LIMIT = 45.0  # seconds; the service sends something on a stream every 15


class Client:
    """A client of one service: the shared one that `address` or COHORT_SERVICE names (https://HOST:PORT,
    with a token), else this user's own, which is started when it does not run.

    Threads: any number may use one client; each request has a connection of its own.
    Failure: ServiceError for what the service refuses; ServiceUnavailable when it has not answered for
    `patience` seconds. A connection that breaks in between is made again, and a request that may have been
    carried out already is repeated only where that does no harm.
    """

    def __init__(self, address: Optional[str] = None, *, token: Optional[str] = None,
                 ca_file: Optional[str] = None, patience: float = 60) -> None:  # fmt: skip
        self._named = service.address_of(address, token, ca_file)
        self._found: Optional[Address] = None
        self.patience = patience

    def __repr__(self) -> str:
        return f"<cohort.Client of {self._where()}>"

    @property
    def is_local(self) -> bool:
        """Whether the service runs on this machine, for this user: paths mean the same to both."""
        return self._named is None or self._named.socket is not None

    # The service itself.

    def service(self) -> JsonObject:
        """Version, root folder, machine, free resources, jobs by state, and who you are."""
        return self._json("GET", "/v1/service")

    def openapi(self) -> JsonObject:
        """The description of the HTTP API."""
        return self._json("GET", "/v1/openapi.json")

    # Jobs.

    def submit(self, spec: Mapping[str, Any], request_id: Optional[str] = None) -> JsonObject:
        """Submits a job; the same `request_id` gives the same job again."""
        body = {"spec": dict(spec), "request_id": request_id or uuid.uuid4().hex}
        return self._json("POST", "/v1/jobs", body=body)

    def check(self, spec: Mapping[str, Any]) -> JsonObject:
        """The job as it would be started: {"resolved", "notes"}. Starts nothing."""
        return self._json("POST", "/v1/jobs/check", body={"spec": dict(spec)})

    def jobs(self, *, state: Union[None, str, Sequence[str]] = None, user: Optional[str] = None,
             queue: Optional[str] = None, name: Optional[str] = None, tag: Optional[str] = None,
             limit: Optional[int] = None) -> Iterator[JsonObject]:  # fmt: skip
        """Jobs, newest first; all of them, page by page, unless there is a limit."""
        states = state if state is None or isinstance(state, str) else ",".join(state)
        query = {"state": states, "user": user, "queue": queue, "name": name, "tag": tag}
        before: Optional[str] = None
        while limit is None or limit > 0:
            page = self._json("GET", "/v1/jobs", query={**query, "before": before, "limit": min(limit or 100, 100)})
            yield from page["jobs"]
            before = page["next"]
            if before is None:
                return
            limit = None if limit is None else limit - len(page["jobs"])

    def job(self, job: str) -> JsonObject:
        """One job, with its description, notes, attempts and tasks. `job` is its id, the beginning of one,
        or its name, while only one job has it."""
        return self._json("GET", _path(job))

    def tasks(self, job: str) -> List[JsonObject]:
        """The tasks of the newest attempt."""
        return cast(List[JsonObject], self._json("GET", _path(job, "tasks"))["tasks"])

    def stop(self, job: str) -> JsonObject:
        return self._json("POST", _path(job, "stop"))

    def resume(self, job: str) -> JsonObject:
        """Queues a job that ended without success again; it goes on from its checkpoints."""
        return self._json("POST", _path(job, "resume"))

    def scale(self, job: str, workers: int) -> JsonObject:
        """Another number of workers for an elastic job that runs."""
        return self._json("POST", _path(job, "scale"), body={"workers": workers})

    def pin(self, job: str, pinned: bool = True) -> JsonObject:
        """Keeps an ended job from being removed by age or size."""
        return self._json("POST", _path(job, "pin"), body={"pinned": pinned})

    def delete(self, job: str) -> None:
        """Removes an ended job, with its files."""
        self._request("DELETE", _path(job)).close()

    # Logs, events and metrics.

    def log(self, job: str, task: str, *, attempt: Optional[int] = None,
            since: Union[None, str, float] = None) -> Iterator[bytes]:  # fmt: skip
        """A task's log as it is now, in pieces."""
        place: Dict[str, Any] = {"since": since}
        while True:
            query = {"task": task, "attempt": attempt, **place}
            with self._request("GET", _path(job, "logs"), query=query, accept="text/plain") as answer:
                piece = answer.read()
            if not piece:
                return
            yield piece
            place = {"offset": answer.headers["Cohort-Next-Offset"]}

    def follow_logs(self, job: str, *, tasks: Sequence[str] = (), since: Union[None, str, float] = None,
                    tail: Optional[int] = None, after: Optional[str] = None) -> Iterator[Event]:  # fmt: skip
        """Log lines of the job's tasks as they come, as events `log` ({"task", "attempt", "offset", "text"}),
        then one event `end` ({"state", "exit_code", "reason"}). Goes on where it was after a lost
        connection; `after`, the id of an event, does the same by hand."""
        query = {"task": ",".join(tasks) or None, "since": since, "tail": tail}
        return self._follow(_path(job, "logs", "stream"), query, after, lambda event: event.kind == "end")

    def events(self, job: Optional[str] = None, *, after: int = 0) -> Iterator[JsonObject]:
        """What has happened so far, to one job or to all that you may see."""
        path = _path(job, "events") if job else "/v1/events"
        while True:
            page = self._json("GET", path, query={"after": after})
            yield from page["events"]
            if not page["events"]:
                return
            after = page["next"]

    def follow_events(self, job: Optional[str] = None, *, after: Optional[int] = None) -> Iterator[JsonObject]:
        """Events as they happen, those behind the id `after` first. Ends never by itself."""
        path = _path(job, "events") if job else "/v1/events"
        for event in self._follow(path, {"after": after}, None, lambda event: False):
            yield event.json()

    def metrics(self, job: str, name: Optional[str] = None, *, after: int = 0) -> Iterator[JsonObject]:
        """Values that the job reported so far: {"id", "name", "step", "value", "time"}."""
        while True:
            page = self._json("GET", _path(job, "metrics"), query={"name": name, "after": after})
            yield from page["metrics"]
            if not page["metrics"]:
                return
            after = page["next"]

    def follow_metrics(self, job: str, name: Optional[str] = None) -> Iterator[JsonObject]:
        """Values as they come, until the job has ended and all that it left has been read."""
        query = {"name": name, "after": 0}
        for event in self._follow(_path(job, "metrics"), query, None, lambda event: event.kind == "end"):
            if event.kind == "metric":
                yield event.json()

    # Files.

    def files(self, job: str) -> List[JsonObject]:
        """What the job left: {"path", "bytes", "modified"}; paths begin with model/, output/ or logs/."""
        return cast(List[JsonObject], self._json("GET", _path(job, "files"))["files"])

    def read_file(self, job: str, path: str) -> bytes:
        with self._request("GET", _path(job, "files", path), accept="*/*") as answer:
            return answer.read()

    def download(self, job: str, folder: Union[str, "os.PathLike[str]"], part: str = "model") -> pathlib.Path:
        """Puts the job's files of one part (model, output, or all) into a folder, and returns it."""
        target = pathlib.Path(folder).expanduser()
        target.mkdir(parents=True, exist_ok=True)
        query = {"part": part}
        with self._request("GET", _path(job, "archive"), query=query, accept="application/x-tar") as answer:
            with tarfile.open(fileobj=answer, mode="r|") as archive:
                for member in archive:
                    _extract(archive, member, target.resolve())
        return target

    def model_place(self, job: str) -> str:
        """The folder of a job's model, or the address of its archive on a shared service. Takes the whole id."""
        if self.is_local:
            return str(pathlib.Path(self.service()["root"]) / "jobs" / job / "model")
        return f"{self._address()}{_path(job, 'archive')}?part=model"

    # Sources.

    def has_source(self, sha256: str) -> bool:
        try:
            self._request("HEAD", f"/v1/sources/{sha256}").close()
        except ServiceError as error:
            if error.status != 404:
                raise
            return False
        return True

    def put_source(self, source: packing.PackedSource) -> bool:
        """Gives the service a packed source folder; False when it had it already."""
        if self.has_source(source.sha256):
            return False
        with open(source.file, "rb") as body:
            self._request("PUT", f"/v1/sources/{source.sha256}", body=body, length=source.size).close()
        return True

    # Tokens.

    def tokens(self) -> List[JsonObject]:
        return cast(List[JsonObject], self._json("GET", "/v1/tokens")["tokens"])

    def create_token(self, user: str, role: str = "user", days: Optional[int] = None) -> JsonObject:
        """A new token; its text is in the answer, and nowhere else afterwards."""
        body = {"user": user, "role": role, **({} if days is None else {"days": days})}
        return self._json("POST", "/v1/tokens", body=body, repeat=False)

    def rotate_token(self, token_id: str) -> JsonObject:
        return self._json("POST", f"/v1/tokens/{urllib.parse.quote(token_id, safe='')}/rotate", repeat=False)

    def delete_token(self, token_id: str) -> None:
        self._request("DELETE", f"/v1/tokens/{urllib.parse.quote(token_id, safe='')}").close()

    # How requests travel.

    def _where(self) -> str:
        return str(self._named or f"the service of {service.own_root()}")

    def _address(self) -> Address:
        if self._named:
            return self._named
        if not self._found:
            self._found = service.own_service()
        return self._found

    def _persist(self, attempt: Callable[[], T], repeat: bool = True) -> T:
        """Calls `attempt` until it has an answer: a service that is being started again, or that has too
        much to do, is given `patience` seconds."""
        deadline, pause, said = time.monotonic() + self.patience, 0.05, False
        while True:
            try:
                return attempt()
            except ServiceError as error:
                if error.status not in (429, 503) or time.monotonic() > deadline:
                    raise
            except BROKEN as error:
                self._found = None  # the next attempt looks for the service, or starts it, again
                never_sent = isinstance(error, (ConnectionRefusedError, FileNotFoundError))
                if isinstance(error, http.client.InvalidURL) or not (repeat or never_sent):
                    raise
                if isinstance(error, OSError) and "CERTIFICATE_VERIFY_FAILED" in str(error):
                    raise ServiceUnavailable(f"{self._named}: {error}; COHORT_CA_FILE names the certificate "
                                             "that vouches for the service") from error  # fmt: skip
                if time.monotonic() > deadline:
                    raise ServiceUnavailable(f"{self._where()} does not answer: {error}") from error
                if pause > 1 and not said:
                    print("cohort: the service does not answer; trying again", file=sys.stderr)
                    said = True
            time.sleep(pause)
            pause = min(2 * pause, 2.0)

    def _request(self, method: str, path: str, *, repeat: bool = True, body: Union[None, JsonObject, IO[bytes]] = None,
                 **options: Any) -> http.client.HTTPResponse:  # fmt: skip
        def attempt() -> http.client.HTTPResponse:
            if body is not None and not isinstance(body, dict):
                body.seek(0)
            return self._address().request(method, path, body=body, **options)

        return self._persist(attempt, repeat)

    def _json(self, method: str, path: str, *, repeat: bool = True, **options: Any) -> JsonObject:
        def attempt() -> JsonObject:
            with self._address().request(method, path, **options) as answer:
                return cast(JsonObject, json.loads(answer.read()))

        return self._persist(attempt, repeat)

    def _follow(self, path: str, query: Mapping[str, Any], last: Optional[str],
                is_last: Callable[[Event], bool]) -> Iterator[Event]:  # fmt: skip
        """The events of a stream, each once, across lost connections and restarts of the service."""
        while True:
            headers = {"Last-Event-ID": last} if last else {}
            with self._request("GET", path, query=query, accept="text/event-stream", headers=headers,
                               timeout=SILENCE_LIMIT) as answer:  # fmt: skip
                try:
                    for event in parse_events(answer):
                        last = event.id or last
                        yield event
                        if is_last(event):
                            return
                except BROKEN:
                    pass  # as at the end of a stream that lacks its last event: go on behind the last id
            time.sleep(0.05)


def _path(job: str, *parts: str) -> str:
    if not isinstance(job, str) or not job:
        raise TypeError(f"a job is named by its id, or its name, not by {job!r}")
    words = [urllib.parse.quote(job, safe=""), *(urllib.parse.quote(part) for part in parts)]
    return "/v1/jobs/" + "/".join(words)


def _extract(archive: tarfile.TarFile, member: tarfile.TarInfo, target: pathlib.Path) -> None:
    """Writes a file, folder or link of the archive below `target`, and nothing anywhere else."""
    place = target / member.name
    places = [place.parent.resolve() / place.name]  # where it goes, past links that are there already
    if member.issym():
        places.append((place.parent / member.linkname).resolve())
    if ".." in place.parts or not all(path == target or target in path.parents for path in places):
        raise CohortError(f"the archive of the job holds '{member.name}', which would leave {target}")
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.is_symlink():
        place.unlink()
    if member.isdir():
        place.mkdir(exist_ok=True)
    elif member.issym():
        place.symlink_to(member.linkname)
    elif member.isfile():
        content = archive.extractfile(member)
        assert content is not None
        with content, open(place, "wb") as file:
            shutil.copyfileobj(content, file)
        place.chmod(member.mode & 0o755)
