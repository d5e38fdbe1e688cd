"""cohort.tensorflow and cohort.keras: the conformance cases, and programs written for Horovod, unchanged."""

import pathlib
import sys
import unittest

from framework import HERE, FrameworkTest

PYTHON_FOLDER = HERE.parents[1] / "python"
ENVIRONMENT = {"PYTHONPATH": f"{PYTHON_FOLDER}:{PYTHON_FOLDER / 'cohort-horovod'}", "TF_CPP_MIN_LOG_LEVEL": "3"}


class Conformance(FrameworkTest):
    def run_cases(self, ranks):
        words = self.program(HERE / "tensorflow_conformance" / "run.py")
        result = self.run_program("-n", ranks, *words, env=ENVIRONMENT)
        for rank in range(ranks):
            end = self.fields(result, f"worker/{rank}", "conformance")
            self.assertEqual((end["size"], end["failed"]), (str(ranks), "0"))
            self.assertGreaterEqual(int(end["cases"]), 110)

    def test_one_rank(self):
        self.run_cases(1)

    def test_two_ranks(self):
        self.run_cases(2)

    def test_three_ranks(self):
        self.run_cases(3)


class Keras3(FrameworkTest):
    """Its trainers call the optimizer's `apply`, whatever else is overridden."""

    def run_on(self, backend):
        keras3 = pathlib.Path(sys.prefix) / "keras3"
        env = {**ENVIRONMENT, "KERAS_BACKEND": backend, "PYTHONPATH": f"{keras3}:{ENVIRONMENT['PYTHONPATH']}"}
        result = self.run_program("-n", 2, *self.program("keras3_parts.py", self.folder), env=env)
        ends = [self.fields(result, f"worker/{rank}", "trained") for rank in range(2)]
        for end in ends:
            self.assertEqual((end["keras"][0], end["backend"]), ("3", backend))
            self.assertEqual(end["tensorflow"], str(backend == "tensorflow"))
            self.assertEqual(end["refused"], "4")  # what is neither an average nor a sum
            self.assertLess(max(map(float, end["errors"].split(","))), 1e-5)
            self.assertGreater(float(end["alone"]), 1e-4)  # what no exchange would have given
        self.assertEqual(ends[0]["loss"], ends[1]["loss"])

    def test_on_tensorflow(self):
        self.run_on("tensorflow")

    def test_on_torch(self):
        self.run_on("torch")


class HorovodPrograms(FrameworkTest):
    def run_script(self, name, *arguments):
        result = self.run_program("-n", 2, *self.program(name, *arguments), env=ENVIRONMENT)
        ends = [self.fields(result, f"worker/{rank}", "trained") for rank in range(2)]
        self.assertEqual([(end["rank"], end["size"]) for end in ends], [("0", "2"), ("1", "2")])
        self.assertEqual(ends[0]["weights"], ends[1]["weights"])
        return ends

    def test_gradient_tape(self):
        for end in self.run_script("horovod_tf2_tape.py"):
            self.assertLess(float(end["loss"]), 1.0)

    def test_keras_with_its_callbacks(self):
        ends = self.run_script("horovod_keras.py", self.folder)
        self.assertEqual(ends[0]["loss"], ends[1]["loss"])  # averaged
        self.assertGreater(float(ends[0]["accuracy"]), 0.9)
        rates = [float(rate) for rate in ends[0]["lr"].split(",")]
        self.assertEqual(rates, sorted(rates))
        self.assertAlmostEqual(rates[4], 0.004, places=5)
        for rank in range(2):
            self.assertTrue((self.folder / "logs" / f"worker_{rank}" / "training.csv").exists())


if __name__ == "__main__":
    unittest.main()
