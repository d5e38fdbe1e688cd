"""The recommender as a person starts it: its embedding tables in its own process and on parameter
servers, where a table may be larger than any one server's memory."""

import pathlib
import re
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "launcher"))
from launcher import BIN, PATIENCE, LauncherTest  # noqa: E402

RECOMMENDER = str(BIN / "recommender")
SERVERS = ["--distribution_strategy", "parameter_server"]
SMALL = ["--users", "2000", "--items", "200", "--samples", "60000", "--batch_size", "256"]
SHORT = [*SMALL, "--max_steps", "30"]
# About 9.4 MB of users on one server, half of that on each of two.
LARGE = ["--users", "20000", "--dimension", "64", "--samples", "40000", "--batch_size", "256",
         "--train_epochs", "1", "--ps_memory_limit", "7500000"]


class Recommender(LauncherTest):
    def run_alone(self, *words):
        return subprocess.run([RECOMMENDER, *words], capture_output=True, text=True, cwd=self.folder,
                              timeout=PATIENCE * 3, env=self.environment())

    def run_servers(self, workers, servers, *words):
        result = self.run_job("-n", workers, "--ps", servers, "--", RECOMMENDER, *SERVERS, *words)
        shutil.rmtree(self.output, ignore_errors=True)
        return result

    def found(self, pattern, text):
        matches = re.findall(pattern, text)
        self.assertEqual(len(matches), 1, text[-2000:])
        return matches[0]

    def curve(self, text):
        return float(self.found(r"area under the curve (\d\.\d+)", text))

    def test_learns_alone(self):
        done = self.run_alone(*SMALL)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        self.assertGreater(self.curve(done.stdout), 0.75)
        self.assertIn("table users: up to 2000 rows of 16 floats, 0.3 MB", done.stdout)

    def test_replicas_without_servers_are_refused(self):
        done = self.run_alone(*SHORT, "--distribution_strategy", "mirrored", "--num_replicas", "2")
        self.assertEqual(done.returncode, 2, done.stderr[-2000:])
        self.assertIn("embedding table 'items' cannot be shared by 2 replicas", done.stderr)
        self.assertIn("Use --distribution_strategy parameter_server.", done.stderr)

    def test_learns_with_servers(self):
        for mode in ("true", "false"):
            result = self.run_servers(2, 2, *SMALL, "--sync_replicas", mode)
            self.assertEqual(result.code, 0, result.stderr[-2000:])
            self.assertGreater(self.curve(result.stdout.decode()), 0.75, f"sync_replicas {mode}")

    def test_one_worker_with_servers_has_the_bits_of_one_alone(self):
        weights = r"weights ([0-9a-f]{64})"
        alone = self.run_alone(*SHORT)
        self.assertEqual(alone.returncode, 0, alone.stderr[-2000:])
        for servers in (1, 2):
            result = self.run_servers(1, servers, *SHORT)
            self.assertEqual(result.code, 0, result.stderr[-2000:])
            self.assertEqual(self.found(weights, result.stdout.decode()),
                             self.found(weights, alone.stdout), f"{servers} servers")

    def test_checkpoints_hold_the_tables(self):
        words = [*SMALL, "--keep_for", "20", "--admit_after", "2"]

        def seen(text):
            return self.found(r"weights ([0-9a-f]{64})", text), self.curve(text)

        def alone(*more):
            done = self.run_alone(*words, *map(str, more))
            self.assertEqual(done.returncode, 0, done.stderr[-2000:])
            return seen(done.stdout)

        def servers(count, *more):
            result = self.run_servers(1, count, *words, *more)
            self.assertEqual(result.code, 0, result.stderr[-2000:])
            return seen(result.stdout.decode())

        first, second = self.folder / "first", self.folder / "second"
        servers(2, "--max_steps", 15, "--model_dir", first)
        shutil.copytree(first, second)
        straight = alone("--max_steps", 30)
        self.assertEqual(servers(1, "--max_steps", 30, "--model_dir", first, "--resume"), straight)
        self.assertEqual(alone("--max_steps", 30, "--model_dir", second, "--resume"), straight)
        # What one process alone saved, on two servers.
        self.assertEqual(servers(2, "--max_steps", 40, "--model_dir", second, "--resume"), alone("--max_steps", 40))

    def test_a_table_larger_than_a_server_needs_two(self):
        one = self.run_servers(1, 1, *LARGE)
        self.assertNotEqual(one.code, 0)
        self.assertRegex(one.stderr, r"table 'users' .*limit of .*Use more servers .*--ps_memory_limit")
        two = self.run_servers(1, 2, *LARGE)
        self.assertEqual(two.code, 0, two.stderr[-2000:])


if __name__ == "__main__":
    unittest.main()
