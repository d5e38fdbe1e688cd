"""Collectives on numpy arrays, process sets, and worlds that come and go, at 1 to 4 ranks.

usage: ranks_test.py collectives|process_sets|lifecycle
"""

import sys
import unittest

import jobs
from needed_packages import need

need("numpy")
SUBJECT = sys.argv.pop(1)


class Ranks(unittest.TestCase):
    def run_on(self, ranks):
        status, output = jobs.run_job(ranks, jobs.RANKS / f"{SUBJECT}.py")
        self.assertEqual(status, 0, output)

    def test_one(self):
        if SUBJECT != "process_sets":
            self.run_on(1)

    def test_two(self):
        self.run_on(2)

    def test_three(self):
        self.run_on(3)

    def test_four(self):
        self.run_on(4)


if __name__ == "__main__":
    unittest.main()
