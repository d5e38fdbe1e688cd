"""The launcher itself dies: its tasks die with it, and `cohort resume` goes on from the last checkpoint."""

import time
import unittest

from elastic_job import PROGRAM, ElasticTest

WORDS = [PROGRAM, "--steps", 400, "--shards", 8, "--checkpoint_steps", 50, "--pause", 10]


class ResumeTest(ElasticTest):
    def begin_and_kill_the_launcher(self, at_step):
        self.slow.touch()
        job = self.start_job(*WORDS)
        self.wait(job, lambda: job.step() >= at_step, f"step {at_step}")
        job.process.kill()
        job.process.wait()
        begin = time.monotonic()
        self.assert_nothing_left()
        self.assertLess(time.monotonic() - begin, 3)
        return job

    def test_after_a_dead_launcher_the_last_checkpoint_goes_on(self):
        job = self.begin_and_kill_the_launcher(170)
        last = job.step()
        self.slow.unlink()
        job.command("resume", job.output)
        proven = self.check_result(job, *WORDS)
        # Checkpoints are at 50, 100, 150; the last may not have been whole yet.
        self.assertEqual(len(proven["resumed_from"]), 1)
        self.assertIn(proven["resumed_from"][0], (100, 101, 150, 151))
        self.assertTrue(proven["redone"])
        self.assertLessEqual(proven["redone"][-1]["last"], last + 1)

    def test_without_a_checkpoint_it_begins_again(self):
        job = self.begin_and_kill_the_launcher(20)
        self.slow.unlink()
        job.command("resume", job.output)
        self.check_result(job, *WORDS)

    def test_killed_workers_after_a_resume(self):
        job = self.begin_and_kill_the_launcher(120)
        job.command("resume", job.output)
        self.wait(job, lambda: len(job.living_members()) > 2 and job.step() > 120, "steps")
        job.kill(job.view()[1][0][0])
        time.sleep(0.2)
        self.check_result(job, *WORDS)

    def test_views_that_count_from_one_again_belong_to_the_resumed_job(self):
        # A worker was lost, so that views go on from 2; then the launcher dies when step 50 is the last one in both the
        # ledger and the checkpoints.
        self.slow.touch()
        job = self.start_job(*WORDS, env={"COHORT_FAULT": "kill@rank1:step10:load,slow@rank0:step50:load:4s"})
        self.wait(job, lambda: job.step() >= 50 and (job.output / "checkpoints/step-00000050.json").exists(), "step 50")
        time.sleep(0.2)
        self.assertEqual(job.step(), 50)
        job.process.kill()
        job.process.wait()
        self.assert_nothing_left()
        self.slow.unlink()
        job.command("resume", job.output)
        self.check_result(job, *WORDS)

    def test_a_job_that_runs_or_is_over_is_not_resumed(self):
        self.slow.touch()
        job = self.start_job(*WORDS)
        self.wait_for_steps(job)
        done = self.cohort("resume", job.output)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.check_result(job, *WORDS)
        done = self.cohort("resume", job.output)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
