"""Helpers for the tests of elastic jobs: start one, watch its membership, hurt it, and compare its weights with those
of an undisturbed run of the same program."""

import gzip
import json
import os
import pathlib
import re
import signal
import struct
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "launcher"))
from launcher import BIN, COHORT, LauncherTest  # noqa: E402

PROGRAM = str(BIN.parent / "tests" / "elastic_program")
MNIST = str(BIN / "mnist")
FASHION = pathlib.Path("/usr/share/datasets/fashion-mnist")
PATIENCE = 120  # seconds after which anything that a test waits for counts as hanging


def small_fashion(folder, train, test):
    """The first images of Fashion-MNIST as a data set of its own: epochs that end within seconds."""
    folder.mkdir()
    for stem, count in (("train", train), ("t10k", test)):
        for kind, width in (("images-idx3", 784), ("labels-idx1", 1)):
            with gzip.open(FASHION / f"{stem}-{kind}-ubyte.gz") as file:
                head = 4 + 4 * (3 if width > 1 else 1)
                header, data = file.read(head), file.read(count * width)
            (folder / f"{stem}-{kind}-ubyte").write_bytes(header[:4] + struct.pack(">i", count) + header[8:] + data)
    return folder


def read_steps(folder):
    """(step, nanoseconds, loss, worker, pid) of every step that elastic_program has written down, as they came."""
    steps = []
    for path in pathlib.Path(folder).glob("worker-*.*"):
        worker, pid = path.name.removeprefix("worker-").split(".")
        for line in path.read_text().split("\n")[:-1]:  # what follows the last line end is not whole
            step, at, loss = line.split()
            steps.append((int(step), int(at), float(loss), int(worker), int(pid)))
    return sorted(steps, key=lambda step: step[1])


def last_step(path):
    with open(path, "rb") as file:
        file.seek(max(0, path.stat().st_size - 200))
        lines = file.read().split(b"\n")
    return int(lines[-2].split()[0]) if len(lines) > 1 else 0


def find_weights(text):
    """The fingerprints that a training has printed; the same from every process that did."""
    return set(re.findall(r"weights ([0-9a-f]{64})", text))


class Job:
    """One `cohort run`. Its output goes to files: they need not be read while it runs."""

    def __init__(self, folder, name, options, program, environment, where=()):
        """`where`: words before the command, which run it somewhere else."""
        self.output, self.times = folder / f"out{name}", folder / f"times{name}"
        self._stdout, self._stderr = folder / f"stdout{name}", folder / f"stderr{name}"
        self.killed = 0
        self._where, self._start = list(where), {"cwd": folder, "env": environment}
        if program[0] == PROGRAM:
            program = [*program, "--times", self.times]
        self.command("run", "--output", self.output, *options, "--", *program)

    def command(self, *words):
        """Starts `cohort` with these words as the launcher of this job."""
        with open(self._stdout, "ab") as stdout, open(self._stderr, "ab") as stderr:
            self.process = subprocess.Popen([*self._where, COHORT, *map(str, words)], stdout=stdout, stderr=stderr,
                                            **self._start)

    @property
    def stdout(self):
        return self._stdout.read_text(errors="replace")

    @property
    def stderr(self):
        return self._stderr.read_text(errors="replace")

    def runs(self):
        return self.process.poll() is None

    def record(self):
        try:
            return json.loads((self.output / "job.json").read_text())
        except (OSError, ValueError):
            return {"tasks": []}

    def tasks(self):
        """worker number -> its record, of those that run now."""
        return {task["index"]: task for task in self.record()["tasks"]
                if task["type"] == "worker" and task["pid"] and task["state"] in ("running", "suspended")}

    def restarts(self):
        return sum(task["restarts"] for task in self.record()["tasks"])

    def events(self, kind=None, view=0):
        """Of membership.jsonl, of this kind and of this view or a later one."""
        try:
            lines = (self.output / "membership.jsonl").read_text().split("\n")[:-1]
        except OSError:
            return []
        events = [json.loads(line) for line in lines]
        return [event for event in events
                if (kind is None or event["event"] == kind) and event.get("view", 0) >= view]

    def view(self):
        """The number of the last view, and its members as (worker, incarnation), in the order of their ranks."""
        installed = self.events("installed")
        if not installed:
            return 0, []
        members = []
        for member in installed[-1]["members"]:
            worker, incarnation, _ = member.removeprefix("worker/").split(".")
            members.append((int(worker), int(incarnation)))
        return installed[-1]["view"], members

    def trains(self, size):
        """Whether the last view has that size and has made a step; the first view is not told, it stands for
        itself."""
        number, members = self.view()
        return len(members) == size and (number == 1 or bool(self.events("resumed", number)))

    def living_members(self):
        """worker -> pid of the members of the last view whose processes still run, in the order of their ranks."""
        tasks = self.tasks()
        return {worker: tasks[worker]["pid"] for worker, incarnation in self.view()[1]
                if worker in tasks and tasks[worker]["restarts"] == incarnation}

    def step(self):
        """The last one that any process has written down."""
        return max((last_step(path) for path in self.times.glob("worker-*.*")), default=0)

    def kill(self, worker, number=signal.SIGKILL):
        return self.kill_pid(self.tasks()[worker]["pid"], number)

    def kill_pid(self, pid, number=signal.SIGKILL):
        """False: it was gone already."""
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return False
        self.killed += number == signal.SIGKILL
        return True

    def tell(self):
        """What a person needs to know when a test fails."""
        events = "\n".join(map(json.dumps, self.events()[-30:]))
        return f"{self.output}\n{self.stdout[-1500:]}\n{self.stderr[-3000:]}\n{events}"


