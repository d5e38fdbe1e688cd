"""What the tests and figures of attacks share: connections of people who do not belong to the job."""

import os
import pathlib
import resource
import socket
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "launcher"))
from launcher import BIN, COHORT, PYTHON, SANITIZED, LauncherTest  # noqa: E402, F401

TESTS = BIN.parent / "tests"
USUAL_LIMIT = 1024
OTHER_USER = 65534


def allow_many_connections(wanted=20000):
    """Raises this process's own limit of open files; returns the limit that then holds."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if wanted > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return max(soft, wanted)


def limit_files(number=USUAL_LIMIT):
    """For preexec_fn: the limit of open files, soft and hard."""
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (number, number))


def connect(port, seconds=20):
    return socket.create_connection(("127.0.0.1", port), timeout=seconds)


def silent_connections(port, count):
    return [connect(port) for _ in range(count)]


def junk_connections(port, count):
    """Says something that is no handshake, and goes."""
    for _ in range(count):
        with connect(port) as one:
            try:
                one.sendall(b"GET / HTTP/1.1\r\n\r\n" + b"x" * 300)
            except OSError:
                pass


def environment_of(pid):
    text = pathlib.Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
    return dict(line.split("=", 1) for line in text.split("\0") if "=" in line)


def memory_of(pid):
    """Resident bytes."""
    pages = int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


class AttackTest(LauncherTest):
    def setUp(self):
        super().setUp()
        allow_many_connections()

    def start(self, *words, **options):
        process = super().start(*words, **options)
        self.addCleanup(lambda: process.poll() is None and (process.terminate(), process.communicate()))
        return process

    def store_port(self, pid):
        return int(environment_of(pid)["COHORT_STORE"].rsplit(":", 1)[1])

    def keep_watch(self, process, seconds):
        """Fails when the job ends within that time."""
        limit = time.monotonic() + seconds
        while time.monotonic() < limit:
            if process.poll() is not None:
                self.fail(f"the job ended: {process.communicate()[1][-3000:].decode()}")
            time.sleep(0.05)
