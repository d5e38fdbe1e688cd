"""Kills, stops and starves the tasks of parameter-server jobs, and compares with undisturbed runs.

The program is tests/ps/ps_program.cpp. COHORT_KILLS=100 kills that many tasks in each of the kill
tests (as `make test-soak` does); 10 without."""

import json
import os
import pathlib
import random
import re
import signal
import sys
import time
import unittest
from datetime import datetime

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "launcher"))
from launcher import BIN, LauncherTest  # noqa: E402

PROGRAM = str(BIN.parent / "tests" / "ps_program")
KILLS = int(os.environ.get("COHORT_KILLS", "10"))
WORKERS = 2
# A task that dies five times in a row within a second of its start is in a crash loop to the
# launcher: the tests kill only those that have run for longer.
LEAST_AGE = 1.05
STEPS = 1500 if KILLS > 40 else 600  # enough that the kills come before the end
SEED = int(os.environ.get("SEED", "7"))


class FaultTest(LauncherTest):
    def setUp(self):
        super().setUp()
        self.random = random.Random(SEED)
        self.acks = self.folder / "acks"
        self.acks.mkdir()

    def words(self, *options, workers=WORKERS, ps=2):
        return ["-n", workers, "--ps", ps, "--task-restarts", 10000, "-q", "--", PROGRAM,
                "--acks", self.acks, *options]

    def values(self, result):
        self.assertEqual(result.code, 0, result.stderr[-3000:])
        digests = set(re.findall(rb"values ([0-9a-f]{64})", result.stdout))
        self.assertEqual(len(digests), 1, result.stdout[-2000:])
        return digests.pop()

    def pids(self, kinds):
        """The running tasks of these kinds, as job.json has them."""
        try:
            tasks = self.result_so_far()["tasks"]
        except (OSError, ValueError, KeyError):
            return {}
        running = [task for task in tasks if task["type"] in kinds and task["state"] == "running"]
        return {f'{task["type"]}/{task["index"]}': task["pid"] for task in running
                if time.time() - datetime.fromisoformat(task["started"]).timestamp() > LEAST_AGE}

    def wait_for_pid(self, task):
        deadline = time.monotonic() + 30
        while task not in (found := self.pids(("worker",))) and time.monotonic() < deadline:
            time.sleep(0.02)
        return found[task]

    def result_so_far(self):
        return json.loads((self.output / "job.json").read_text())

    def acknowledged(self, worker):
        path = self.acks / f"worker-{worker}"
        return [int(line) for line in path.read_text().split()] if path.exists() else []

    def steps_done(self):
        return min((max(self.acknowledged(w), default=0) for w in range(WORKERS)), default=0)

    def kill_at_random(self, job, kinds, kills, one_server_at_a_time=False):
        """Kills until `kills` tasks are dead or the job has ended; returns how many were."""
        done, whole_at = 0, 0
        while done < kills and job.poll() is None:
            time.sleep(self.random.uniform(0.0, 0.04))
            victims = self.pids(kinds)
            # An acknowledged step means that every server and its copy are there again.
            if one_server_at_a_time and self.steps_done() < whole_at:
                victims = {task: pid for task, pid in victims.items() if task.startswith("worker")}
            if not victims:
                continue
            task = self.random.choice(sorted(victims))
            try:
                os.kill(victims[task], signal.SIGKILL)
                done += 1
                if task.startswith("ps"):
                    whole_at = self.steps_done() + 2
            except ProcessLookupError:
                pass
        return done

    def disturbed(self, *options, kinds, kills=KILLS):
        slow = self.folder / "slow"
        slow.touch()
        job = self.start(*self.words("--pause", 15, "--slow", slow, *options))
        killed = self.kill_at_random(job, kinds, kills, one_server_at_a_time="replica" in options)
        slow.unlink()
        result = self.finish(job)
        self.assertGreaterEqual(killed, kills, "the job was over before enough tasks were killed: "
                                f"exit {result.code}, {result.stderr[-3000:]}")
        return result

    def undisturbed(self, *options):
        expected = self.values(self.run_job(*self.words(*options)))
        for file in self.acks.iterdir():
            file.unlink()
        self.output = self.folder / "disturbed"
        return expected

    def check_sync(self, durability, *options, kills=KILLS):
        options = ("--steps", STEPS, "--elements", 20000, "--durability", durability, *options)
        expected = self.undisturbed(*options)
        result = self.disturbed(*options, kinds=("ps", "worker"), kills=kills)
        self.assertEqual(self.values(result), expected)
        for worker in range(WORKERS):
            acknowledged = self.acknowledged(worker)
            self.assertEqual(len(acknowledged), len(set(acknowledged)), "a step was made twice")
            self.assertEqual(max(acknowledged), STEPS)

    def check_counts(self, durability, *options, kills=KILLS):
        result = self.disturbed("--steps", STEPS, "--elements", 20000, "--durability", durability,
                                *options, kinds=("ps", "worker"), kills=kills)
        self.values(result)
        counts = re.search(rb"counts ([0-9 ]+)", result.stdout)[1].split()
        self.assertEqual([int(count) for count in counts], [STEPS] * WORKERS)

    def test_killed_tasks_change_no_bit_of_a_synchronous_training(self):
        self.check_sync("process")

    def test_a_worker_killed_at_the_very_end_changes_nothing(self):
        result = self.run_job(*self.words("--steps", 20, "--elements", 2000, "--die-at-the-end"))
        self.values(result)
        self.assertIn("when its work was done", result.stderr)

    def test_killed_tasks_change_no_bit_over_tcp(self):
        self.check_sync("process", "--tcp", kills=max(1, KILLS // 4))

    def test_killed_tasks_change_no_bit_with_replicas(self):
        self.check_sync("replica")

    def test_killed_tasks_change_no_bit_with_a_log_on_disk(self):
        self.check_sync("disk")

    def test_every_push_of_an_asynchronous_training_counts_once(self):
        self.check_counts("process", "--mode", "async")

    def test_every_asynchronous_push_counts_once_with_replicas(self):
        self.check_counts("replica", "--mode", "async", kills=max(1, KILLS // 2))

    def test_every_asynchronous_push_counts_once_with_a_log_on_disk(self):
        self.check_counts("disk", "--mode", "async", kills=max(1, KILLS // 2))

    def test_bounded_staleness_counts_every_push_once(self):
        self.check_counts("process", "--mode", "bounded", "--staleness", 2, kills=max(1, KILLS // 4))

    def test_without_durability_a_killed_server_is_the_root_cause(self):
        job = self.start(*self.words("--steps", 100000, "--durability", "none", "--pause", 2))
        while self.steps_done() < 2 and job.poll() is None:
            time.sleep(0.01)
        self.assertEqual(self.kill_at_random(job, ("ps",), 1), 1)
        result = self.finish(job)
        self.assertEqual(result.code, 128 + signal.SIGKILL)
        self.assertIn("ps/", result.last_line)
        self.assertIn("SIGKILL", result.last_line)

    def test_a_stopped_worker_does_not_stop_the_others_of_an_asynchronous_training(self):
        job = self.start(*self.words("--steps", 400, "--elements", 2000, "--mode", "async", "--pause", 2))
        while self.steps_done() < 2 and job.poll() is None:
            time.sleep(0.01)
        pid = self.wait_for_pid("worker/1")
        os.kill(pid, signal.SIGSTOP)
        stood = max(self.acknowledged(1))
        deadline = time.monotonic() + 30
        while max(self.acknowledged(0), default=0) < 400 and time.monotonic() < deadline:
            time.sleep(0.02)
        self.assertEqual(max(self.acknowledged(0)), 400)
        self.assertLess(max(self.acknowledged(1)), stood + 3)
        os.kill(pid, signal.SIGCONT)
        self.assertEqual(self.finish(job).code, 0)

    def test_backup_workers_cover_a_stopped_one(self):
        job = self.start(*self.words("--steps", 300, "--elements", 2000, "--aggregate", 2, "--pause", 2,
                                     workers=3))
        while self.steps_done() < 2 and job.poll() is None:
            time.sleep(0.01)
        pid = self.wait_for_pid("worker/2")
        os.kill(pid, signal.SIGSTOP)
        deadline = time.monotonic() + 30
        while self.steps_done() < 300 and time.monotonic() < deadline:
            time.sleep(0.02)
        self.assertEqual(self.steps_done(), 300)
        os.kill(pid, signal.SIGCONT)
        self.assertEqual(self.finish(job).code, 0)


if __name__ == "__main__":
    unittest.main()
