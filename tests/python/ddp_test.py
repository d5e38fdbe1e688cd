"""DistributedDataParallel: the same bits at 1, 2, 3 and 4 workers, after a kill too; averages; the ledger."""

import os
import pathlib
import re
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "launcher")]

import needed_packages  # noqa: E402
from launcher import COHORT, PYTHON, LauncherTest  # noqa: E402

needed_packages.need("torch", "numpy")
PROGRAM = str(HERE / "ddp_program.py")


class Ddp(LauncherTest):
    def environment(self, **extra):
        return super().environment(
            PYTHONPATH=str(HERE.parents[1] / "python"),
            COHORT_BIN_DIR=str(pathlib.Path(COHORT).parent),
            OMP_NUM_THREADS="1",
            **extra,
        )

    def run_program(self, workers, *words):
        self.output = self.folder / f"out-{workers}"
        result = self.run_job("-n", workers, "--", PYTHON, PROGRAM, *words)
        self.assertEqual(result.code, 0, result.stderr + result.stdout.decode())
        return result

    def weights(self, text, workers):
        found = {}
        for name, value in re.findall(r"(\w+) weights (\w{64})", text):
            found.setdefault(name, []).append(value)
        self.assertEqual(
            {name: len(values) for name, values in found.items()}, {"mlp": workers, "conv": workers}, text
        )
        for name, values in found.items():
            self.assertEqual(len(set(values)), 1, f"the ranks differ in {name}: {values}")
        return {name: values[0] for name, values in found.items()}

    def test_same_bits_at_any_number_of_workers(self):
        alone = subprocess.run(
            [PYTHON, PROGRAM, "--shards", "12"],
            capture_output=True,
            text=True,
            timeout=120,
            env={**self.environment(), "OMP_NUM_THREADS": "2"},
        )
        self.assertEqual(alone.returncode, 0, alone.stderr)
        wanted = self.weights(alone.stdout, 1)
        print(f"one process: {wanted}", flush=True)
        for workers in (2, 3, 4):
            result = self.run_program(workers, "--shards", 12, "--ledger", *["--compare"] * (workers == 3))
            if workers == 3:  # without shards averages are those of one process, too
                self.assertEqual(result.stdout.count(b"gradients agree"), 3, result.stdout)
            self.assertEqual(self.weights(result.stdout.decode(), workers), wanted, f"{workers} workers")
            verified = subprocess.run([COHORT, "ledger", "verify", str(self.output)], capture_output=True, text=True)
            self.assertEqual(verified.returncode, 0, verified.stdout + verified.stderr)
            print(f"{workers} workers: the same; {verified.stdout.splitlines()[0]}", flush=True)

    def test_same_bits_after_a_kill(self):
        """One of three workers is killed a step after a commit; the others do that step again."""
        text = subprocess.run(
            [PYTHON, PROGRAM, "--shards", "12"], capture_output=True, text=True, timeout=120, env=self.environment()
        ).stdout
        result = self.run_job("-n", "2:3", "--elastic", "--", PYTHON, HERE / "ddp_elastic_program.py", 12)
        self.assertEqual(result.code, 0, result.stderr + result.stdout.decode())
        self.assertTrue((self.output / "killed").exists())
        weights = set(re.findall(r"conv weights (\w{64})", result.stdout.decode()))
        self.assertEqual(weights, set(re.findall(r"conv weights (\w{64})", text)), result.stdout.decode())
        verified = subprocess.run([COHORT, "ledger", "verify", str(self.output)], capture_output=True, text=True)
        self.assertEqual(verified.returncode, 0, verified.stdout + verified.stderr)
        print(f"after a kill: the same; {verified.stdout}", flush=True)


if __name__ == "__main__":
    unittest.main()
