"""One program of Python is a job of two ranks under every launcher, and of one rank alone."""

import importlib.util
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest

import jobs
from needed_packages import need

need("numpy")
HELLO = jobs.RANKS / "hello.py"
TWO = "size 2 sum 1 ranks [(0, 0, 2), (1, 1, 2)]"


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Launchers(unittest.TestCase):
    def check(self, command, expected, **variables):
        with tempfile.TemporaryDirectory(prefix="cohort-meet-") as folder:
            env = jobs.environment(COHORT_MEET=folder, **variables)
            status, output = jobs.finish(jobs.start(command, env=env))
        self.assertEqual(status, 0, output)
        self.assertIn(expected, output)

    def test_alone(self):
        self.check([sys.executable, HELLO], "size 1 sum 0 ranks [(0, 0, 1)]")

    def test_cohort_run(self):
        self.check(jobs.job_command(2, HELLO), TWO)

    @unittest.skipUnless(importlib.util.find_spec("torch"), "needs torch")
    def test_torchrun(self):
        self.check([sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone", HELLO], TWO)

    @unittest.skipUnless(shutil.which("mpirun"), "needs mpirun")
    def test_mpirun(self):
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        self.check(["mpirun", *root, "--oversubscribe", "-np", "2", sys.executable, HELLO], TWO)

    def test_the_variables_of_horovodrun(self):
        program = str(jobs.BIN / "cohort")
        folder = tempfile.mkdtemp(prefix="cohort-horovod-")
        script = pathlib.Path(folder, "ranks.py")
        script.write_text(HOROVOD)
        self.check([sys.executable, script, HELLO, program], TWO)

    @unittest.skipUnless(shutil.which("slurmctld") and os.geteuid() == 0, "needs Slurm, as root")
    def test_srun(self):
        cluster = jobs.SOURCE / "tests/platform/slurm_cluster.py"
        tried = subprocess.run([sys.executable, cluster, "true"], capture_output=True, text=True, timeout=120)
        if tried.returncode == 77:
            self.skipTest(tried.stdout)
        self.check([sys.executable, cluster, "srun", "-n", "2", "-N", "1", sys.executable, HELLO], TWO)


# What horovodrun sets for each rank, where all are on one host.
HOROVOD = """
import os, subprocess, sys
ranks = []
for rank in "01":
    env = {**os.environ, "HOROVOD_RANK": rank, "HOROVOD_SIZE": "2", "HOROVOD_LOCAL_RANK": rank,
           "HOROVOD_LOCAL_SIZE": "2", "HOROVOD_CROSS_RANK": "0", "HOROVOD_CROSS_SIZE": "1",
           "HOROVOD_HOSTNAME": "localhost", "HOROVOD_CONTROLLER": "gloo", "HOROVOD_CPU_OPERATIONS": "gloo"}
    ranks.append(subprocess.Popen([sys.executable, sys.argv[1]], env=env))
sys.exit(max(rank.wait() for rank in ranks))
"""


if __name__ == "__main__":
    unittest.main()
