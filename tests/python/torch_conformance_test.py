"""Horovod's API for torch at 1, 2, 3 and 4 ranks: the cases of torch_conformance/, one job a number of ranks.

Prints how many cases ran. At 4 ranks, which are two for each core of a small machine, the modules that depend on the
number of ranks most.
"""

import re
import unittest

import jobs
from needed_packages import need

need("torch", "numpy")

SHORT = ("test_process_sets", "test_scatter", "test_mismatches")


class Conformance(unittest.TestCase):
    def run_on(self, ranks, *modules):
        env = jobs.environment(OMP_NUM_THREADS="1", HOROVOD_STALL_CHECK_TIME_SECONDS="30",
                               HOROVOD_STALL_SHUTDOWN_TIME_SECONDS="60")  # fmt: skip
        program = jobs.TESTS / "torch_conformance" / "run.py"
        status, output = jobs.run_job(ranks, program, *modules, env=env, timeout=280)
        self.assertEqual(status, 0, output)
        counts = re.findall(r"conformance: (\d+) cases, (\d+) skipped, 0 failed", output)
        self.assertEqual(len(counts), ranks, output)
        self.assertEqual(len(set(counts)), 1, output)
        cases, skipped = map(int, counts[0])
        print(f"{ranks} ranks: {cases - skipped} of {cases} cases of the torch suite ran")
        return cases - skipped

    def test_one(self):
        self.assertGreater(self.run_on(1), 300)

    def test_two(self):
        self.assertGreater(self.run_on(2), 400)

    def test_three(self):
        self.assertGreater(self.run_on(3), 400)

    def test_four(self):
        self.assertGreater(self.run_on(4, *SHORT), 100)


if __name__ == "__main__":
    unittest.main()
