"""examples/elastic_loop as a person starts it: alone, in a fixed job, and with workers that are killed."""

import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "launcher"))
from launcher import BIN, PATIENCE, LauncherTest  # noqa: E402

PROGRAM = str(BIN / "elastic_loop")
DATA = pathlib.Path("/usr/share/datasets/fashion-mnist")
PLACE = re.compile(r"(worker/\d+) (begins at|commits|is done after) step (\d+) with (\d+) workers, "
                   r"parameters ([0-9a-f]{16})")
EPOCH = re.compile(r"epoch (\d+): \d+ steps, loss [\d.]+, each sample once: (yes|no)")


@unittest.skipUnless(DATA.exists(), "Fashion-MNIST is not installed: scripts/get-data")
class OwnLoop(LauncherTest):
    def logs(self):
        return "".join(path.read_text() for path in sorted((self.output / "logs").glob("worker-*.log")))

    def places(self):
        return [(task, what, int(step), int(workers), bits)
                for task, what, step, workers, bits in PLACE.findall(self.logs())]

    def pid_of(self, task):
        """The process that is this worker now, by its environment."""
        for pid in self.processes():
            try:
                variables = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                program = os.readlink(f"/proc/{pid}/exe")
            except OSError:
                continue
            if program == PROGRAM and f"COHORT_TASK_INDEX={task.split('/')[1]}".encode() in variables:
                return pid
        return None

    def last_step(self):
        return max((step for _, what, step, _, _ in self.places() if what == "commits"), default=0)

    def times_with_three(self):
        return sum(what == "begins at" and workers == 3 for _, what, _, workers, _ in self.places())

    def wait_for_step(self, step):
        self.wait_for(lambda: self.last_step() >= step, f"step {step}")

    def expect_exact(self, epochs, least_done):
        """Each sample once an epoch; every view began with the bits of a commit; all end alike."""
        tallies = EPOCH.findall(self.logs())
        text = "\n".join(line for line in self.logs().splitlines() if " commits step " not in line)
        self.assertEqual({int(epoch) for epoch, _ in tallies}, set(range(1, epochs + 1)), text)
        self.assertEqual({once for _, once in tallies}, {"yes"}, text)
        places = self.places()
        # What counts is what a worker has gone on from, or the last that was said of a step.
        begun = {}
        for task, what, step, workers, bits in places:
            if what == "begins at" and step > 0:
                self.assertEqual(begun.setdefault((step, workers), bits), bits, text)
                commits = {b for _, w, s, _, b in places if w == "commits" and s == step}
                self.assertIn(bits, commits, f"{task} began at step {step} with what no worker committed\n{text}")
        done = [(step, bits) for _, what, step, _, bits in places if what == "is done after"]
        self.assertGreaterEqual(len(done), least_done, text)
        self.assertEqual(len(set(done)), 1, text)
        final = {bits for _, what, step, _, bits in places if what == "commits" and step == done[0][0]}
        self.assertIn(done[0][1], final, text)

    def test_alone_and_in_a_fixed_job(self):
        result = subprocess.run([PROGRAM, "--samples=1000", "--epochs=1"], capture_output=True, text=True,
                                timeout=PATIENCE, env=self.environment(), check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(EPOCH.findall(result.stdout), [("1", "yes")])
        job = self.run_job("-n", 2, "--", PROGRAM, "--samples", 1000, "--epochs", 2, "--log_commits")
        self.assertEqual(job.code, 0, job.stderr)
        self.expect_exact(epochs=2, least_done=2)

    def test_a_killed_worker_costs_no_sample_and_comes_again(self):
        process = self.start("-n", "2:3", "--elastic", "--", PROGRAM, "--samples", 3000, "--epochs", 2,
                             "--batch_size", 75, "--step_ms", 40, "--log_commits")
        self.wait_for_step(5)
        os.kill(self.pid_of("worker/1"), signal.SIGKILL)
        result = self.finish(process)
        self.assertEqual(result.code, 0, result.stderr)
        self.expect_exact(epochs=2, least_done=3)
        sizes = {workers for _, what, _, workers, _ in self.places() if what == "begins at"}
        self.assertEqual(sizes, {2, 3}, "the others went on with two, then with three")

    def test_many_kills_also_of_the_first_worker(self):
        random.seed(4)
        process = self.start("-n", "1:3", "--elastic", "--max-restarts", 20, "--", PROGRAM, "--samples",
                             6000, "--epochs", 3, "--batch_size", 75, "--step_ms", 30,
                             "--commit_every", 2, "--log_commits")
        # The second of a pair dies while the others are still busy with the first.
        kills = 0
        for first, second in ((0, 1), (1, 2), (2, 0)):
            self.wait_for_step(4)
            begun = self.times_with_three()
            for index in (first, second):
                pid = self.pid_of(f"worker/{index}")
                if pid and process.poll() is None:
                    os.kill(pid, signal.SIGKILL)
                    kills += 1
                time.sleep(random.uniform(0.02, 0.4))
            self.wait_for(lambda: process.poll() is not None or self.times_with_three() >= begun + 3,
                          "three workers again")
        result = self.finish(process)
        self.assertEqual(result.code, 0, result.stderr)
        self.assertGreaterEqual(kills, 4)
        self.expect_exact(epochs=3, least_done=1)


if __name__ == "__main__":
    unittest.main()
