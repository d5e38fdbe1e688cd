"""Workers that are killed when training is over, while the program does what comes after it."""

import signal
import unittest

from elastic_job import PROGRAM, ElasticTest

WORDS = [PROGRAM, "--steps", 30, "--shards", 8]


class EndingTest(ElasticTest):
    def train(self, after, restarts=1000):
        """A job whose training is over; it evaluates the model `after` milliseconds later."""
        job = self.start_job(*WORDS, "--after", after, workers="2:3", restarts=restarts)
        self.wait(job, lambda: job.events("over"), "the end of training")
        return job

    def member(self, job, rank):
        return list(job.living_members().values())[rank]

    def check_ending(self, job, attempt):
        self.check_result(job, *WORDS)
        record = job.record()
        self.assertEqual((record["state"], record["attempt"]), ("succeeded", attempt), job.tell())

    def test_the_chief_is_missed(self):
        job = self.train(after=2000)
        job.kill_pid(self.member(job, 0))
        self.check_ending(job, attempt=2)
        self.assertIn("starting attempt 2", job.stderr)

    def test_a_worker_that_others_need_is_missed(self):
        job = self.train(after=2000)
        job.kill_pid(self.member(job, 1))
        self.check_ending(job, attempt=2)

    def test_a_program_that_fails_by_itself_is_not_started_again(self):
        shell = ["sh", "-c", '"$@"; exit 3', "sh"]
        job = self.start_job(*shell, *WORDS, workers="2:3")
        self.finish_job(job, code=3)
        self.assertEqual(job.record()["attempt"], 1, job.tell())

    def test_restarts_are_bounded(self):
        job = self.train(after=2000, restarts=1)
        for attempt in (1, 2):
            self.wait(job, lambda: len(job.events("over")) == attempt, f"the end of training {attempt}")
            job.kill_pid(self.member(job, 0))
        self.finish_job(job, code=128 + signal.SIGKILL)
        self.assertEqual(job.record()["root_cause"]["index"], 0, job.tell())
        self.check_ledger(job)


if __name__ == "__main__":
    unittest.main()
