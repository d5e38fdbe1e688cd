"""Finds the service: the one that COHORT_SERVICE names, else this user's own, which is started on demand.

    COHORT_SERVICE   https://HOST:PORT of a shared service, or unix:PATH
    COHORT_TOKEN     the token for a shared service; COHORT_TOKEN_FILE names a file that holds it
    COHORT_CA_FILE   certificates that vouch for a shared service, where the system's do not
    COHORT_HOME      the folder of this user's own service [XDG_STATE_HOME/cohort, ~/.local/state/cohort]
    COHORT_PROGRAM   the `cohort` program [that of the tree that this package was installed from, or PATH]
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from typing import Iterator, List, Optional

from cohort.connection import BROKEN, Address
from cohort.errors import CohortError, ServiceError, ServiceUnavailable

START_LIMIT = 10.0  # seconds for a service that was started to answer
_started: List["subprocess.Popen[bytes]"] = []  # kept: a service is not waited for, it outlives us


def address_of(address: Optional[str], token: Optional[str], ca_file: Optional[str]) -> Optional[Address]:
    """The service that the arguments or the environment name; None: this user's own."""
    address = address or os.environ.get("COHORT_SERVICE")
    if not address:
        return None
    if address.startswith("unix:"):
        return Address(socket=address[len("unix:"):])
    parts = urllib.parse.urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname or not parts.port:
        raise CohortError(f"'{address}' is not the address of a service. Write https://HOST:PORT, or unix:PATH.")
    if parts.scheme == "http" and parts.hostname not in ("localhost", "::1") and not parts.hostname.startswith("127."):
        raise CohortError(f"{address} would send the token unencrypted. Write https://{parts.hostname}:{parts.port}.")
    return Address(url=address.rstrip("/"), token=token or _token(),
                   ca_file=ca_file or os.environ.get("COHORT_CA_FILE"))  # fmt: skip


def _token() -> Optional[str]:
    file = os.environ.get("COHORT_TOKEN_FILE")
    return os.environ.get("COHORT_TOKEN") or (pathlib.Path(file).read_text().strip() if file else None)


def own_root() -> pathlib.Path:
    """The folder of this user's own service."""
    home, state = os.environ.get("COHORT_HOME"), os.environ.get("XDG_STATE_HOME")
    if home:
        return pathlib.Path(home).absolute()
    return (pathlib.Path(state) if state else pathlib.Path.home() / ".local/state") / "cohort"


def own_service() -> Address:
    """This user's own service, which is started when none answers. Throws ServiceUnavailable."""
    root = own_root()
    return _answering(root) or _start(root)


def _answering(root: pathlib.Path) -> Optional[Address]:
    """The service that root/service.json names, when it answers."""
    try:
        owner = os.stat(root / "service.json").st_uid
        record = json.loads((root / "service.json").read_text())
        address = Address(socket=str(record["socket"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None  # none was started yet, or it is about to write its record
    if owner not in (os.geteuid(), 0):
        raise ServiceUnavailable(f"{root}/service.json belongs to another user (uid {owner}); "
                                 "set COHORT_HOME to a folder of your own")  # fmt: skip
    try:
        address.request("GET", "/v1/service", timeout=START_LIMIT).close()
    except ServiceError:
        return address  # it answers; what it refuses is the next request's business
    except BROKEN:
        return None
    return address


def _start(root: pathlib.Path) -> Address:
    program = os.path.abspath(find_program())
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    log = root / "service.log"
    environment = {**os.environ, **({"COHORT_HOME": str(root)} if "COHORT_HOME" in os.environ else {})}
    with open(log, "ab", opener=lambda path, flags: os.open(path, flags | os.O_NOFOLLOW, 0o600)) as output:
        begin = output.tell()
        process = subprocess.Popen([program, "serve", "--on-demand"], stdin=subprocess.DEVNULL, stdout=output,
                                   stderr=output, cwd=root, env=environment, start_new_session=True)  # fmt: skip
    _started.append(process)
    deadline = time.monotonic() + START_LIMIT
    while time.monotonic() < deadline:
        address = _answering(root)
        if address:
            if process.poll() is None:  # else another client's, which started at the same time, won
                print(f"cohort: started your own service (pid {process.pid}, {root})", file=sys.stderr)
            return address
        if process.poll() not in (None, 0) and not _may_still_come(root):
            break
        time.sleep(0.02)
    said = log.read_bytes()[begin:].decode(errors="replace").rstrip().splitlines()[-3:]
    raise ServiceUnavailable(f"your own service did not start: {' / '.join(said) or 'it said nothing'} ({log})")


def _may_still_come(root: pathlib.Path) -> bool:
    """Whether a service of another client holds the lock of the root, and may be about to answer."""
    import fcntl

    try:
        with open(root / "service.lock", "rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


def find_program() -> str:
    """The `cohort` program that belongs to this package."""
    named = os.environ.get("COHORT_PROGRAM")
    if named:
        if not _is_program(pathlib.Path(named)):
            raise ServiceUnavailable(f"COHORT_PROGRAM={named} is not a program that can be run")
        return named
    for place in _places():
        for folder in list(place.parents)[:4]:
            for candidate in (folder / "build/bin/cohort", folder / "bin/cohort"):
                if _is_program(candidate):
                    return str(candidate)
    found = shutil.which("cohort")
    if not found:
        raise ServiceUnavailable("the cohort program was not found: build it (make build), put it on the PATH, or "
                                 "set COHORT_PROGRAM; COHORT_SERVICE names a shared service")  # fmt: skip
    return found


def _places() -> Iterator[pathlib.Path]:
    """Where this package lies, and the folder that pip installed it from."""
    yield pathlib.Path(__file__).resolve().parent
    try:
        origin = importlib.metadata.distribution("cohort-sdk").read_text("direct_url.json")
    except importlib.metadata.PackageNotFoundError:
        return
    url = urllib.parse.urlsplit(json.loads(origin)["url"]) if origin else None
    if url and url.scheme == "file":
        yield pathlib.Path(urllib.request.url2pathname(url.path)) / "cohort"


def _is_program(path: pathlib.Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
