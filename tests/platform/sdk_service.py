"""What tests of the Python SDK against a real service share: a folder, a service of its own in it, its end."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("COHORT_BIN_DIR", SOURCE / "build/bin")).resolve()
COHORT = str(BIN / "cohort")
SANITIZED = "san" in BIN.parent.name
PATIENCE = 180 if SANITIZED else 60  # seconds after which anything that a test waits for counts as hanging
sys.path.insert(0, str(SOURCE / "python"))


def clean_environment(folder):
    """What a process needs to find this tree's SDK, its program, and a service below `folder`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("COHORT_")}
    return kept | {"COHORT_HOME": str(folder / "home"), "COHORT_PROGRAM": COHORT, "HOME": str(folder),
                   "PYTHONPATH": str(SOURCE / "python"), "PYTHONDONTWRITEBYTECODE": "1",
                   "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}  # fmt: skip


def record_of(folder):
    """What the service of this folder says of itself; None when there is none."""
    try:
        return json.loads((folder / "home/service.json").read_text())
    except (OSError, ValueError):
        return None


def is_alive(pid):
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def wait_until(condition, what):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {PATIENCE} s for: {what}")
        time.sleep(0.01)


def end_service(folder, how=signal.SIGTERM):
    """Ends the service of this folder, if one runs, and waits until it is gone."""
    record = record_of(folder)
    if record and is_alive(record["pid"]):
        os.kill(record["pid"], how)
        wait_until(lambda: not is_alive(record["pid"]), "the end of the service")


class ServiceTest(unittest.TestCase):
    """Gives each class a folder and a service of its own, which starts on demand and is ended after it."""

    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory(prefix="cohort-sdk-", ignore_cleanup_errors=True)
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = pathlib.Path(temporary.name)
        cls.environment = clean_environment(cls.folder)
        saved, place = dict(os.environ), os.getcwd()
        os.environ.clear()
        os.environ.update(cls.environment)
        os.chdir(cls.folder)
        cls.addClassCleanup(lambda: (os.chdir(place), os.environ.clear(), os.environ.update(saved)))
        cls.addClassCleanup(end_service, cls.folder)

    def program(self, name, text):
        """A source folder NAME with the program train.py."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        (folder / "train.py").write_text(text)
        return folder

    def start(self, script, **options):
        """Another process that uses the SDK."""
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options}
        process = subprocess.Popen([sys.executable, "-uc", script], cwd=self.folder, env=self.environment, **options)
        self.addCleanup(lambda: (process.poll() is None and process.kill(), process.wait()))
        return process
