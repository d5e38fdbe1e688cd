"""Workers that are stopped (SIGSTOP) hold no worker up for longer than their lease, and come back."""

import signal
import time
import unittest

from elastic_job import PROGRAM, ElasticTest

LEASE = 1.0
WORDS = [PROGRAM, "--steps", 300, "--shards", 8, "--pause", 60]


class StopTest(ElasticTest):
    def start_training(self):
        self.slow.touch()
        job = self.start_job(*WORDS, workers="2:3", options=["--lease", LEASE])
        self.wait_for_size(job, 3)
        self.wait_for_steps(job, 5)
        return job

    def stop_and_continue(self, job, worker):
        """Returns the number of the view from which the worker was shut out."""
        pid, view = job.tasks()[worker]["pid"], job.view()[0]
        job.kill(worker, signal.SIGSTOP)
        begin = time.monotonic()
        self.wait(job, lambda: job.events("resumed", view + 1), "training without the stopped worker")
        self.assertLess(time.monotonic() - begin, 3 * LEASE + 1)
        self.assertNotIn(worker, [member for member, _ in job.view()[1]])
        self.wait_for_steps(job, 10)
        self.assertEqual(job.tasks()[worker]["pid"], pid, "the stopped process was given up")
        job.kill_pid(pid, signal.SIGCONT)
        self.wait_for_size(job, 3)
        self.wait_for_steps(job, 10)
        return view + 1

    def test_a_stopped_worker_is_left_behind_and_comes_back(self):
        job = self.start_training()
        self.stop_and_continue(job, 1)
        self.check_result(job, *WORDS)

    def test_the_chief_can_be_stopped_too(self):
        job = self.start_training()
        chief = job.view()[1][0][0]
        view = self.stop_and_continue(job, chief)
        self.assertIn(f"worker/{chief}", str(job.events("evicted", view - 1)))
        self.check_result(job, *WORDS)

    def test_a_stop_shorter_than_the_lease_changes_nothing(self):
        job = self.start_training()
        for worker in (0, 1, 2):
            view = job.view()[0]
            job.kill(worker, signal.SIGSTOP)
            time.sleep(LEASE * 0.3)
            job.kill(worker, signal.SIGCONT)
            self.wait_for_steps(job, 10)
            self.assertEqual(job.view()[0], view, job.tell())
        self.check_result(job, *WORDS)

    def test_a_worker_stopped_for_ever_does_not_keep_the_job_from_ending(self):
        job = self.start_training()
        view = job.view()[0]
        job.kill(2, signal.SIGSTOP)
        self.wait(job, lambda: job.events("resumed", view + 1), "training without the stopped worker")
        self.check_result(job, *WORDS)

    def test_a_stopped_launcher_shuts_no_worker_out(self):
        job = self.start_training()
        for _ in range(3):
            job.process.send_signal(signal.SIGSTOP)
            time.sleep(1.5 * LEASE)
            job.process.send_signal(signal.SIGCONT)
            self.wait_for_steps(job, 5)
        self.assertEqual((job.events("evicted"), job.view()[0]), ([], 1), job.tell())
        self.check_result(job, *WORDS)

    def test_the_last_checkpoint_waits_for_a_stopped_chief_that_holds_the_folder(self):
        job = self.start_training()
        chief, view = job.view()[1][0][0], job.view()[0]
        pid = job.tasks()[chief]["pid"]
        job.kill_pid(pid, signal.SIGSTOP)
        self.wait(job, lambda: job.events("resumed", view + 1), "training without the stopped chief")
        self.slow.unlink()
        self.wait(job, lambda: "checkpoint of step 300 waits" in job.stdout, "the end of training")
        job.kill_pid(pid)
        self.check_result(job, *WORDS)
        self.assertTrue(list((job.output / "checkpoints").glob("*300*.json")), job.tell())


if __name__ == "__main__":
    unittest.main()
