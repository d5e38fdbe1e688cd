"""Virtual shards and the ledger of cohort.common: the order of addition, and what `cohort ledger verify` finds."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests" / "launcher")]

from launcher import COHORT  # noqa: E402

from cohort.common import shards  # noqa: E402
from cohort.common.ledger import LedgerWriter, Plan, Record, crc32c  # noqa: E402


def reduce(first, count):
    """docs/algorithms.md, "One order of addition", as a text."""
    if count == 1:
        return str(first)
    left = 1
    while left * 2 < count:
        left *= 2
    return f"({reduce(first, left)}+{reduce(first + left, count - left)})"


class Shards(unittest.TestCase):
    def test_the_stack_adds_as_the_tree_does(self):
        for count in range(1, 40):
            stack = []
            for leaf, merges in enumerate(shards.merges_of(count)):
                stack.append(str(leaf))
                for _ in range(merges):
                    right = stack.pop()
                    stack[-1] = f"({stack[-1]}+{right})"
            self.assertEqual(stack, [reduce(0, count)])

    def test_runs_cover_all_shards(self):
        for ranks in range(1, 9):
            runs = [shards.run_of(rank, ranks, 12) for rank in range(ranks)]
            self.assertEqual([s for first, count in runs for s in range(first, first + count)], list(range(12)))
            self.assertEqual(len(shards.owners_of(ranks, 12)), 12)
        with self.assertRaisesRegex(ValueError, "3 virtual shards are too few for 4 workers: give at least 4"):
            shards.run_of(0, 4, 3)

    def test_seeds_depend_on_every_number(self):
        seeds = {shards.seed_of(*numbers) for numbers in ((0, 0), (0, 1), (1, 0), (0,), (0, 0, 0), (-1, 0))}
        self.assertEqual(len(seeds), 6)


class Ledger(unittest.TestCase):
    plan = Plan(samples=100, batch=24, shards=12, seed=3, shuffle=True)

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "new" / "ledger"

    def record(self, step, view=0):
        epoch, of_epoch = divmod(step, 5)
        first = of_epoch * 24
        counts = tuple(shards.split(min(24, 100 - first), 12))
        return Record(epoch, step, first, view, counts, tuple(shards.owners_of(3, 12)))

    def write(self, steps, view=0):
        writer = LedgerWriter(self.path, self.plan)
        for step in steps:
            writer.append(self.record(step, view))
        writer.close()

    def verify(self):
        done = subprocess.run([COHORT, "ledger", "verify", str(self.path)], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def test_checksum(self):
        self.assertEqual(crc32c(b"123456789"), 0xE3069283)

    def test_whole_epochs_are_proven(self):
        self.write(range(10))
        code, text = self.verify()
        self.assertEqual(code, 0, text)
        self.assertIn("every sample of 2 ended epochs entered exactly one committed update", text)

    def test_a_step_that_is_missing_is_told(self):
        self.write([0, 1, 3, 4])
        code, text = self.verify()
        self.assertEqual(code, 1, text)
        self.assertIn("no record of step 2", text)

    def test_a_torn_end_is_cut_and_steps_are_done_again(self):
        self.write(range(8))
        with open(self.path, "ab") as file:
            file.write(b"torn")
        writer = LedgerWriter(self.path, self.plan)
        self.assertEqual(writer.last_step, 7)
        self.assertFalse(writer.lacks(self.record(7)))
        self.assertTrue(writer.lacks(self.record(7, view=1)))
        writer.rewind(6)
        self.assertEqual(writer.last_step, 5)
        writer.close()
        self.write(range(6, 10))
        code, text = self.verify()
        self.assertEqual(code, 0, text)
        self.assertIn("done again: steps 6 to 7", text)

    def test_a_later_view_takes_a_steps_place(self):
        self.write(range(8), view=1)
        self.write(range(7, 10), view=3)
        code, text = self.verify()
        self.assertEqual(code, 0, text)
        self.assertIn("done again: step 7", text)

    def test_another_trainings_ledger_is_refused(self):
        self.write(range(2))
        with self.assertRaisesRegex(ValueError, "ledger of another training"):
            LedgerWriter(self.path, self.plan._replace(seed=4))
        os.truncate(self.path, 0)
        self.path.write_bytes(b"x" * 100)
        with self.assertRaisesRegex(ValueError, "no ledger"):
            LedgerWriter(self.path, self.plan)


if __name__ == "__main__":
    unittest.main()
