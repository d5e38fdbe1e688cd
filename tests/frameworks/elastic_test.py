"""Elastic scripts of Horovod's users, unchanged: a worker is killed on the way."""

import os
import re
import signal
import time
import unittest

from framework import HERE, FrameworkTest

PACKAGES = HERE.parents[1] / "python"


class HorovodElastic(FrameworkTest):
    def environment(self, **extra):
        path = f"{PACKAGES}:{PACKAGES / 'cohort-horovod'}"
        return super().environment(PYTHONPATH=path, PYTHONUNBUFFERED="1", TF_CPP_MIN_LOG_LEVEL="2", **extra)

    def lines(self, start):
        """The words name=value of the lines of all workers that start so."""
        logs = sorted((self.output / "logs").glob("worker-*.log"))
        text = "".join(path.read_text(errors="replace") for path in logs)
        return [dict(re.findall(r"(\w+)=(\S+)", line)) for line in text.splitlines() if line.startswith(start)]

    def wait_for_steps(self, size, after=0.0):
        def steps():
            return [line for line in self.lines("step") if int(line["size"]) == size and float(line["at"]) > after]
        return self.wait_for(lambda: len(steps()) >= 4 * size and steps(), f"steps of {size} workers")

    def survive_a_kill(self, script):
        enough = self.folder / "enough"
        process = self.start("-n", "1:2", "--elastic", *self.program(script, "--until", enough))
        steps = self.wait_for_steps(2)
        pids = {int(line["pid"]) for line in steps}
        killed = next(int(line["pid"]) for line in steps if line["rank"] == "0")
        when = time.time()
        os.kill(killed, signal.SIGKILL)
        alone = self.wait_for_steps(1, after=when)
        self.assertEqual({int(line["pid"]) for line in alone}, pids - {killed}, "the other keeps its process")
        stood_still = min(float(line["at"]) for line in alone) - when
        print(f"{script}: the next step {stood_still * 1000:.0f} ms after the kill")
        self.assertLess(stood_still, 1.0)
        self.wait_for_steps(2, after=when)
        enough.touch()
        result = self.finish(process)
        self.assertEqual(result.code, 0, result.stdout.decode(errors="replace")[-4000:] + result.stderr)
        done = self.lines("done")
        self.assertEqual(len(done), 2, result.stderr)
        self.assertEqual({line["equal"] for line in done}, {"True"})
        self.assertEqual(len({line["weights"] for line in done}), 1)

    def test_torch(self):
        self.survive_a_kill("horovod_torch_elastic.py")

    def test_tensorflow_with_a_gradient_tape(self):
        self.survive_a_kill("horovod_tf2_elastic.py")

    def test_keras_with_callbacks(self):
        self.survive_a_kill("horovod_keras_elastic.py")


if __name__ == "__main__":
    unittest.main()
