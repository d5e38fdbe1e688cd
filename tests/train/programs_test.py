"""The training programs as a person starts them: alone, under `cohort run` and mpirun, by hand in two
terminals; the same bits at any size; checkpoints, logs and traces that other programs can read."""

import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "launcher"))
from launcher import BIN, PATIENCE, LauncherTest  # noqa: E402

MNIST, RESNET, LOOP = (str(BIN / name) for name in ("mnist", "resnet_cifar", "custom_loop"))
SHORT = ["--virtual_shards", "12", "--batch_size", "48", "--max_steps", "4"]


def write_cifar(folder):
    """Six small files in the layout of CIFAR-10's binary version: a label and 3,072 pixels a record."""
    folder.mkdir(parents=True)
    for number, name in enumerate([f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]):
        records = bytearray()
        for i in range(10000):
            label = (i * 7 + number) % 10
            records.append(label)
            records += bytes([(label * 25 + i + number) % 256]) * 3072
        (folder / f"{name}.bin").write_bytes(records)


class ProgramTest(LauncherTest):
    def run_alone(self, *words, env=None):
        done = subprocess.run(list(words), capture_output=True, text=True, timeout=PATIENCE * 3,
                              env=self.environment(**(env or {})), cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stdout[-2000:] + done.stderr[-2000:])
        return done.stdout

    def run_workers(self, workers, *words):
        result = self.run_job("-n", workers, "--", *words)
        self.assertEqual(result.code, 0, result.stderr[-2000:])
        shutil.rmtree(self.output)
        return result.stdout.decode()

    def weights(self, text):
        found = re.findall(r"weights ([0-9a-f]{64})", text)
        self.assertEqual(len(found), 1, text[-2000:])
        return found[0]


class TheSameBits(ProgramTest):
    def test_mnist_with_one_to_four_workers(self):
        alone = self.weights(self.run_alone(MNIST, *SHORT))
        for workers in (2, 3, 4):
            self.assertEqual(self.weights(self.run_workers(workers, MNIST, *SHORT)), alone,
                             f"{workers} workers")

    def test_mnist_with_replicas_in_one_process_and_in_two(self):
        alone = self.weights(self.run_alone(MNIST, *SHORT))
        mirrored = ["--distribution_strategy", "mirrored", "--num_replicas", "2"]
        self.assertEqual(self.weights(self.run_alone(MNIST, *SHORT, *mirrored)), alone)
        self.assertEqual(self.weights(self.run_workers(2, MNIST, *SHORT, "--num_replicas", "2")), alone)

    @unittest.skipUnless(os.geteuid() == 0, "only root may give a process a mount namespace")
    def test_mnist_over_tcp(self):
        # A mount namespace of its own makes a process a host of its own.
        over_tcp = self.run_workers(2, "unshare", "--mount", MNIST, *SHORT)
        self.assertEqual(self.weights(over_tcp), self.weights(self.run_alone(MNIST, *SHORT)))

    def test_mnist_whose_workers_divide_its_state(self):
        alone = self.weights(self.run_alone(MNIST, *SHORT))
        hosts = ["unshare", "--mount"] if os.geteuid() == 0 else []
        for workers, shard, *where in ((3, "optimizer"), (2, "gradients"), (3, "parameters"), (2, "parameters", *hosts)):
            text = self.run_workers(workers, *where, MNIST, *SHORT, "--shard", shard)
            self.assertEqual(self.weights(text), alone, f"{workers} workers, --shard {shard}")

    def test_shard_is_refused_where_it_cannot_be(self):
        unknown = self.run_job("-n", 2, "--", MNIST, *SHORT, "--shard", "everything")
        self.assertNotEqual(unknown.code, 0)
        self.assertRegex(unknown.stderr, "everything.*optimizer")
        shutil.rmtree(self.output)
        elastic = self.run_job("-n", "1:2", "--elastic", "--", MNIST, *SHORT, "--shard", "optimizer")
        self.assertNotEqual(elastic.code, 0)
        self.assertRegex(elastic.stderr, "shard.*elastic")
        shutil.rmtree(self.output)
        servers = self.run_job("-n", 2, "--ps", 1, "--", MNIST, *SHORT, "--shard", "optimizer",
                               "--distribution_strategy", "parameter_server")
        self.assertNotEqual(servers.code, 0)
        self.assertRegex(servers.stderr, "shard.*server")

    def test_resnet_with_batch_norm_and_augmentation(self):
        write_cifar(self.folder / "cifar-10-batches-bin")
        words = [RESNET, "--data_dir", "cifar-10-batches-bin/", "--virtual_shards", "4", "--batch_size",
                 "16", "--max_steps", "3"]
        alone = self.weights(self.run_alone(*words))
        for workers in (2, 3):
            together = self.run_workers(workers, *words, "--distribution_strategy",
                                        "multi_worker_mirrored")
            self.assertEqual(self.weights(together), alone, f"{workers} workers")

    def test_resumed_with_another_number_of_workers(self):
        straight = self.weights(self.run_alone(MNIST, *SHORT))
        begin = [*SHORT[:-1], "2", "--model_dir", self.folder / "model"]
        self.run_workers(3, MNIST, *begin)
        rest = self.run_workers(2, MNIST, *SHORT, "--model_dir", self.folder / "model", "--resume")
        self.assertEqual(self.weights(rest), straight)


