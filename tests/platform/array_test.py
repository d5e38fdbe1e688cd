"""`cohort submit --array`: a job for each index, on this machine; slurm_test.py has the same on a real Slurm."""

import json
import unittest

from cli_test import Platform


class Arrays(Platform):
    def test_an_array_is_a_job_for_each_index(self):
        program = self.python("import os, sys\nindex = os.environ['COHORT_ARRAY_INDEX']\nprint('element', index)\n"
                              "sys.exit('no data' if index == '4' else 0)\n")  # fmt: skip
        jobs = self.cohort("submit", "--array", "0-5:2", "--name", "sweep", "--wait", *program, code=1).split()
        self.assertEqual(len(jobs), 3)
        array = self.job(jobs[0])["tags"]["array"]
        listed = json.loads(self.cohort("jobs", "--tag", f"array={array}", "--json"))
        self.assertEqual({entry["id"] for entry in listed}, set(jobs))
        for job, index, state in zip(jobs, (0, 2, 4), ("succeeded", "succeeded", "failed")):
            found = self.job(f"sweep-{index}")
            self.assertEqual((found["id"], found["state"]), (job, state))
            self.assertIn(f"element {index}\n", self.cohort("logs", job))
        self.assertIn("no data", self.job(jobs[2])["reason"])

    def test_what_is_no_array_is_refused_before_anything_is_submitted(self):
        self.assertIn("9 is below 10", self.refused("submit", "--array", "10-9", "--", "true"))
        self.assertIn("for the queue to say", self.refused("submit", "--array", "0-9%2", "--", "true"))
        self.assertIn("--follow", self.refused("submit", "--array", "0-1", "--follow", "--", "true"))
        self.assertIn("printed as toml", self.refused("submit", "--array", "0-1", "--print", "toml", "--", "true"))
        self.assertIn("#SBATCH --array=0-9%2\n", self.cohort("submit", "--array", "0-9%2", "--print", "slurm", "--", "true"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
