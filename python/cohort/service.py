"""Finds the service: the one that COHORT_SERVICE names, else this user's own, which is started on demand.

    COHORT_SERVICE   https://HOST:PORT of a shared service, or unix:PATH
    COHORT_TOKEN     the token for a shared service; COHORT_TOKEN_FILE names a file that holds it
    COHORT_CA_FILE   certificates that vouch for a shared service, where the system's do not
    COHORT_HOME      the folder of this user's own service [XDG_STATE_HOME/cohort, ~/.local/state/cohort]
    COHORT_PROGRAM   the `cohort` program [cohort/program.py says where it is looked for]
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import time
import urllib.parse
from typing import Any, Dict, List, Optional, Set

from cohort.connection import BROKEN, Address
from cohort.errors import CohortError, ServiceError, ServiceUnavailable
from cohort.program import find_program as find_program

START_LIMIT = 10.0  # seconds for a service that was started to answer
_started: List["subprocess.Popen[bytes]"] = []  # kept: a service is not waited for, it outlives us
_told: Set[object] = set()  # services whose version was said to be another one


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
    token, file = os.environ.get("COHORT_TOKEN"), os.environ.get("COHORT_TOKEN_FILE")
    if token or not file:
        return token
    try:
        return pathlib.Path(file).expanduser().read_text().strip()
    except (OSError, ValueError) as error:
        raise CohortError(f"COHORT_TOKEN_FILE={file} cannot be read: {error}") from error


def own_root() -> pathlib.Path:
    """The folder of this user's own service. Throws ServiceUnavailable where there is none."""
    home, state = os.environ.get("COHORT_HOME"), os.environ.get("XDG_STATE_HOME")
    if home:
        return pathlib.Path(home).absolute()
    try:
        return (pathlib.Path(state) if state else pathlib.Path.home() / ".local/state") / "cohort"
    except RuntimeError as error:
        raise ServiceUnavailable("this user has no home folder for a service of its own; set COHORT_HOME") from error


def own_service() -> Address:
    """This user's own service, which is started when none answers. Throws ServiceUnavailable."""
    root = own_root()
    found = _answering(root)
    if found:
        _say_version(root)
    return found or _start(root)


def _record(root: pathlib.Path) -> Optional[Dict[str, Any]]:
    """What the service of this folder says of itself; None when there is none."""
    try:
        owner = os.stat(root / "service.json").st_uid
        record = json.loads((root / "service.json").read_text())
    except (OSError, ValueError):
        return None  # none was started yet, or it is about to write its record
    if owner not in (os.geteuid(), 0):
        raise ServiceUnavailable(f"{root}/service.json belongs to another user (uid {owner}); "
                                 "set COHORT_HOME to a folder of your own")  # fmt: skip
    return record if isinstance(record, dict) and "socket" in record else None


def _answering(root: pathlib.Path) -> Optional[Address]:
    """The service that root/service.json names, when it answers."""
    record = _record(root)
    if not record:
        return None
    address = Address(socket=str(record["socket"]))
    try:
        with address.request("GET", "/v1/service", timeout=START_LIMIT) as answer:
            answer.read()
    except ServiceError:
        return address  # it answers; what it refuses is the next request's business
    except BROKEN:
        return None
    return address


def _say_version(root: pathlib.Path) -> None:
    """Says, once a process, that the service which runs is of another version than this package."""
    from cohort import __version__

    record = _record(root) or {}
    version, pid = record.get("version", __version__), record.get("pid")
    if version == __version__ or pid in _told:
        return
    _told.add(pid)
    print(f"cohort: your own service (pid {pid}) is of version {version}, this package of {__version__}. To start "
          f"another one, end it: kill {pid}. Jobs go on meanwhile.", file=sys.stderr)  # fmt: skip


def _start(root: pathlib.Path) -> Address:
    program = os.path.abspath(find_program())
    log = root / "service.log"
    environment = {**os.environ, **({"COHORT_HOME": str(root)} if "COHORT_HOME" in os.environ else {})}
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(log, "ab", opener=lambda path, flags: os.open(path, flags | os.O_NOFOLLOW, 0o600)) as output:
            begin = output.tell()
            process = subprocess.Popen([program, "serve", "--on-demand"], stdin=subprocess.DEVNULL, stdout=output,
                                       stderr=output, cwd=root, env=environment, start_new_session=True)  # fmt: skip
    except OSError as error:
        raise ServiceUnavailable(f"your own service cannot be started: {error}. COHORT_HOME names its folder "
                                 f"({root}), COHORT_PROGRAM the program ({program}).") from error  # fmt: skip
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