class ElasticTest(LauncherTest):
    weights_of = {}  # by command: what an undisturbed run ends with

    def setUp(self):
        super().setUp()
        self.slow = self.folder / "slow"
        self.jobs = []

    def tearDown(self):
        for job in self.jobs:
            if job.runs():
                job.process.kill()
                job.process.wait()
        self.assert_nothing_left()

    def start_job(self, *program, workers="2:4", restarts=1000, options=(), env=None, where=()):
        """Starts `program` as an elastic job. elastic_program pauses between steps while self.slow exists."""
        if program[0] == PROGRAM:
            program = [*program, "--slow", self.slow]
        job = Job(self.folder, len(self.jobs), ["-n", workers, "--elastic", "--max-restarts", restarts, *options],
                  program, self.environment(**(env or {})), where)
        self.jobs.append(job)
        return job

    def wait(self, job, condition, what):
        """Until condition() is true; fails when the job ends before."""
        limit = time.monotonic() + PATIENCE
        while not (value := condition()):
            if not job.runs() or time.monotonic() > limit:
                if value := condition():
                    break
                self.fail(f"{'waited in vain for' if job.runs() else 'the job ended before'} {what}\n{job.tell()}")
            time.sleep(0.01)
        return value

    def wait_for_steps(self, job, more=1):
        """Until so many more steps are made than now."""
        goal = job.step() + more
        self.wait(job, lambda: job.step() >= goal, f"step {goal}")

    def wait_for_size(self, job, size):
        """Until a view of that size trains."""
        self.wait(job, lambda: job.trains(size), f"a view of {size} workers")

    def finish_job(self, job, code=0):
        self.slow.unlink(missing_ok=True)
        try:
            job.process.wait(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            told = job.tell()
            job.process.kill()
            job.process.wait()
            self.fail(f"the job hangs\n{told}")
        self.assertEqual(job.process.returncode, code, job.tell())
        self.assert_nothing_left()

    def expected_weights(self, *program):
        """Of the same program in one process, undisturbed."""
        key = tuple(map(str, program))
        if key not in self.weights_of:
            done = subprocess.run(key, capture_output=True, text=True, timeout=PATIENCE, cwd=self.folder,
                                  env=self.environment())
            self.assertEqual(done.returncode, 0, done.stderr)
            self.weights_of[key] = self.find_weights(done.stdout)
        return self.weights_of[key]

    def find_weights(self, text):
        found = find_weights(text)
        self.assertEqual(len(found), 1, text[-3000:])
        return found.pop()

    def cohort(self, *words):
        return subprocess.run([COHORT, *map(str, words)], capture_output=True, text=True, timeout=PATIENCE,
                              cwd=self.folder, env=self.environment())

    def check_result(self, job, *program):
        """The weights are those of an undisturbed run, and every sample was used exactly once."""
        self.finish_job(job)
        self.assertEqual(self.find_weights(job.stdout), self.expected_weights(*program), job.tell())
        proven = self.check_ledger(job)
        if "--steps" in program:
            self.assertEqual(sum(epoch["steps"] for epoch in proven["epochs"]), program[program.index("--steps") + 1])
        return proven

    def check_ledger(self, job):
        """Returns what the ledger proves."""
        verified = self.cohort("ledger", "verify", job.output, "--json")
        self.assertEqual(verified.returncode, 0, verified.stdout + verified.stderr + job.tell())
        return json.loads(verified.stdout)
