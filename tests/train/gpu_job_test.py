"""Jobs on GPUs: the same bits at one to four workers whatever gradients travel by, as graphs and one kernel at a time,
and when a worker is killed, which costs the others less than a second. Several workers share a GPU where there are
fewer GPUs. Needs a GPU, and a build with a LibTorch for CUDA; skipped where one of them is not there."""

import json
import os
import pathlib
import random
import re
import shutil
import statistics
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "launcher"))
sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "elastic"))
from elastic_job import ElasticTest  # noqa: E402
from launcher import BIN, PATIENCE  # noqa: E402

RESNET, GPT, LOOP = (str(BIN / name) for name in ("resnet_cifar", "gpt", "custom_loop"))
TINY_GPT = [GPT, "--num_layers", 2, "--num_heads", 2, "--width", 32, "--sequence", 32, "--dropout", 0.1, "--batch_size",
            12, "--max_steps", 8, "--sample", 0, "--virtual_shards", 4, "--device", "cuda"]


def gpu_problem():
    probe = BIN / "cohort-torch-probe"
    if not probe.exists():
        return "there is no LibTorch"
    found = json.loads(subprocess.run([probe], capture_output=True, text=True, timeout=120).stdout)
    return None if found.get("cuda") else "LibTorch computes on no GPU here: jobs on GPUs were not tried"


def cifar(folder, images=200):
    """Noise in files of CIFAR-10's layout."""
    folder.mkdir()
    draw = random.Random(1)
    for name in [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]:
        with open(folder / name, "wb") as out:
            for _ in range(images):
                out.write(bytes([draw.randrange(10)]) + draw.randbytes(3072))
    return folder


class GpuTest(ElasticTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if problem := gpu_problem():
            raise unittest.SkipTest(problem)

    def setUp(self):
        super().setUp()
        self.data = cifar(self.folder / "cifar")

    def resnet(self, *flags, steps=12):
        return [RESNET, "--data_dir", self.data, "--batch_size", 40, "--max_steps", steps, "--device", "cuda", *flags]

    def train(self, workers, *program, env=None):
        """Fingerprints, and all that was said."""
        result = self.run_job("-n", workers, "--", *program, env=env)
        text = result.stdout.decode() + result.stderr.decode()
        self.assertEqual(result.code, 0, text[-4000:])
        shutil.rmtree(self.output)
        return self.find_weights(text), text


class TheSameBits(GpuTest):
    def test_of_a_resnet_at_any_number_of_workers_and_by_any_way(self):
        program = self.resnet("--virtual_shards", 4)
        alone, _ = self.train(1, *program)
        for workers in (2, 3, 4):
            with self.subTest(workers=workers):
                weights, text = self.train(workers, *program, "--transport", "gpu")
                self.assertEqual(weights, alone)
                self.assertRegex(text, r"gradients on GPUs travel by (CUDA IPC|NCCL)")
        with self.subTest(by="host"):
            weights, text = self.train(2, *program)
            self.assertEqual(weights, alone)
            self.assertIn("gradients on GPUs travel by the host's memory", text)
        with self.subTest(by="mirrored"):
            weights, text = self.train(1, *program, "--distribution_strategy", "mirrored", "--num_replicas", 2)
            self.assertEqual(weights, alone)

    def test_over_nccl(self):
        program = self.resnet("--virtual_shards", 4)
        result = self.run_job("-n", 2, "--", *program, "--transport", "nccl")
        text = result.stdout.decode() + result.stderr.decode()
        if result.code != 0:
            self.assertIn("--transport is nccl, but ", text)
            self.skipTest(re.search(r"--transport is nccl, but (.*)", text)[1])
        shutil.rmtree(self.output)
        self.assertIn("travel by NCCL", text)
        alone, _ = self.train(1, *program)
        self.assertEqual(self.find_weights(text), alone)
        for workers in (3, 4):
            self.assertEqual(self.train(workers, *program, "--transport", "nccl")[0], alone)

    def test_of_a_gpt_with_dropout(self):
        alone, _ = self.train(1, *TINY_GPT)
        for workers in (2, 3):
            self.assertEqual(self.train(workers, *TINY_GPT, "--transport", "gpu")[0], alone)

    def test_of_graphs_and_single_kernels(self):
        for workers in (1, 2):
            with self.subTest(workers=workers):
                program = self.resnet("--virtual_shards", workers, "--transport", "gpu")
                recorded, text = self.train(workers, *program, "--cuda_graph", "on")
                self.assertIn("started as a CUDA graph", text)
                self.assertEqual(self.train(workers, *program, "--cuda_graph", "off")[0], recorded)


class TheHost(GpuTest):
    def test_waits_for_no_gpu_in_a_step_of_two_workers(self):
        counter = BIN / "libgpu_sync_counter.so"
        counts = []
        for steps in (60, 160):
            program = self.resnet("--fast", "--transport", "gpu", steps=steps)
            _, text = self.train(2, *program, env={"LD_PRELOAD": str(counter)})
            found = [json.loads(line) for line in re.findall(r"gpu_syncs ({.*})", text)]
            waits = [one["stream"] + one["device"] + one["copies"] for one in found]
            counts.append(max(waits, default=0))
        self.assertGreater(counts[0], 0, "the counter printed nothing")
        self.assertLess((counts[1] - counts[0]) / 100, 0.5, counts)  # those that read ten steps at once, and epochs' ends


class Loops(GpuTest):
    def test_of_ones_own_run_on_two_workers(self):
        fashion = pathlib.Path("/usr/share/datasets/fashion-mnist")
        if not fashion.exists():
            self.skipTest("dataset-fashion-mnist is not installed: custom_loop was not tried on a GPU")
        result = self.run_job("-n", 2, "--", LOOP, "--data_dir", fashion, "--max_steps", 20, "--device", "cuda")
        self.assertEqual(result.code, 0, result.stderr[-3000:])


class Killed(GpuTest):
    def test_a_worker_costs_less_than_a_second_and_no_bits(self):
        program = self.resnet("--virtual_shards", 3, "--transport", "gpu", steps=2000)
        job = self.start_job(*program, workers="2:3")
        for rank in (2, 0):  # one, then the chief
            self.wait_for_size(job, 3)
            view = job.view()[0]
            job.kill_pid(list(job.living_members().values())[rank])
            self.wait(job, lambda view=view: job.view()[0] > view, f"a view after {view}")
        self.check_result(job, *program)
        self.assertEqual(job.killed, 2)
        still = [float(number) for number in re.findall(r"stood still ([\d.]+) ms", job.tell())]
        print(f"gpu_job_test: the others stood still {still} ms", file=sys.stderr)
        self.assertTrue(still, job.tell())
        self.assertLess(statistics.median(still), 1000)


if __name__ == "__main__":
    if os.environ.get("COHORT_BIN_DIR") is None:
        sys.exit("gpu_job_test: COHORT_BIN_DIR is not set")
    unittest.main(verbosity=2)
