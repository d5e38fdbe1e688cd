"""The two calls of examples/estimator, as a person runs them: real services, parameter servers, mpirun, TensorFlow."""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "platform"))

import sdk_service  # noqa: E402

EXAMPLES = sdk_service.SOURCE / "examples/estimator"


class Examples(unittest.TestCase):
    def run_example(self, name):
        """What the example printed; it must succeed and train."""
        with tempfile.TemporaryDirectory(prefix="cohort-example-", ignore_cleanup_errors=True) as folder:
            folder = pathlib.Path(folder)
            try:
                return self.trained_in(folder, name)
            finally:  # before the folder that says which service it is goes
                sdk_service.end_service(folder)

    def trained_in(self, folder, name):
        environment = sdk_service.clean_environment(folder)
        done = subprocess.run([sys.executable, name], cwd=EXAMPLES, env=environment, text=True, timeout=500,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stdout[-4000:])
        [weights] = (folder / "home/jobs").glob("*/model/weights.npz")
        self.assertGreater(weights.stat().st_size, 1000)
        accuracy = re.search(r"trained: accuracy=([0-9.]+)", done.stdout)
        self.assertGreater(float(accuracy[1]), 0.9)
        self.assertRegex(done.stdout, r"cohort: .*tensorflow 1\.14\.0 was asked for; the one at hand is 2\.")
        return done.stdout

    def test_parameter_servers(self):
        printed = self.run_example("ps.py")
        for line in ("parameter server 0 serves", "parameter server 1 serves", "2 workers, 2 parameter servers"):
            self.assertIn(line, printed)

    @unittest.skipUnless(shutil.which("mpirun"), "no mpirun")
    def test_mpi(self):
        printed = self.run_example("mpi.py")
        self.assertIn("rank 0 of 2", printed)
        self.assertIn("rank 1 of 2", printed)


if __name__ == "__main__":
    unittest.main()
