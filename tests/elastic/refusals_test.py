"""What makes no sense together with --elastic is refused by name, before anything is started."""

import unittest

from elastic_job import COHORT, PROGRAM, ElasticTest


class RefusalsTest(ElasticTest):
    def refused(self, *words, saying):
        done = self.cohort("run", "--output", self.folder / "out", *words)
        self.assertEqual(done.returncode, 2, f"{words}: {done.stdout}{done.stderr}")
        for text in saying:
            self.assertIn(text, done.stderr, words)

    def test_options_of_the_launcher(self):
        program = ["--", PROGRAM]
        for words, saying in [
                (["-n", "2:4", *program], ["--elastic", "2:4"]),
                (["-n", "4:2", "--elastic", *program], ["4:2"]),
                (["-n", "0:2", "--elastic", *program], ["0:2"]),
                (["-n", "2:x", "--elastic", *program], ["2:x"]),
                (["-n", "2", "--elastic", "--ps", "1", *program], ["--elastic", "--ps"]),
                (["-n", "2", "--elastic", "--evaluator", *program], ["--elastic", "--evaluator"]),
                (["-n", "2", "--elastic", "--coordinator", *program], ["--elastic", "--coordinator"]),
                (["-n", "2", "--elastic", "--lease", "0", *program], ["--lease", "0"]),
                (["-n", "2", "--lease", "2", *program], ["--lease", "--elastic"])]:
            with self.subTest(words=words):
                self.refused(*words, saying=saying)
        self.assertFalse((self.folder / "out" / "job.json").exists(), "a refused job has left a record")

    def test_what_only_the_program_knows(self):
        for flags, saying in [
                (["--num_replicas", "2"], ["replica"]),
                (["--distribution_strategy", "parameter_server"], ["parameter_server"]),
                (["--shards", "2"], ["virtual_shards must be 0 or at least the 4 replicas, got 2"])]:
            with self.subTest(flags=flags):
                job = self.start_job(PROGRAM, "--steps", 5, *flags, workers="2:4", restarts=0)
                self.finish_job(job, code=2)
                for text in saying:
                    self.assertIn(text, job.stdout + job.stderr)

    def test_faults_that_cannot_be(self):
        for fault in ("kill@rank1", "explode@rank1:step2:load", "pause@rank1:step2:load", "kill@rank1:step2:lunch"):
            with self.subTest(fault=fault):
                job = self.start_job(PROGRAM, "--steps", 5, restarts=0, env={"COHORT_FAULT": fault})
                self.finish_job(job, code=2)
                self.assertIn(f"the fault '{fault}'", job.stdout + job.stderr)

    def test_commands_without_a_job(self):
        for words in (["scale", "nowhere", "3"], ["status", "nowhere"], ["resume", "nowhere"],
                      ["ledger", "verify", "nowhere"]):
            done = self.cohort(*words)
            self.assertEqual(done.returncode, 2, f"{words}: {done.stdout}{done.stderr}")
            self.assertIn("nowhere", done.stderr)

    def test_jobs_that_are_not_elastic_are_not_scaled(self):
        done = self.cohort("run", "-q", "--output", self.folder / "plain", "--", "true")
        self.assertEqual(done.returncode, 0, done.stderr)
        done = self.cohort("scale", self.folder / "plain", 2)
        self.assertEqual(done.returncode, 2, f"{COHORT} scale: {done.stdout}{done.stderr}")


if __name__ == "__main__":
    unittest.main()
