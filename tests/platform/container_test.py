"""Jobs with an image: a real podman runs their tasks in containers (containers.py), and leaves none behind."""

import hashlib
import io
import os
import pathlib
import shutil
import signal
import tarfile
import tempfile
import time
import unittest

from api_service import BIN, PATIENCE, ServiceTest
from containers import IMAGE, Podman

MEMBER = str(BIN.parent / "tests" / "member_program")
# What a task sees. Servers go on until they are ended.
LOOK = """
echo role $COHORT_TASK_TYPE $COHORT_TASK_INDEX of $SM_CURRENT_HOST, user $(id -u), in $(pwd)
echo has $TOKEN and $(cat $SM_CHANNEL_TRAINING/data.txt) and "$LINES"
[ -z "$TF_CONFIG" ] || echo tf-config-is-there
touch $COHORT_OUTPUT/$COHORT_TASK_TYPE-$COHORT_TASK_INDEX $SM_MODEL_DIR/model
touch x 2>/dev/null || echo code-is-read-only
touch $SM_CHANNEL_TRAINING/x 2>/dev/null || echo data-are-read-only
while [ $COHORT_TASK_TYPE = ps ]; do sleep 0.1; done
"""


class Containers(ServiceTest):
    @classmethod
    def setUpClass(cls):
        cls.storage = pathlib.Path(tempfile.mkdtemp(prefix="cohort-podman-"))
        cls.addClassCleanup(shutil.rmtree, cls.storage, ignore_errors=True)
        cls.podman = Podman(cls.storage / "podman", [MEMBER])
        cls.addClassCleanup(cls.podman.remove)
        if cls.podman.lacks:
            raise unittest.SkipTest(cls.podman.lacks)

    def setUp(self):
        super().setUp()
        self.mark = self.folder.name.removeprefix("cohort-api-") + "-mark"  # other tests run at the same time
        self.service = self.serve("--cores", 4, env={"COHORT_CONTAINER_TOOL": self.podman.tool})

    def submit(self, program, **fields):
        return self.service.submit(program, **{"name": "boxed", "cores": 1, "image": IMAGE, "max_run": PATIENCE, **fields})

    def source(self, files):
        """Packs and uploads; the id."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz", format=tarfile.USTAR_FORMAT) as tar:
            for name, text in files.items():
                entry = tarfile.TarInfo(name)
                entry.size, entry.mode = len(text.encode()), 0o644
                tar.addfile(entry, io.BytesIO(text.encode()))
        name = hashlib.sha256(packed.getvalue()).hexdigest()
        answer = self.service.call("PUT", f"/v1/sources/{name}", packed.getvalue())
        self.assertEqual(answer.status, 201, answer.body)
        return name

    def log(self, job, task):
        return self.service.call("GET", f"/v1/jobs/{job}/logs?task={task}", headers={"Accept": "text/plain"}).body.decode()

    def wait_for_log(self, job, task, text):
        self.wait(lambda: text in self.log(job, task), lambda: f"no '{text}' of {task}: {self.log(job, task)}")

    def wait(self, happened, tell):
        limit = time.monotonic() + PATIENCE
        while not happened():
            self.assertLess(time.monotonic(), limit, tell())
            time.sleep(0.05)

    def assert_nothing_left(self):
        """Neither a container nor a process whose command line has the mark."""
        self.wait(lambda: not self.podman.containers(), lambda: f"containers are left: {self.podman.containers()}")
        self.assertEqual(commands_with(self.mark), [])

    def test_every_task_runs_the_same_command_in_the_image(self):
        data = self.folder / "data"
        data.mkdir()
        (data / "data.txt").write_text("42")
        job = self.submit(["sh", "look.sh", self.mark], source=self.source({"look.sh": LOOK}), instance_count=2,
                          distributions={"parameter_server": {"enabled": True}}, inputs={"training": str(data)},
                          env={"TOKEN": "hidden-word", "LINES": "two\nlines"})  # fmt: skip
        self.wait_for_log(job, "ps:0", "data-are-read-only")
        self.assertEqual(commands_with("hidden-word"), [])
        self.service.wait_until(job, {"succeeded"})
        for task, role in (("master:0", "master 0 of algo-1"), ("worker:0", "worker 0 of algo-2"), ("ps:1", "ps 1 of algo-2")):
            said = self.log(job, task)
            self.assertIn(f"role {role}, user {os.getuid()}, in /data/code\n", said)
            self.assertIn("has hidden-word and 42 and two\nlines\n", said)
            for line in ("tf-config-is-there", "code-is-read-only", "data-are-read-only"):
                self.assertIn(line, said)
        output = self.root / "jobs" / job / "output"
        self.assertLessEqual({"master-0", "worker-0", "ps-0", "ps-1"}, {path.name for path in output.iterdir()})
        self.assert_nothing_left()

    def test_a_failure_is_the_programs(self):
        job = self.submit(["sh", "-c", "echo ValueError: no data >&2; exit 7", self.mark])
        found = self.service.wait_until(job, {"failed"})
        self.assertEqual(found["exit_code"], 7)
        self.assertIn("ValueError: no data", found["reason"])
        job = self.submit(["no-such-program"])
        self.assertIn("no-such-program", self.service.wait_until(job, {"failed"})["reason"])
        self.assert_nothing_left()

    def test_an_image_that_is_not_here_is_said_before_anything_starts(self):
        spec = {"name": "boxed", "program": ["true"], "image": "localhost/no-such-image"}
        answer = self.service.call("POST", "/v1/jobs", {"spec": spec})
        self.assertEqual(answer.status, 400, answer.body)
        self.assertIn("pull localhost/no-such-image", answer.json()["error"]["message"])

    def test_stopping_passes_term_on_and_kills_after_the_grace(self):
        gentle = self.submit(["sh", "-c", "trap 'echo in order; exit 0' TERM; echo ready; while :; do sleep 0.05; done", self.mark])
        stubborn = self.submit(["sh", "-c", "trap : TERM; echo ready; while :; do sleep 0.05; done", self.mark], grace=1)
        for job in (gentle, stubborn):
            self.wait_for_log(job, "worker:0", "ready")
            self.service.call("POST", f"/v1/jobs/{job}/stop")
        for job in (gentle, stubborn):
            self.service.wait_until(job, {"stopped"})
        self.assertIn("in order", self.log(gentle, "worker:0"))
        self.assert_nothing_left()

    def test_a_killed_launcher_leaves_no_container(self):
        job = self.submit(["sh", "-c", "echo ready; while :; do sleep 0.05; done", self.mark])
        self.wait_for_log(job, "worker:0", "ready")
        claim = (self.root / "jobs" / job / "attempts/1/claim").read_text()
        os.kill(int(claim.split()[2]), signal.SIGKILL)
        self.service.wait_until(job, {"failed"})
        self.wait(lambda: not commands_with(self.mark), lambda: f"they run on: {commands_with(self.mark)}")
        self.assert_nothing_left()

    def test_programs_of_cohort_find_each_other_and_outlive_a_member(self):
        over = f"/data/output/{self.mark}"
        job = self.submit(["member_program", "--until", over, "--stage-ms", "5"], elastic={"min": 2, "max": 3})
        self.wait(lambda: len(self.members()) == 3, lambda: f"not 3 members: {self.members()} {self.log(job, 'worker:0')}")
        self.service.wait_until(job, {"running"})
        before = set(self.members())
        os.kill(min(before), signal.SIGKILL)
        self.wait(lambda: len(self.members()) == 3 and set(self.members()) != before, lambda: f"no successor: {self.members()}")
        (self.root / "jobs" / job / "output" / self.mark).touch()
        self.service.wait_until(job, {"succeeded"})
        self.assert_nothing_left()

    def members(self):
        """Processes of members, as the host sees them: not the tool that started each."""
        return [int(line.partition(":")[0]) for line in commands_with(self.mark)
                if not any(word in line for word in (" run --rm ", "exec-task", "conmon"))]  # fmt: skip

    @unittest.skipUnless(shutil.which("mpirun"), "Open MPI is not installed")
    def test_mpirun_starts_its_ranks_in_containers(self):
        words = "echo rank $OMPI_COMM_WORLD_RANK at ${SM_CURRENT_HOST}; ls -d $PMIX_SERVER_TMPDIR"
        job = self.submit(["sh", "-c", words, self.mark], instance_count=2, distributions={"mpi": {"enabled": True, "processes_per_host": 1}})
        self.service.wait_until(job, {"succeeded"})
        self.assertIn("rank 1 at algo-2\n", self.log(job, "rank:1"))
        self.assert_nothing_left()


def commands_with(mark):
    """Command lines of processes that have it, without this one's."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ")
        except (OSError, NotADirectoryError):
            continue
        if mark in words and entry.name.isdigit() and int(entry.name) != os.getpid():
            found.append(f"{entry.name}: {words}")
    return found


if __name__ == "__main__":
    unittest.main()
