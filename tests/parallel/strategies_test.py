"""Strategies in real processes: under the launcher, under mpirun, and by hand with TF_CONFIG."""

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

PROGRAM = os.environ.get("REPLICA_PROGRAM", str(BIN.parent / "tests/replica_program"))
LINE = re.compile(r"replica (\d+) of (\d+) sum (\d+) over (\S+) same (\w+) weights (\S+)")


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


class Strategies(LauncherTest):
    def expect_replicas(self, output, size):
        """Every replica of `size` found the same sum, and the same weights after training."""
        found = {int(m[1]): m.groups() for m in LINE.finditer(output)}
        self.assertEqual(sorted(found), list(range(size)), output)
        for _, of, total, _, same, _ in found.values():
            self.assertEqual((int(of), int(total), same), (size, size * (size - 1) // 2, "true"))
        return {(over, weights) for _, _, _, over, _, weights in found.values()}

    def run_alone(self, *words, env=None):
        return subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True,
                              timeout=PATIENCE, env=self.environment(**(env or {})), check=False)

    def test_alone_there_is_one_replica(self):
        result = self.run_alone()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.expect_replicas(result.stdout, 1)

    def test_mirrored_replicas_of_one_process(self):
        result = self.run_alone("--distribution_strategy", "mirrored", "--num_replicas=2")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.expect_replicas(result.stdout, 2)
        self.assertIn("over inproc", result.stdout)

    def test_two_and_three_workers(self):
        for workers in (2, 3):
            with self.subTest(workers=workers):
                self.output = self.folder / f"out{workers}"
                result = self.run_job("-n", workers, "--", PROGRAM)
                self.assertEqual(result.code, 0, result.stderr)
                self.expect_replicas(result.stdout.decode(), workers)

    def test_two_workers_with_two_replicas_each(self):
        result = self.run_job("-n", 2, "--strategy", "multi_worker_mirrored", "--", PROGRAM,
                              "--num_replicas", 2)
        self.assertEqual(result.code, 0, result.stderr)
        self.expect_replicas(result.stdout.decode(), 4)

    def test_parameter_servers_leave_when_the_workers_are_done(self):
        result = self.run_job("-n", 2, "--ps", 1, "--", PROGRAM,
                              "--distribution_strategy=multi_worker_mirrored")
        self.assertEqual(result.code, 0, result.stderr)
        self.expect_replicas(result.stdout.decode(), 2)

    def test_a_replicas_error_is_the_jobs_root_cause(self):
        result = self.run_job("-n", 2, "--", PROGRAM, "--num_replicas=2", "throw", 3)
        self.assertNotEqual(result.code, 0)
        self.assertIn("replica 3 has a label 12 of 10", result.log("worker/1").decode())
        self.assertIn("worker/1", result.last_line)
        self.assertLess(result.seconds, 30)

    def test_a_killed_worker_ends_the_job(self):
        result = self.run_job("-n", 2, "--", PROGRAM, "--num_replicas=2", "kill", 2)
        self.assertNotEqual(result.code, 0)
        self.assertIn("worker/1", result.last_line)
        self.assertLess(result.seconds, 30)

    def test_bad_flags_are_named_by_every_worker(self):
        for flags, texts in ((["--distribution_strategy=miror"], ["'miror'", "mirrored"]),
                             (["--distribution_strategy=one_device"], ["2 workers"]),
                             (["--distribution_strategy=parameter_server"], ["needs ps tasks", "--ps N"]),
                             (["--num_gpus=400"], ["--num_gpus is 400", "GPUs"])):
            with self.subTest(flags=flags):
                self.output = self.folder / flags[0].strip("-")
                result = self.run_job("-n", 2, "--", PROGRAM, *flags)
                self.assertNotEqual(result.code, 0)
                for text in texts:
                    self.assertIn(text, result.stderr)

    def test_by_hand_in_two_terminals(self):
        cluster = {"worker": [f"localhost:{port}" for port in free_ports(2)]}
        tasks = []
        for index in (1, 0):
            config = {"cluster": cluster, "task": {"type": "worker", "index": index}}
            tasks.append(subprocess.Popen(
                [PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                env=self.environment(TF_CONFIG=json.dumps(config))))
        outputs = [task.communicate(timeout=PATIENCE) for task in tasks]
        self.assertEqual([task.returncode for task in tasks], [0, 0], outputs)
        self.expect_replicas("".join(stdout for stdout, _ in outputs), 2)

    def mpirun(self, ranks, *words, program=PROGRAM):
        return subprocess.run(
            ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", str(ranks), program, *words],
            capture_output=True, text=True, timeout=PATIENCE, env=self.environment(), check=False)

    @unittest.skipUnless(shutil.which("mpirun"), "no mpirun here")
    def test_under_mpirun(self):
        for words, size in (([], 2), (["--num_replicas=2"], 4)):
            with self.subTest(size=size):
                result = self.mpirun(2, *words)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.expect_replicas(result.stdout, size)

    @unittest.skipUnless(shutil.which("mpirun"), "no mpirun here")
    def test_over_mpi_with_the_same_bits(self):
        results = {name: self.mpirun(3, f"--transport={name}") for name in ("auto", "mpi")}
        if "built without MPI" in results["mpi"].stderr:
            self.skipTest("this build has no MPI")
        bits = {}
        for name, result in results.items():
            self.assertEqual(result.returncode, 0, result.stderr)
            (over, bits[name]), = self.expect_replicas(result.stdout, 3)
            self.assertEqual(over, {"auto": "shm", "mpi": "mpi"}[name])
        self.assertEqual(bits["mpi"], bits["auto"])

    @unittest.skipUnless(shutil.which("mpirun"), "no mpirun here")
    def test_an_error_under_mpirun_ends_all(self):
        for words in ((), ("--transport=mpi",)):
            with self.subTest(words=words):
                result = self.mpirun(2, *words, "throw", "1")
                self.assertNotEqual(result.returncode, 0)
                if "built without MPI" not in result.stderr:
                    self.assertIn("replica 1 has a label 12 of 10", result.stderr)

    def test_mpi_is_refused_without_mpirun(self):
        result = self.run_alone("--transport", "mpi")
        self.assertEqual(result.returncode, 1)
        self.assertIn("neither mpirun nor srun started this process", result.stderr)
        result = self.run_job("-n", 2, "--", PROGRAM, "--transport=mpi")
        self.assertNotEqual(result.code, 0)
        self.assertIn("--transport is mpi, but", result.stderr)


if __name__ == "__main__":
    unittest.main()
