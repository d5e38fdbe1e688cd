"""SIGKILL at random instants to random workers of `mnist`: the weights stay those of a run in which nothing failed.

COHORT_KILLS=N in the environment sets how many workers are killed in all (default 30), SEED=N the instants."""

import os
import random
import shutil
import time
import unittest

from elastic_job import MNIST, PROGRAM, ElasticTest, small_fashion

KILLS = int(os.environ.get("COHORT_KILLS", "30"))
SEED = int(os.environ.get("SEED", str(random.SystemRandom().randrange(10**6))))
LEAST, MOST = 2, 4
MOST_JOBS = 12  # a job that ends before it was killed often enough is followed by another


class KillTest(ElasticTest):
    """Three epochs of 100 steps, each with validation and a checkpoint."""

    def setUp(self):
        super().setUp()
        self.random = random.Random(f"{SEED} {self._testMethodName}")
        self.data = small_fashion(self.folder / "data", 3200, 160)

    def program(self):
        return [MNIST, "--data_dir", self.data, "--batch_size", 16, "--train_epochs", 4, "--virtual_shards", 8]

    def expected_weights(self, *program):
        """Cached by all but the folder of the data, which each test has for itself."""
        key = tuple(word for word in map(str, program) if word != str(self.data))
        if key not in self.weights_of:
            self.weights_of[key] = super().expected_weights(*program)
        return self.weights_of[key]

    def check_that_deaths_were_told(self, job):
        """The launcher sees every death of its own workers: none has to be guessed from a connection that ended, and
        waited for until a lease is over."""
        members = {member for event in job.events("installed") for member in event["members"]}
        guessed = [event for event in job.events("evicted") if event["member"] in members and
                   event["reason"].startswith(("its connection ended", "it came again as"))]
        self.assertEqual(guessed, [], job.tell())

    def kill_until_over(self, choose, kills, pause):
        """Runs jobs and kills who `choose` says (pids, out of those of the living members) until `kills` are dead.
        Each job must end with the right weights."""
        done = jobs = 0
        while done < kills:
            self.assertLess(jobs, MOST_JOBS, f"{done} of {kills} kills; jobs are over too soon")
            jobs += 1
            job = self.start_job(*self.program(), workers=f"{LEAST}:{MOST}")
            killed_in = 0
            while job.runs() and done + job.killed < kills:
                members = list(job.living_members().values())
                # Who has died meanwhile may have been the last with the state but LEAST.
                for pid in choose(members, job) if len(members) > LEAST else []:
                    job.kill_pid(pid)
                    killed_in = job.view()[0]
                time.sleep(self.random.uniform(*pause))
            done += job.killed
            self.check_result(job, *self.program())
            self.check_that_deaths_were_told(job)
            print(f"seed {SEED}: {self._testMethodName}: {job.killed} killed, {job.view()[0]} views (last kill in "
                  f"{killed_in}), {len([e for e in job.events('resumed') if e['redone']])} steps done again", flush=True)

    def test_one_at_a_time(self):
        self.kill_until_over(lambda members, job: [self.random.choice(members)], KILLS * 5 // 10, (0, 0.5))

    def test_all_but_the_least_at_once(self):
        self.kill_until_over(lambda members, job: self.random.sample(members, len(members) - LEAST),
                             KILLS * 3 // 10, (0.2, 0.8))

    def test_the_chief(self):
        self.kill_until_over(lambda members, job: members[:1], KILLS * 2 // 10, (0, 0.5))

    def test_fewer_than_the_least_wait_for_others(self):
        job = self.start_job(*self.program(), workers=f"{LEAST}:{MOST}")
        self.wait_for_size(job, MOST)
        for pid in list(job.living_members().values())[1:]:
            job.kill_pid(pid)
        self.check_result(job, *self.program())
        self.assertEqual(job.killed, MOST - 1)
        self.assertTrue(job.events("waiting"), job.tell())
        self.check_that_deaths_were_told(job)

    def test_each_of_several_deaths_is_told_at_once(self):
        program = [PROGRAM, "--steps", 400, "--shards", 8, "--pause", 20]
        self.slow.touch()
        job = self.start_job(*program, workers=f"{LEAST}:{MOST}")
        for _ in range(6):
            self.wait_for_size(job, MOST)
            view = job.view()[0]
            for pid in list(job.living_members().values())[LEAST:]:
                job.kill_pid(pid)
                time.sleep(self.random.uniform(0, 0.001))  # the launcher is at work on the one before
            self.wait(job, lambda: job.view()[0] > view, f"a view after {view}")
        self.check_result(job, *program)
        self.check_that_deaths_were_told(job)

    def test_checkpoints_of_an_earlier_job_are_left_alone(self):
        earlier = self.start_job(PROGRAM, "--steps", 60, "--shards", 8)
        self.finish_job(earlier)
        shutil.copytree(earlier.output / "checkpoints", self.folder / "out1" / "checkpoints")
        program = [PROGRAM, "--steps", 40, "--shards", 8, "--pause", 20]
        self.slow.touch()
        job = self.start_job(*program, workers="1:1")
        self.wait_for_steps(job, 5)
        job.kill(0)
        self.check_result(job, *program)

    def test_all_at_once_go_on_from_the_last_checkpoint(self):
        program = [PROGRAM, "--steps", 120, "--shards", 8, "--checkpoint_steps", 10, "--norm", "--pause", 20]
        self.slow.touch()
        job = self.start_job(*program, workers=f"{LEAST}:{MOST}")
        for _ in range(2):
            self.wait_for_size(job, MOST)
            self.wait_for_steps(job, 25)
            for pid in list(job.living_members().values()):
                job.kill_pid(pid)
        self.check_result(job, *program)
        self.assertEqual(job.killed, 2 * MOST)
        self.assertGreaterEqual(job.restarts(), 2 * MOST)


if __name__ == "__main__":
    unittest.main()
