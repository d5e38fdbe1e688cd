"""`cohort scale` and `cohort status` on jobs that train."""

import json
import unittest

from elastic_job import PROGRAM, ElasticTest

WORDS = [PROGRAM, "--steps", 300, "--shards", 8, "--pause", 60]


class ScaleTest(ElasticTest):
    def start_training(self, workers="1:4", size=4):
        self.slow.touch()
        job = self.start_job(*WORDS, workers=workers)
        self.wait_for_size(job, size)
        self.wait_for_steps(job)
        return job

    def scale(self, job, workers, *options):
        done = self.cohort("scale", job.output, workers, *options)
        self.assertEqual(done.returncode, 0, done.stderr)

    def status(self, job):
        done = self.cohort("status", job.output, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["elastic"]

    def members(self, job):
        return [member for member in self.status(job)["members"] if member["in_view"]]

    def test_down_and_up_while_training(self):
        job = self.start_training()
        for workers in (2, 3, 1, 4):
            self.scale(job, workers)
            self.wait_for_size(job, workers)
            self.wait_for_steps(job, 10)
            self.assertEqual(len(job.tasks()), workers)
        self.assertFalse([event for event in job.events("resumed") if event["redone"]],
                         "a planned change costs no step")
        self.check_result(job, *WORDS)

    def test_dismissed_workers_are_not_failures(self):
        job = self.start_training()
        self.scale(job, 1)
        self.wait_for_size(job, 1)
        self.check_result(job, *WORDS)
        self.assertEqual(job.record()["exit_code"], 0)
        self.assertEqual(job.restarts(), 0)

    def test_a_kill_while_the_job_grows(self):
        job = self.start_training()
        self.scale(job, 2)
        self.wait_for_size(job, 2)
        self.scale(job, 4, "--no-wait")
        job.kill(job.view()[1][0][0])
        self.wait_for_size(job, 4)
        self.check_result(job, *WORDS)

    def test_more_or_fewer_than_allowed_is_refused_by_name(self):
        job = self.start_training("2:3", 3)
        for workers in (1, 4):
            done = self.cohort("scale", job.output, workers)
            self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
            self.assertIn(str(workers), done.stderr)
        self.check_result(job, *WORDS)

    def test_status_tells_view_members_step_and_throughput(self):
        job = self.start_training()
        members = self.members(job)
        self.assertEqual([member["task"] for member in members], [f"worker/{worker}" for worker, _ in job.view()[1]])
        self.assertEqual({member["pid"] for member in members}, {task["pid"] for task in job.tasks().values()})
        first = members[0]["step"]
        self.wait(job, lambda: self.members(job)[0]["step"] > first, "a later step")
        self.wait(job, lambda: self.members(job)[0]["samples_per_second"] > 0, "a throughput")
        self.assertEqual(self.status(job)["view"], job.view()[0])
        text = self.cohort("status", job.output)
        self.assertEqual(text.returncode, 0, text.stderr)
        self.assertIn("worker/3", text.stdout)
        self.check_result(job, *WORDS)

    def test_status_of_a_job_that_is_over(self):
        job = self.start_training()
        self.check_result(job, *WORDS)
        done = self.cohort("status", job.output)
        self.assertIn("succeeded", done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
