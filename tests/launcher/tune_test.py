"""cohort tune: a table that jobs accept, and mistakes that are refused before anything is measured."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

from launcher import COHORT


class Tune(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def cohort(self, *words, **environment):
        return subprocess.run([COHORT, *map(str, words)], capture_output=True, text=True, timeout=200,
                              cwd=self.folder, env={**os.environ, **environment})

    def bench(self, table):
        return self.cohort("bench", "collective", "-n", 2, "--max-bytes", 64, COHORT_TUNING=str(table))

    def test_writes_a_table_that_jobs_use(self):
        table = self.folder / "node.json"
        result = self.cohort("tune", "-n", 2, "--output", table)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("every result was checked", result.stdout)
        self.assertIn("all_reduce between hosts, 2 hosts", result.stdout)
        self.assertEqual(set(json.loads(table.read_text())),
                         {"format", "all_reduce_inlined", "all_reduce_exchange_all",
                          "all_reduce_recursive_doubling", "broadcast_flat"})
        self.assertEqual(self.bench(table).returncode, 0)

    def test_a_broken_table_is_named_with_its_key(self):
        table = self.folder / "node.json"
        table.write_text('{"format": "cohort-tuning-1", "broadcast_flat": 7}')
        result = self.bench(table)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("node.json: broadcast_flat is 7", result.stderr)

    def test_mistakes_are_refused_at_once(self):
        for words, text in ((("-n", 1), "-n must be from 2 to 64, got 1"),
                            (("--output", "nowhere/node.json"), "nowhere")):
            result = self.cohort("tune", *words)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(text, result.stderr)


if __name__ == "__main__":
    unittest.main()
