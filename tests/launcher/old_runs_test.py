"""Old runs under cohort-output: which are removed, and which never are."""

import json
import os
import shutil
import subprocess
import time
import unittest

from launcher import COHORT, LauncherTest

DAY = 24 * 3600


class OldRuns(LauncherTest):
    def setUp(self):
        super().setUp()
        self.runs = self.folder / "cohort-output"

    def cohort(self, *words):
        process = subprocess.run([COHORT, "run", *map(str, words)], cwd=self.folder, capture_output=True,
                                 env=self.environment(), timeout=60, text=True)
        self.assertEqual(process.returncode, 0, process.stderr)
        return process.stderr

    def make_old_runs(self, count):
        """One real run, and copies of it that are 10 days and more old."""
        if not self.runs.exists():
            self.cohort("--", "true")
        first = next(path for path in self.runs.iterdir())
        for i in range(count):
            copy = self.runs / f"20200101-000000-{i:08x}"
            shutil.copytree(first, copy)
            record = json.loads((copy / "job.json").read_text())
            record["job"] = copy.name
            (copy / "job.json").write_text(json.dumps(record))
            then = time.time() - (10 + count - i) * DAY
            os.utime(copy / "job.json", (then, then))

    def left(self):
        return len(list(self.runs.iterdir()))

    def test_the_newest_twenty_stay_and_a_line_says_so(self):
        self.make_old_runs(30)
        pinned = self.runs / "20200101-000000-00000001/pinned"
        pinned.touch()
        stderr = self.cohort("--", "true")
        self.assertEqual(self.left(), 21)
        self.assertTrue(pinned.exists())
        self.assertIn("cohort: removed 11 runs of more than 7 days ago from cohort-output "
                      "(20200101-000000-00000000 to 20200101-000000-0000000b); see cohort run --keep",
                      stderr)
        self.assertIn("removed 1 run of", self.cohort("--", "true"))  # the oldest made room
        self.assertEqual(self.left(), 21)

    def test_an_option_or_a_job_file_says_how_many(self):
        self.make_old_runs(6)
        self.cohort("--keep", 0, "--", "true")
        self.assertEqual(self.left(), 8)
        (self.folder / "job.toml").write_text('program = "true"\nkeep = 5\n')
        self.assertNotIn("removed", self.cohort("--config", "job.toml", "--quiet"))
        self.assertEqual(self.left(), 5)

    def test_a_run_into_a_named_folder_removes_nothing(self):
        self.make_old_runs(4)
        self.cohort("--keep", 1, "--output", "cohort-output/mine", "--", "true")
        self.assertEqual(self.left(), 6)

    def test_a_running_job_keeps_its_folder_and_its_place(self):
        self.make_old_runs(3)
        running = subprocess.Popen([COHORT, "run", "--", "sleep", "600"], cwd=self.folder,
                                   env=self.environment(), stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        try:
            folders = self.wait_for(lambda: [record.parent for record in self.runs.glob("*/job.json")
                                             if '"running"' in record.read_text()], "a running job")
            then = time.time() - 100 * DAY  # as if it had been started long ago
            os.utime(folders[0] / "job.json", (then, then))
            self.cohort("--keep", 1, "--", "true")
            self.assertTrue((folders[0] / "job.json").exists())
            self.assertIsNone(running.poll())
        finally:
            running.terminate()
            running.wait(timeout=60)

    def test_a_bad_number_is_refused(self):
        process = subprocess.run([COHORT, "run", "--keep", "-1", "--", "true"], cwd=self.folder,
                                 capture_output=True, text=True, env=self.environment(), timeout=60)
        self.assertEqual(process.returncode, 2)
        self.assertIn("--keep must be at least 0, got -1", process.stderr)


if __name__ == "__main__":
    unittest.main()
