"""A TensorFlow job in the page, in a real browser (tests/page)."""

import pathlib
import subprocess
import sys
import unittest

RUN = pathlib.Path(__file__).resolve().parents[1] / "page/run"


class Page(unittest.TestCase):
    def test_a_tensorflow_job_is_watched_to_its_end(self):
        done = subprocess.run([RUN, "tensorflow_test.mjs", sys.executable], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=600)  # fmt: skip
        if done.returncode == 77:
            self.skipTest(done.stdout.strip().splitlines()[-1])
        self.assertEqual(done.returncode, 0, done.stdout)
