"""Faults on purpose (COHORT_FAULT) in every phase of a step and of a change of view: the weights stay those of an
undisturbed run."""

import json
import unittest

from elastic_job import MNIST, PROGRAM, ElasticTest, small_fashion

LEASE = 1.0
WORDS = [PROGRAM, "--steps", 300, "--shards", 8, "--checkpoint_steps", 10, "--norm", "--pause", 5]
STEP_PHASES = ("load", "forward", "backward", "bucket0", "bucket", "reduce", "apply", "applied")


class FaultPointsTest(ElasticTest):
    def run_with(self, *faults, restarts=1000, least_restarts=None, words=WORDS):
        """Each fault must have happened: a killed worker was started again, or there is none left to be."""
        self.slow.touch()
        job = self.start_job(*words, restarts=restarts, options=["--lease", LEASE], env={"COHORT_FAULT": ",".join(faults)})
        kills = sum(fault.startswith("kill") for fault in faults) if least_restarts is None else least_restarts
        self.wait(job, lambda: job.restarts() >= kills, f"{kills} restarts")
        self.wait_for_steps(job, 10)
        self.check_result(job, *words)
        return job

    def test_kills_in_every_phase_of_a_step(self):
        for first in range(0, len(STEP_PHASES), 2):
            one, other = STEP_PHASES[first:first + 2]
            with self.subTest(phases=(one, other)):
                self.run_with(f"kill@rank1:step10:{one}", f"kill@rank2:step40:{other}")

    def test_kills_of_the_chief_in_every_phase_of_a_step(self):
        # Worker 1 is the chief after worker 0.
        for first in range(0, len(STEP_PHASES), 2):
            one, other = STEP_PHASES[first:first + 2]
            with self.subTest(phases=(one, other)):
                self.run_with(f"kill@rank0:step10:{one}", f"kill@rank1:step40:{other}")

    def test_a_chief_that_dies_while_it_writes_a_checkpoint(self):
        self.run_with("kill@rank0:step*:checkpoint")

    def test_three_at_once_in_different_phases(self):
        self.run_with("kill@rank1:step20:forward", "kill@rank3:step20:reduce")

    def test_a_second_failure_during_the_recovery(self):
        for phase in ("report", "view"):
            with self.subTest(phase=phase):
                self.run_with("kill@rank1:step20:backward", f"kill@rank2:step*:{phase}")

    def test_the_chief_dies_during_the_recovery(self):
        for phase in ("report", "view"):
            with self.subTest(phase=phase):
                self.run_with("kill@rank1:step20:apply", f"kill@rank0:step*:{phase}")

    def test_the_trace_tells_of_the_change(self):
        words = [MNIST, "--data_dir", small_fashion(self.folder / "data", 3200, 160), "--batch_size", 16,
                 "--virtual_shards", 8, "--train_epochs", 2]
        job = self.start_job(*words, "--trace", env={"COHORT_FAULT": "kill@rank1:step20:backward"})
        self.check_result(job, *words)
        told = [event["name"] for event in json.loads((job.output / "trace" / "trace-rank0.json").read_text())["traceEvents"]
                if event.get("cat") == "members"]
        self.assertRegex(told[0], r"^view \d+: .*worker/1: pid \d+ was killed by signal 9 .*; step 21 is done again$")

    def test_a_newcomer_that_dies_while_it_copies_the_state(self):
        # Each process of worker 1 but the first dies so; when it has no restart left, the others go on without it.
        job = self.run_with("kill@rank1:step20:load", "kill@rank1:step*:join:again", restarts=2, least_restarts=2)
        self.assertNotIn(1, [worker for worker, _ in job.view()[1]])

    def test_the_donor_dies_while_a_newcomer_copies(self):
        self.run_with("kill@rank1:step20:load", "slow@rank1:step*:join:again:300ms", "kill@rank0:step80:forward")

    def test_a_pause_shorter_than_the_lease(self):
        job = self.run_with("pause@rank2:step20:forward:200ms", "pause@rank0:step30:reduce:200ms")
        self.assertEqual(job.view()[0], 1, job.tell())

    def test_a_pause_longer_than_the_lease(self):
        for phase in ("forward", "reduce", "applied"):
            with self.subTest(phase=phase):
                words = [*WORDS[:-1], 20]
                self.run_with(f"pause@rank2:step20:{phase}:2500ms", words=words)

    def test_the_chief_is_paused_for_longer_than_the_lease(self):
        self.run_with("pause@rank0:step20:apply:2500ms", words=[*WORDS[:-1], 20])

    def test_a_cut_connection(self):
        for fault in ("cut@rank1:step20:forward:2500ms", "cut@rank0:step20:apply:2500ms"):
            with self.subTest(fault=fault):
                self.run_with(fault, words=[*WORDS[:-1], 20])

    def test_a_slow_worker_is_waited_for(self):
        job = self.run_with("slow@rank1:step20:load:1500ms", "slow@rank3:step40:backward:1500ms")
        self.assertEqual(job.view()[0], 1, job.tell())


if __name__ == "__main__":
    unittest.main()
