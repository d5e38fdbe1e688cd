"""Elastic training in Python as a person starts it: a worker is killed, workers go and come, and in a fixed job."""

import importlib.util
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import unittest

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS / "launcher"))
from launcher import COHORT, PATIENCE, PYTHON, LauncherTest  # noqa: E402

PACKAGES = TESTS.parent / "python"
SCRIPT = str(TESTS / "frameworks/scripts/horovod_torch_elastic.py")
SAMPLES = 960  # an epoch
UNDER_A_SECOND = 1.0


@unittest.skipUnless(importlib.util.find_spec("torch"), "this Python has no torch")
class ElasticTorch(LauncherTest):
    def environment(self, **extra):
        path = f"{PACKAGES}:{PACKAGES / 'cohort-horovod'}"
        return super().environment(PYTHONPATH=path, PYTHONDONTWRITEBYTECODE="1", **extra)

    def lines(self, start):
        """The words name=value of the lines of all workers that start so, in the order of each log."""
        text = "".join(path.read_text() for path in sorted((self.output / "logs").glob("worker-*.log")))
        return [dict(re.findall(r"(\w+)=(\S+)", line)) for line in text.splitlines() if line.startswith(start)]

    def steps(self, size, after=0.0):
        return [line for line in self.lines("step") if int(line["size"]) == size and float(line["at"]) > after]

    def wait_for_steps(self, size, after=0.0, count=4):
        return self.wait_for(lambda: len(self.steps(size, after)) >= size * count and self.steps(size, after),
                             f"steps of {size} workers")  # fmt: skip

    def start_training(self, workers):
        self.enough = self.folder / "enough"
        return self.start("-n", workers, "--elastic", "--", PYTHON, "-u", SCRIPT, "--until", self.enough)

    def expect_trained(self, process, workers):
        """The job ends well, with equal weights and every sample once an epoch. What the workers said at the end."""
        result = self.finish(process)
        self.assertEqual(result.code, 0, result.stdout.decode()[-4000:] + result.stderr)
        done = self.lines("done")
        self.assertEqual(len(done), workers, result.stderr)
        self.assertEqual({line["equal"] for line in done}, {"True"})
        self.assertEqual(len({line["weights"] for line in done}), 1)
        # The last report of an epoch counts: a loss while it was made has it made again.
        told = {int(line["number"]): line for line in self.lines("epoch")}
        self.assertEqual(sorted(told), list(range(len(told))))
        for line in told.values():
            self.assertEqual(line["least"], "1", line)
            # Samples that come twice fill up the last batch where the rest cannot be divided.
            self.assertLessEqual(int(line["samples"]) - SAMPLES, 3 * workers, line)
        return done

    def kill(self, steps, rank):
        """SIGKILL to the worker that has this rank. (its pid, when)"""
        pid = next(int(line["pid"]) for line in steps if int(line["rank"]) == rank)
        when = time.time()
        os.kill(pid, signal.SIGKILL)
        return pid, when

    def scale(self, workers):
        asked = time.time()
        scaled = subprocess.run([COHORT, "scale", str(self.output), str(workers)], capture_output=True, text=True,
                                timeout=PATIENCE, env=self.environment())  # fmt: skip
        self.assertEqual(scaled.returncode, 0, scaled.stderr)
        self.wait_for_steps(workers, after=asked)

    def kill_and_go_on(self, size, rank, when):
        """Kills one of `size` workers; the others go on, in the same processes, in under a second."""
        steps = self.wait_for_steps(size, after=when, count=2)
        before = {int(line["pid"]) for line in steps}
        killed, when = self.kill(steps, rank)
        survivors = self.wait_for_steps(size - 1, after=when, count=2)
        self.assertEqual({int(line["pid"]) for line in survivors}, before - {killed})
        stood_still = min(float(line["at"]) for line in survivors) - when
        print(f"rank {rank} of {size} was killed: the next step after {stood_still * 1000:.0f} ms")
        self.assertLess(stood_still, UNDER_A_SECOND)
        return when

    def test_killed_workers_cost_the_others_under_a_second_and_all_changes_keep_the_state(self):
        process = self.start_training("1:3")
        when = self.kill_and_go_on(3, 1, 0.0)
        self.kill_and_go_on(2, 0, when)
        self.wait_for_steps(3, after=time.time())
        planned = time.time()
        self.scale(1)
        self.scale(2)
        self.enough.touch()
        self.expect_trained(process, 2)
        # No step was done twice: planned changes wait for a commit.
        for pid in {line["pid"] for line in self.lines("step")}:
            numbers = [int(line["number"]) for line in self.lines("step")
                       if line["pid"] == pid and float(line["at"]) > planned]  # fmt: skip
            self.assertEqual(numbers, sorted(set(numbers)))

    def test_in_a_fixed_job_a_lost_peer_ends_it(self):
        process = self.start("-n", 2, "--", PYTHON, "-u", SCRIPT, "--epochs", 1000)
        self.kill(self.wait_for_steps(2), 1)
        result = self.finish(process)
        self.assertEqual(result.code, 128 + signal.SIGKILL, result.stderr)
        self.assertRegex(result.last_line, r"worker/1 .*SIGKILL")


if __name__ == "__main__":
    unittest.main()
