"""Jobs on a real Slurm: `cohort serve` with the engine slurm, `cohort run --slurm`, and srun alone. One cluster for all."""

import functools
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import slurm_cluster
from api_service import BIN, COHORT, ENDED, Service
from slurm_cluster import run

MEMBER, RANK = sys.argv[1:3]  # member_program, collective_rank

# A step is added to what the checkpoint holds; the weights do not depend on how often it was started.
TRAIN = """
import hashlib, os, pathlib, time
output = pathlib.Path(os.environ["COHORT_OUTPUT"])
rank = int(os.environ["RANK"])
checkpoint = output / f"checkpoint-{rank}"
with open(output / f"starts-{rank}", "a") as starts:
    starts.write(os.environ.get("COHORT_RESUME", "0") + "\\n")
step, weights = 0, b"0"
if os.environ.get("COHORT_RESUME") == "1" and checkpoint.exists():
    number, _, text = checkpoint.read_text().partition(" ")
    step, weights = int(number), bytes.fromhex(text)
while step < 20:
    if step == 10 and not (output / "go").exists():
        time.sleep(0.05)
        continue
    step, weights = step + 1, hashlib.sha256(weights + bytes([step])).digest()
    part = output / f"part-{rank}"
    part.write_text(f"{step} {weights.hex()}")
    part.rename(checkpoint)
print("weights", weights.hex())
"""


def digests(text):
    """What the ranks have printed of their results."""
    found = sorted(re.findall(r"digest \S+", text))
    assert len(found) == 3, text
    return found


class SlurmTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="cohort-slurm-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.cluster = slurm_cluster.Cluster(cls.folder)
        cls.addClassCleanup(cls.cluster.close)
        cls.service = Service(cls.folder / "home")
        cls.addClassCleanup(lambda: cls.end_service())  # the last of them
        (cls.folder / "train.py").write_text(TRAIN)

    @classmethod
    def end_service(cls):
        cls.service.stop()
        cls.service.process.stderr.close()

    # ---- Small helpers ----

    def submit(self, *program, **fields):
        return self.service.submit(list(map(str, program)), engine="slurm", **fields)

    def shell(self, script, **fields):
        return self.submit("sh", "-c", script, **fields)

    def attempt(self, job, number=1):
        return self.folder / "home/jobs" / job / "attempts" / str(number)

    def log(self, job, task="worker:0"):
        name = task.replace(":", "-")
        return "".join(path.read_text() for path in sorted(self.attempt(job).rglob(f"*{name}*.log")))

    def wait(self, condition, what):
        limit = time.monotonic() + 60
        while not (found := condition()):
            if time.monotonic() > limit:
                raise AssertionError(f"waited in vain for {what}\n{self.said()}")
            time.sleep(0.05)
        return found

    def said(self):
        logs = sorted((self.folder / "home/jobs").rglob("supervisor.log"), key=lambda path: path.stat().st_mtime)
        return "".join(path.read_text(errors="replace")[-3000:] for path in logs[-1:]) + run("squeue", "-t", "all")

    def end_of(self, job, state):
        def ended():
            found = self.service.job(job)
            return found if found["state"] in ENDED else None

        found = self.wait(ended, f"the end of {job}")
        self.assertEqual(found["state"], state, f"{found}\n{self.said()}")
        return found

    def slurm_id(self, job):
        return self.wait(lambda: (self.attempt(job) / "slurm-job").exists() and
                         (self.attempt(job) / "slurm-job").read_text().strip(), "the id of Slurm")

    @staticmethod
    @functools.lru_cache
    def digests_of_one_machine():
        with tempfile.TemporaryDirectory() as folder:
            return digests(run(COHORT, "run", "-n", "3", "--output", folder + "/run", "--", RANK, "world", "digest"))

    def lose_node(self, node):
        self.addCleanup(self.cluster.mend)
        self.cluster.kill(f"slurmd-{node}")
        run("scontrol", "update", f"nodename={node}", "state=down", "reason=test")

    def weights(self, steps=20):
        weights = b"0"
        for step in range(steps):
            weights = hashlib.sha256(weights + bytes([step])).digest()
        return weights.hex()

    # ---- Jobs that come to their end ----

    def test_three_nodes_give_the_bits_of_one_machine(self):
        job = self.submit(RANK, "world", "digest", instance_count=3, engine_options=["--nodes=3"])
        self.end_of(job, "succeeded")
        self.assertEqual(digests(self.log(job, "worker")), self.digests_of_one_machine())
        record = json.loads((self.attempt(job) / "run/job.json").read_text())
        self.assertEqual([task["host"] for task in record["tasks"]], ["n1", "n2", "n3"])

    def test_the_task_that_failed_is_the_root_cause(self):
        job = self.shell('[ "$RANK" = 1 ] || exec sleep 60; echo no such data >&2; exit 3', instance_count=2,
                         engine_options=["--nodes=2"])
        found = self.end_of(job, "failed")
        self.assertIn("worker/1", found["reason"])
        self.assertIn("no such data", found["reason"])
        self.assertEqual(found["exit_code"], 3)

    def test_mpirun_starts_its_ranks_on_the_nodes(self):
        if not shutil.which("mpirun"):
            self.skipTest("no mpirun")
        job = self.shell("echo rank $OMPI_COMM_WORLD_RANK on $SLURMD_NODENAME; exec sleep 0.2", instance_count=3,
                         engine_options=["--nodes=3"], distributions={"mpi": {"enabled": True}})
        self.end_of(job, "succeeded")
        for rank in range(3):
            self.assertIn(f"rank {rank} on n{rank + 1}", self.log(job, f"rank:{rank}"))

    def test_a_service_that_is_killed_finds_its_job_again(self):
        cls = type(self)
        job = self.shell('echo run >> "$COHORT_OUTPUT/runs"; while [ ! -e "$COHORT_OUTPUT/go" ]; do sleep 0.1; done')
        self.slurm_id(job)
        self.service.process.send_signal(signal.SIGKILL)
        self.end_service()
        cls.service = Service(self.folder / "home")
        self.service.wait_until(job, {"running"})
        output = self.folder / "home/jobs" / job / "output"
        (output / "go").touch()
        self.end_of(job, "succeeded")
        self.assertEqual((output / "runs").read_text(), "run\n")

    # ---- Jobs that a person ends ----

    def test_stop_ends_the_job_and_leaves_nothing_in_slurm(self):
        job = self.shell("trap 'echo got TERM; exit 0' TERM; echo ready; while :; do sleep 0.1; done")
        self.wait(lambda: "ready" in self.log(job), "the job to begin")
        self.service.call("POST", f"/v1/jobs/{job}/stop")
        self.end_of(job, "stopped")
        self.assertIn("got TERM", self.log(job))
        self.wait(lambda: self.slurm_id(job) not in self.cluster.jobs(), "Slurm to forget it")

    def test_scancel_by_hand_is_told(self):
        job = self.shell("echo ready; exec sleep 60")
        self.wait(lambda: "ready" in self.log(job), "the job to begin")
        run("scancel", self.slurm_id(job))
        self.assertIn("was cancelled in Slurm, not by Cohort", self.end_of(job, "stopped")["reason"])

    def test_a_job_that_waits_says_why_and_can_be_stopped(self):
        job = self.shell("true", engine_options=["--begin=now+1hour"])
        self.wait(lambda: self.service.job(job)["reason"].endswith("waits: BeginTime"), "the reason")
        self.assertEqual(self.service.job(job)["state"], "starting")
        self.service.call("POST", f"/v1/jobs/{job}/stop")
        self.end_of(job, "stopped")

    def test_what_sbatch_refuses_is_said_in_a_sentence(self):
        large = self.shell("true", queue="small", instance_count=2, engine_options=["--nodes=2"])
        strange = self.shell("true", queue="members")
        self.assertIn("Slurm refuses the job: sbatch: error:", self.end_of(large, "failed")["reason"])
        self.assertIn("account", self.end_of(strange, "failed")["reason"])
        answer = self.service.call("POST", "/v1/jobs", {"spec": {
            "program": ["true"], "engine": "slurm", "engine_options": ["--array=1-3"]}})
        self.assertEqual(answer.status, 400)
        self.assertIn("--array", answer.body.decode())

    # ---- Jobs that lose something ----

    def start_training(self, **fields):
        job = self.submit(sys.executable, self.folder / "train.py", instance_count=2, **fields)
        output = self.folder / "home/jobs" / job / "output"
        self.wait(lambda: all((output / f"checkpoint-{rank}").exists() and
                              (output / f"checkpoint-{rank}").read_text().startswith("10 ") for rank in (0, 1)),
                  "the checkpoints")
        return job, output

    def goes_on(self, job, output):
        (output / "go").touch()
        self.end_of(job, "succeeded")
        for rank in (0, 1):
            self.assertIn(f"weights {self.weights()}", self.log(job, f"worker:{rank}"))
            starts = (output / f"starts-{rank}").read_text()
            self.assertTrue(starts.startswith("0\n") and starts.endswith("1\n"), starts)

    def test_a_preempted_job_goes_on_from_its_checkpoint(self):
        job, output = self.start_training(engine_options=["--nodes=2", "--exclusive"])
        (self.folder / "urgent.sh").write_text("#!/bin/sh\nsleep 1\n")
        run("sbatch", "-p", "urgent", "-N", "3", "--exclusive", "-o", "/dev/null", str(self.folder / "urgent.sh"))
        self.wait(lambda: "waits to go on from its checkpoint" in self.service.job(job)["reason"], "the preemption")
        self.goes_on(job, output)

    def test_a_job_whose_node_failed_goes_on_elsewhere(self):
        job, output = self.start_training(engine_options=["--nodes=2"])
        self.lose_node(json.loads((self.attempt(job) / "run/job.json").read_text())["tasks"][1]["host"])
        self.goes_on(job, output)

    def test_an_elastic_job_goes_on_without_a_lost_node(self):
        until = self.folder / "until"
        job = self.submit(MEMBER, "--until", until, elastic={"min": 1, "max": 3}, engine_options=["--nodes=3"])
        record = self.attempt(job) / "run/job.json"

        def members(count):
            if not record.exists():
                return False
            elastic = json.loads(record.read_text()).get("elastic") or {}
            return sum(member.get("in_view", False) for member in elastic.get("members", [])) == count

        self.wait(lambda: members(3), "three members")
        self.lose_node("n3")
        self.wait(lambda: members(2), "two members")
        until.touch()
        self.end_of(job, "succeeded")

    def test_a_controller_that_is_away_loses_no_job(self):
        job = self.shell('echo ready; while [ ! -e "$COHORT_OUTPUT/go" ]; do sleep 0.1; done')
        self.wait(lambda: "ready" in self.log(job), "the job to begin")
        self.cluster.stop_controller()
        self.addCleanup(self.cluster.start_controller)
        self.wait(lambda: any("Slurm does not answer" in line for line in self.service.errors), "the service to see it")
        self.assertEqual(self.service.job(job)["state"], "running")
        later = self.shell("true")
        self.cluster.start_controller()
        self.cluster.wait_for(lambda: len(self.cluster.nodes()) == 3, "the controller")
        (self.folder / "home/jobs" / job / "output/go").touch()
        self.end_of(job, "succeeded")
        self.end_of(later, "succeeded")

    # ---- Without a service ----

    def test_a_printed_script_runs_by_hand(self):
        script = self.folder / "by-hand.sh"
        script.write_text(run(COHORT, "submit", "--print", "slurm", "-n", "3", "--engine-option=--nodes=3", "--",
                              RANK, "world", "digest"))
        out = self.folder / "by-hand.out"
        run("sbatch", "--wait", f"--output={out}", str(script), cwd=self.folder,
            env={**os.environ, "PATH": f"{BIN}:/usr/bin:/bin"})
        self.assertEqual(digests(out.read_text()), self.digests_of_one_machine())

    def test_each_element_of_an_array_has_a_state_a_log_and_a_cause_of_its_own(self):
        script = ('echo element $SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_TASK_COUNT; '
                  '[ "$COHORT_ARRAY_INDEX" != 3 ] || { echo no such data >&2; exit 4; }')
        jobs = run(COHORT, "submit", "--engine", "slurm", "--name", "sweep", "--array", "1,3,5", "--", "sh", "-c", script,
                   env={**os.environ, "COHORT_SERVICE": f"unix:{self.service.socket}"}).split()
        self.assertEqual(len(jobs), 3)
        for job, index, state in zip(jobs, (1, 3, 5), ("succeeded", "failed", "succeeded")):
            found = self.end_of(job, state)
            self.assertEqual((found["name"], found["tags"]["array_index"]), (f"sweep-{index}", str(index)))
            self.assertIn(f"element {index} of 3\n", self.log(job))
        self.assertIn("no such data", self.service.job(jobs[1])["reason"])
        self.assertEqual(len({self.slurm_id(job) for job in jobs}), 3)

    def test_a_printed_array_runs_by_hand(self):
        script = self.folder / "array.sh"
        script.write_text(run(COHORT, "submit", "--print", "slurm", "--array", "0-1%1", "--", "sh", "-c",
                              "echo element $SLURM_ARRAY_TASK_ID"))
        run("sbatch", "--wait", f"--output={self.folder}/array-%a.out", str(script), cwd=self.folder,
            env={**os.environ, "PATH": f"{BIN}:/usr/bin:/bin"})
        for index in range(2):
            self.assertIn(f"element {index}\n", (self.folder / f"array-{index}.out").read_text())

    def test_tasks_of_srun_alone_meet_across_nodes(self):
        said = run("srun", "-N", "3", "-n", "3", RANK, "world", "digest",
                   env={**os.environ, "HOME": str(self.folder), "COHORT_MEET": ""})
        self.assertEqual(digests(said), self.digests_of_one_machine())

    def test_doctor_says_what_there_is(self):
        said = run(COHORT, "doctor", "--engine", "slurm")
        self.assertIn("The engine is ready", said)
        self.assertIn("main (3 nodes)", said)


if __name__ == "__main__":
    slurm_cluster.enter()
    del sys.argv[1:3]
    unittest.main(verbosity=2)
