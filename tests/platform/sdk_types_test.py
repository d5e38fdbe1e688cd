"""The types of the Python SDK are complete: mypy --strict finds nothing in it, and finds a user's mistakes."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from needed_packages import need

need("mypy")
PYTHON = pathlib.Path(__file__).resolve().parents[2] / "python"

USE = """\
from typing import Dict, List, Optional
import cohort
from cohort.estimator import TensorFlow

estimator = TensorFlow(role="r", train_instance_count=2, train_instance_type="local", py_version="py3",
                       entry_point="train.py", source_dir="code", distributions={"mpi": {"enabled": True}})
job: cohort.Job = estimator.fit({"train": "a", "test": "b"}, wait=False)
loss: float = estimator.metrics().last("loss")
latest: Optional[cohort.Job] = estimator.latest_training_job
estimator.model_data.download("here").joinpath("x")
TensorFlow("train.py", instance_cout=2)
estimator.fit(wait="yes")
cohort.init(process_sets=[cohort.ProcessSet([0, 1])])
rank: int = cohort.rank()
everyone: List[object] = cohort.allgather_object({"rank": rank})
cohort.synchronize(cohort.allreduce_async([1.0], op=cohort.Sum, name="x"))
cohort.init(com=[0])
size: str = cohort.size()
"""


class Types(unittest.TestCase):
    def mypy(self, *words, cwd=PYTHON):
        with tempfile.TemporaryDirectory() as cache:
            return subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir", cache, *words], cwd=cwd,
                                  env={**os.environ, "MYPYPATH": str(PYTHON)}, text=True, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT).stdout  # fmt: skip

    def test_the_package_is_typed_throughout(self):
        self.assertIn("Success: no issues found", self.mypy())

    def test_a_users_mistakes_are_found_and_nothing_else(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "use.py").write_text(USE)
            found = self.mypy("use.py", cwd=folder)
        self.assertEqual(re.findall(r"^use\.py:(\d+): error", found, re.MULTILINE), ["11", "12", "17", "18"], found)
        self.assertIn('Unexpected keyword argument "instance_cout"', found)


if __name__ == "__main__":
    unittest.main()
