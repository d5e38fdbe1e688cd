"""Workers that are killed when training is over, while the program does what comes after it."""

import pathlib
import signal
import unittest

from elastic_job import PROGRAM, ElasticTest

WORDS = [PROGRAM, "--steps", 30, "--shards", 8]


def is_zombie(pid):
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


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

    def test_a_failure_that_is_seen_before_its_cause(self):
        job = self.train(after=500)
        chief = self.member(job, 0)
        victim = self.member(job, 1)
        job.process.send_signal(signal.SIGSTOP)  # the launcher finds all of them dead, the chief first
        job.kill_pid(victim)
        self.wait(job, lambda: is_zombie(chief), "the end of the chief")
        job.process.send_signal(signal.SIGCONT)
        self.check_ending(job, attempt=2)

    def test_a_training_that_was_stopped_early_does_not_go_on(self):
        words = [*WORDS, "--stop_at", 20]
        job = self.start_job(*words, "--after", 2000, workers="2:3")
        self.wait(job, lambda: job.events("over"), "the end of training")
        job.kill_pid(self.member(job, 0))
        self.finish_job(job)
        self.assertEqual(self.find_weights(job.stdout), self.expected_weights(*words), job.tell())
        self.assertEqual((job.record()["attempt"], job.step()), (2, 20), job.tell())

    def test_a_scaled_job_keeps_its_size(self):
        job = self.start_job(*WORDS, "--after", 2000, "--pause", 20, workers="2:3")
        self.slow.touch()
        self.wait_for_size(job, 3)
        self.assertEqual(self.cohort("scale", job.output, 2).returncode, 0)
        self.slow.unlink()
        self.wait(job, lambda: job.events("over"), "the end of training")
        job.kill_pid(self.member(job, 0))
        self.check_ending(job, attempt=2)
        self.assertEqual((job.record()["elastic"]["wanted"], len(job.view()[1])), (2, 2), job.tell())

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
