"""A torch script of Horovod's users, unchanged: `import horovod.torch as hvd` finds Cohort."""

import unittest

from framework import HERE, FrameworkTest

PACKAGES = HERE.parents[1] / "python"


class HorovodTorch(FrameworkTest):
    def environment(self, **extra):
        path = f"{PACKAGES}:{PACKAGES / 'cohort-horovod'}"
        return super().environment(PYTHONPATH=path, PYTHONUNBUFFERED="1", **extra)

    def train(self, ranks, *arguments):
        """All ranks end with the same weights, and know the pictures that they were not shown."""
        result = self.run_program("-n", ranks, *self.program("horovod_torch_mnist.py", *arguments))
        ends = [self.fields(result, f"worker/{rank}", "trained") for rank in range(ranks)]
        self.assertEqual([(end["rank"], end["size"]) for end in ends], [(str(r), str(ranks)) for r in range(ranks)])
        self.assertEqual(len({end["weights"] for end in ends}), 1)
        self.assertEqual(len({end["accuracy"] for end in ends}), 1)
        self.assertGreater(float(ends[0]["accuracy"]), 0.9)

    def test_mnist(self):
        self.train(2)

    def test_mnist_with_adasum_and_three_ranks(self):
        self.train(3, "--use-adasum")

    def test_mnist_with_small_gradients(self):
        self.train(2, "--fp16-allreduce", "--gradient-predivide-factor", 2.0)


if __name__ == "__main__":
    unittest.main()
