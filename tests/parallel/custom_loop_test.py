"""examples/custom_loop as a person starts it: alone, mirrored, under the launcher."""

import pathlib
import re
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "launcher"))
from launcher import BIN, PATIENCE, LauncherTest  # noqa: E402

PROGRAM = str(BIN / "custom_loop")
DATA = pathlib.Path("/usr/share/datasets/fashion-mnist")
LINE = re.compile(r"epoch 1: (\d+) steps, (\d+) replicas, loss ([\d.]+), test accuracy ([\d.]+)")


class CustomLoop(LauncherTest):
    def run_alone(self, *words):
        return subprocess.run([PROGRAM, *words], capture_output=True, text=True, timeout=PATIENCE,
                              env=self.environment(), check=False)

    def expect_learned(self, output, replicas):
        match = LINE.search(output)
        self.assertTrue(match, output)
        self.assertEqual((int(match[1]), int(match[2])), (100, replicas))
        self.assertGreater(float(match[4]), 0.6)

    def test_help_lists_the_programs_flags_and_cohorts(self):
        result = self.run_alone("--help")
        self.assertEqual(result.returncode, 0, result.stderr)
        for flag in ("--batch_size", "--distribution_strategy", "--num_gpus"):
            self.assertIn(flag, result.stdout)

    @unittest.skipUnless(DATA.exists(), "Fashion-MNIST is not installed: scripts/get-data")
    def test_alone_and_mirrored(self):
        for words, replicas in (([], 1), (["--num_replicas=2"], 2)):
            with self.subTest(replicas=replicas):
                result = self.run_alone("--max_steps=100", *words)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.expect_learned(result.stdout, replicas)

    @unittest.skipUnless(DATA.exists(), "Fashion-MNIST is not installed: scripts/get-data")
    def test_two_workers(self):
        result = self.run_job("-n", 2, "--", PROGRAM, "--max_steps", 100)
        self.assertEqual(result.code, 0, result.stderr)
        self.expect_learned(result.stdout.decode(), 2)

    def test_unknown_flags_and_missing_data_are_refused(self):
        result = self.run_alone("--bach_size=3")
        self.assertEqual(result.returncode, 2)
        self.assertIn("bach_size", result.stderr)
        result = self.run_alone("--data_dir=/nowhere")
        self.assertEqual(result.returncode, 2)
        self.assertIn("/nowhere", result.stderr)


if __name__ == "__main__":
    unittest.main()
