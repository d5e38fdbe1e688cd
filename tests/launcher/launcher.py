"""Helpers for the tests of `cohort run`: start it, read what it leaves, and look for leftovers."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

BIN = pathlib.Path(os.environ.get("COHORT_BIN_DIR", pathlib.Path(__file__).parents[2] / "build/bin")).resolve()
COHORT = str(BIN / "cohort")
SANITIZED = "san" in BIN.parent.name  # build-asan, build-tsan: more memory, and /proc is needed
PYTHON = sys.executable
PATIENCE = 180 if SANITIZED else 60  # seconds after which anything that a test waits for counts as hanging


class Result:
    def __init__(self, code, stdout, stderr, output, seconds):
        self.code, self.stdout, self.stderr = code, stdout, stderr
        self.output, self.seconds = output, seconds

    @property
    def last_line(self):
        return self.stderr.rstrip("\n").splitlines()[-1]

    def record(self):
        return json.loads((self.output / "job.json").read_text())

    def log(self, task, attempt=1):
        name = task.replace("/", "-") + f".attempt{attempt}.log"
        return (self.output / "logs" / name).read_bytes()


class LauncherTest(unittest.TestCase):
    """Gives each test a folder of its own and proves after it that no process is left."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="cohort-test-"))
        self.output = self.folder / "out"
        self.marker = f"LAUNCHER_TEST={self.folder.name}"
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.addCleanup(self.end_processes)

    def environment(self, **extra):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("COHORT_")}
        environment["LAUNCHER_TEST"] = self.folder.name
        environment.update(extra)
        return environment

    def command(self, *words):
        """cohort run with this test's output folder; `words` hold options, "--" and the program."""
        return [COHORT, "run", "--output", str(self.output), *map(str, words)]

    def start(self, *words, env=None, **options):
        return subprocess.Popen(self.command(*words), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                env=self.environment(**(env or {})), cwd=self.folder, **options)

    def finish(self, process):
        begin = time.monotonic()
        try:
            stdout, stderr = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            stdout, stderr = process.communicate()
            self.fail(f"cohort run hangs\n{stdout[-2000:]!r}\n{stderr[-2000:].decode()}")
        self.assert_nothing_left()
        return Result(process.returncode, stdout, stderr.decode(errors="replace"), self.output,
                      time.monotonic() - begin)

    def run_job(self, *words, env=None, **options):
        return self.finish(self.start(*words, env=env, **options))

    def script(self, text, name="task.py"):
        path = self.folder / name
        path.write_text(text)
        return str(path)

    def python(self, text):
        """The words of a program that runs this Python text."""
        return ["--", PYTHON, self.script(text)]

    def processes(self):
        """Every process started by this test, the launcher and its tasks alike."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                variables = (entry / "environ").read_bytes().split(b"\0")
                state = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0]
            except OSError:
                continue
            if self.marker.encode() in variables and state != "Z":
                found.append(int(entry.name))
        return found

    def end_processes(self):
        """What a test that failed left running."""
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    @staticmethod
    def runs(pid):
        try:
            return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
        except OSError:
            return False

    def assert_nothing_left(self, within=5.0):
        limit = time.monotonic() + within
        while self.processes():
            if time.monotonic() > limit:
                left = self.processes()
                lines = [pathlib.Path(f"/proc/{pid}/cmdline").read_bytes() for pid in left]
                for pid in left:
                    os.kill(pid, signal.SIGKILL)
                self.fail(f"processes left behind: {left} {lines}")
            time.sleep(0.02)

    def wait_for(self, condition, what):
        limit = time.monotonic() + PATIENCE
        while True:
            value = condition()
            if value:
                return value
            if time.monotonic() > limit:
                self.fail(f"waited in vain for {what}")
            time.sleep(0.02)

    def wait_for_tasks(self, count):
        """The task records of job.json once `count` tasks run."""
        def running():
            try:
                tasks = json.loads((self.output / "job.json").read_text())["tasks"]
            except (OSError, ValueError):
                return None
            alive = [t for t in tasks if t["pid"] and t["exit_code"] is None]
            return tasks if len(alive) >= count else None
        return self.wait_for(running, f"{count} running tasks")

    def wait_for_log(self, task, text, attempt=1):
        name = task.replace("/", "-") + f".attempt{attempt}.log"
        path = self.output / "logs" / name
        self.wait_for(lambda: path.exists() and text.encode() in path.read_bytes(),
                      f"'{text}' in the log of {task}")