class Starting(ProgramTest):
    def test_under_mpirun(self):
        if not shutil.which("mpirun"):
            self.skipTest("mpirun is not installed")
        text = self.run_alone("mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2", MNIST, *SHORT)
        self.assertEqual(self.weights(text), self.weights(self.run_alone(MNIST, *SHORT)))

    def test_by_hand_in_two_terminals(self):
        ports = []
        for _ in range(2):
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                ports.append(probe.getsockname()[1])
        cluster = {"worker": [f"localhost:{port}" for port in ports]}
        started = [subprocess.Popen(
            [MNIST, *SHORT, "--distribution_strategy", "multi_worker_mirrored"], cwd=self.folder,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=self.environment(TF_CONFIG=json.dumps(
                {"cluster": cluster, "task": {"type": "worker", "index": index}})))
            for index in range(2)]
        texts = []
        for process in started:
            stdout, stderr = process.communicate(timeout=PATIENCE * 3)
            self.assertEqual(process.returncode, 0, stderr[-2000:])
            texts.append(stdout)
        self.assertIn("2 workers", texts[0])
        self.assertEqual(self.weights(texts[0]), self.weights(self.run_alone(MNIST, *SHORT)))

    def test_the_small_api(self):
        self.run_alone(LOOP, "--max_steps", "2")
        self.run_workers(2, LOOP, "--max_steps", "2")

    def test_fast_dev_run_writes_nothing(self):
        self.run_alone(MNIST, "--fast_dev_run", "--model_dir", self.folder / "model")
        self.assertFalse((self.folder / "model").exists())

    def test_bad_flags_are_named(self):
        for words, complaint in [
                (["--batch_sise", "3"], "--batch_sise"),
                (["--virtual_shards", "x"], "x"),
                (["--distribution_strategy", "sideways"], "sideways"),
                (["--data_dir", "/nowhere"], "/nowhere"),
                (["--precision", "f8"], "f8"),
                (["--batch_size", "0"], "batch_size must be at least 1, got 0")]:
            done = subprocess.run([MNIST, *words], capture_output=True, text=True, timeout=PATIENCE,
                                  env=self.environment(), cwd=self.folder)
            self.assertEqual(done.returncode, 2, f"{words}: {done.stderr}")
            self.assertIn(complaint, done.stderr)


class WhatARunLeaves(ProgramTest):
    def test_files_that_other_programs_read(self):
        model = self.folder / "model"
        write_cifar(self.folder / "data")
        self.run_workers(2, RESNET, "--data_dir", "data", "--batch_size", "8", "--max_steps", "2",
                         "--model_dir", model, "--trace")
        checkpoint = json.loads(next((model / "checkpoints").glob("step-*.json")).read_text())
        self.assertEqual(checkpoint["checkpoint"]["state"]["config"]["batch_size"], "8")
        trace = json.loads((model / "trace" / "trace.json").read_text())
        names = {event.get("name") for event in trace["traceEvents"]}
        self.assertIn("step", names)
        self.assertIn("bucket 0", names)
        self.assertEqual({event["pid"] for event in trace["traceEvents"] if event["name"] == "step"}, {0, 1})
        for worker in (0, 1):
            lines = (model / "logs" / f"worker-{worker}.jsonl").read_text().splitlines()
            self.assertEqual([json.loads(line)["event"] for line in lines], ["begin", "end"])
        self.assertTrue(list((model / "tensorboard").glob("events.out.tfevents.*")))
        try:
            from safetensors.numpy import load_file
        except ImportError:
            self.skipTest("Python's safetensors is not installed: its reading was not tried")
        tensors = load_file(next((model / "checkpoints").glob("*.safetensors")))
        self.assertIn("model.stem.weight", tensors)
        self.assertEqual(tensors["model.stem.weight"].shape, (16, 3, 3, 3))


if __name__ == "__main__":
    unittest.main()
