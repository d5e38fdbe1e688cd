"""TensorFlow and PyTorch programs, unchanged, as jobs of two nodes of a real Slurm (tests/platform/slurm_cluster.py)."""

import os
import re
import subprocess
import sys
import tempfile
import unittest

from framework import HERE
from launcher import COHORT, PYTHON

CLUSTER = HERE.parent / "platform" / "slurm_cluster.py"
LIMIT = 300  # seconds
# Both in one cluster. The service that the first one starts ends with the cluster's processes.
JOBS = """
for program in torch_ddp.py tf_multi_worker_keras.py; do
  "$COHORT" submit --follow --engine slurm --engine-option=--nodes=2 -n 2 -- "$PYTHON" "$SCRIPTS/$program" || exit
done
"""


class Slurm(unittest.TestCase):
    def test_two_nodes_end_with_equal_weights(self):
        with tempfile.TemporaryDirectory() as home:
            variables = {"COHORT": COHORT, "PYTHON": PYTHON, "SCRIPTS": str(HERE / "scripts"), "COHORT_HOME": f"{home}/jobs",
                         "HOME": home}  # fmt: skip
            done = subprocess.run([sys.executable, CLUSTER, "bash", "-c", JOBS], env=os.environ | variables,
                                  capture_output=True, text=True, timeout=LIMIT)
        if done.returncode == 77:
            self.skipTest(done.stdout.strip())
        self.assertEqual(done.returncode, 0, done.stdout[-4000:] + done.stderr[-2000:])
        weights = re.findall(r"worker:\d.*trained .*\bweights=(\[.*?\]|\S+)", done.stdout)
        self.assertEqual(len(weights), 4, done.stdout[-4000:])
        self.assertEqual(weights[0], weights[1])
        self.assertEqual(weights[2], weights[3])


if __name__ == "__main__":
    unittest.main()
