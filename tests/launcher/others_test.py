"""Programs of several ranks under other launchers: mpirun, torchrun, and by hand as srun and MPICH would."""

import os
import pathlib
import shutil
import subprocess
import unittest

from launcher import BIN, LauncherTest, PATIENCE

MPIRUN = shutil.which("mpirun")
TORCHRUN = shutil.which("torchrun")


class Others(LauncherTest):
    def setUp(self):
        super().setUp()
        self.runtime = self.folder / "runtime"
        self.runtime.mkdir(mode=0o700)

    def environment(self, **extra):
        return super().environment(XDG_RUNTIME_DIR=str(self.runtime), **extra)

    def popen(self, *words, **environment):
        return subprocess.Popen([*map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env=self.environment(**environment), cwd=self.folder)

    def end(self, process, code=0):
        stdout, stderr = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, code, stderr)
        return stdout

    def mpirun(self, ranks, *program, **environment):
        return self.popen(MPIRUN, "--allow-run-as-root", "--oversubscribe", "-n", ranks, *program, **environment)

    def assert_sums(self, stdout, ranks):
        self.assertEqual(stdout.count(f"the sum of 1 to {ranks} is {ranks * (ranks + 1) // 2}"), ranks, stdout)

    def assert_no_note(self):
        self.assertEqual(list(self.runtime.glob("cohort/*")), [])

    def by_hand(self, environments, program="hello"):
        """One process for each environment, the last one first."""
        tasks = [self.popen(BIN / program, **environment) for environment in reversed(environments)]
        return "".join(self.end(task) for task in tasks)

    @unittest.skipUnless(MPIRUN, "mpirun is not installed")
    def test_mpirun_starts_programs_that_meet_by_themselves(self):
        self.assert_sums(self.end(self.mpirun(3, BIN / "hello")), 3)
        stdout = self.end(self.mpirun(3, BIN / "allreduce", 1000))
        for rank in range(3):
            self.assertIn(f"rank {rank} of 3 over shm: element 0 is 1 (expected 1)", stdout)
        self.assert_no_note()

    @unittest.skipUnless(MPIRUN, "mpirun is not installed")
    def test_jobs_at_the_same_time_do_not_meet_each_other(self):
        jobs = [self.mpirun(ranks, "sh", "-c", str(BIN / "hello")) for ranks in (2, 3, 2)]
        for job, ranks in zip(jobs, (2, 3, 2)):
            self.assert_sums(self.end(job), ranks)
        self.assert_no_note()

    @unittest.skipUnless(MPIRUN, "mpirun is not installed")
    def test_a_rank_that_fails_ends_the_job_and_leaves_no_note(self):
        program = self.script('[ "$OMPI_COMM_WORLD_RANK" = 1 ] && exit 3; exec "$0"\n')
        job = self.mpirun(2, "sh", "-c", pathlib.Path(program).read_text(), BIN / "hello")
        job.communicate(timeout=PATIENCE)
        self.assertNotEqual(job.returncode, 0)
        self.assert_nothing_left()
        self.assert_sums(self.end(self.mpirun(2, BIN / "hello")), 2)

    @unittest.skipUnless(TORCHRUN, "torchrun is not installed")
    def test_torchrun_starts_programs_that_meet_by_themselves(self):
        self.assert_sums(self.end(self.popen(TORCHRUN, "--standalone", "--nproc-per-node", 3, "--no-python",
                                             BIN / "hello")), 3)
        self.assert_no_note()

    def torch_ranks(self, ranks, port):
        return [dict(RANK=str(rank), WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
                for rank in range(ranks)]

    def test_ranks_and_a_master_by_hand(self):
        self.assert_sums(self.by_hand(self.torch_ranks(2, 4567)), 2)

    def test_a_killed_job_of_the_same_name_does_not_confuse_the_next(self):
        environments = self.torch_ranks(2, 4567)
        alone = self.popen(BIN / "hello", **environments[0])  # waits for rank 1
        self.wait_for(lambda: list(self.runtime.glob("cohort/*.note")), "the note")
        alone.kill()
        alone.communicate()
        self.assertEqual(len(list(self.runtime.glob("cohort/*.note"))), 1)
        self.assert_sums(self.by_hand(environments), 2)
        self.assertEqual(list(self.runtime.glob("cohort/*.note")), [])

    def test_a_running_job_of_the_same_name_is_not_pushed_aside(self):
        environments = self.torch_ranks(2, 4567)
        first = self.popen(BIN / "hello", **environments[0])
        self.wait_for(lambda: list(self.runtime.glob("cohort/*.note")), "the note")
        second = self.popen(BIN / "hello", **environments[0])
        _, stderr = second.communicate(timeout=PATIENCE)
        self.assertEqual(second.returncode, 1)
        self.assertIn(f"process {first.pid} hosts the store of another job of the same name", stderr)
        named = [dict(environment, COHORT_JOB="mine") for environment in environments]
        self.assert_sums(self.by_hand(named), 2)
        self.assert_sums(self.end(self.popen(BIN / "hello", **environments[1])) + self.end(first), 2)

    def test_srun_on_one_node(self):
        self.assert_sums(self.by_hand([
            dict(SLURM_PROCID=str(rank), SLURM_LOCALID=str(rank), SLURM_NODEID="0", SLURM_NTASKS="2",
                 SLURM_STEP_TASKS_PER_NODE="2", SLURM_NNODES="1", SLURM_JOB_ID="77", SLURM_STEP_ID="0")
            for rank in range(2)]), 2)

    def test_a_launcher_that_names_no_job_is_known_by_its_process(self):
        self.assert_sums(self.by_hand([
            dict(PMI_RANK=str(rank), PMI_SIZE="2", MPI_LOCALRANKID=str(rank), MPI_LOCALNRANKS="2")
            for rank in range(2)]), 2)

    def test_across_hosts_a_shared_folder_serves_and_without_one_a_sentence_says_so(self):
        environments = [
            dict(SLURM_PROCID=str(rank), SLURM_LOCALID="0", SLURM_NODEID=str(rank), SLURM_NTASKS="2",
                 SLURM_STEP_TASKS_PER_NODE="1(x2)", SLURM_NNODES="2", SLURM_JOB_ID="77", SLURM_STEP_ID="0")
            for rank in range(2)]
        task = self.popen(BIN / "hello", **dict(environments[1], HOME=""))
        _, stderr = task.communicate(timeout=PATIENCE)
        self.assertEqual(task.returncode, 1)
        self.assertIn("COHORT_MEET=DIR", stderr)
        shared = [dict(environment, COHORT_MEET=str(self.folder / "shared")) for environment in environments]
        self.assert_sums(self.by_hand(shared), 2)
        at_home = [dict(environment, HOME=str(self.folder / "home")) for environment in environments]
        self.assert_sums(self.by_hand(at_home), 2)


if __name__ == "__main__":
    unittest.main()
