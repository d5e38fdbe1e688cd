"""Elastic jobs on several hosts (network namespaces) whose links are cut while they train.

Exit 77, with the reason, where this user may not make network namespaces.
"""

import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "network"))
from elastic_job import PROGRAM, ElasticTest  # noqa: E402
from namespaces import ThreeHosts, skip_where_impossible  # noqa: E402

REMOTE_SHELL = pathlib.Path(__file__).parents[1] / "launcher" / "remote_shell.py"
WORDS = [PROGRAM, "--steps", 300, "--shards", 6, "--pause", 60]


class NetworkTest(ThreeHosts, ElasticTest):
    """Three hosts; the launcher is on the first. Programs reach the others over links that can be cut."""

    def setUp(self):
        super().setUp()
        environment = {name: value for name, value in os.environ.items() if not name.startswith("COHORT_")}
        for host in (1, 2):
            server = subprocess.Popen([*self.network.enter(host), sys.executable, str(REMOTE_SHELL), "serve"],
                                      stdout=subprocess.PIPE, env=environment)
            self.addCleanup(server.stdout.close)
            self.addCleanup(server.wait)
            self.addCleanup(server.kill)
            server.stdout.readline()

    def start_training(self):
        self.slow.touch()
        hosts = ",".join(f"{self.network.address(host)}:1" for host in range(3))
        job = self.start_job(*WORDS, workers="2:3", where=self.network.enter(0), options=[
            "--lease", 1, "--hosts", hosts, "--remote-shell", f"{sys.executable} {REMOTE_SHELL}", "--env",
            f"LAUNCHER_TEST={self.folder.name}"])
        self.wait_for_size(job, 3)
        self.wait_for_steps(job, 5)
        return job

    def steps_of(self, job, worker):
        """How many steps all processes of that worker have written down."""
        return sum(len(path.read_text().splitlines()) for path in job.times.glob(f"worker-{worker}.*"))

    def worker_on(self, job, host):
        return next(index for index, task in job.tasks().items() if task["host"] == self.network.address(host))

    def test_a_cut_host_stops_by_itself_and_comes_back(self):
        for host in (1, 2):
            with self.subTest(host=host):
                job = self.start_training()
                worker, view = self.worker_on(job, host), job.view()[0]
                self.network.cut(host)
                self.addCleanup(self.network.mend, host)
                self.wait(job, lambda: job.events("resumed", view + 1), "training on the other hosts")
                self.assertNotIn(worker, [member for member, _ in job.view()[1]])
                stood = self.steps_of(job, worker)
                self.wait_for_steps(job, 20)
                self.assertEqual(self.steps_of(job, worker), stood, "the cut-off worker goes on by itself")
                self.network.mend(host)
                self.wait_for_size(job, 3)
                self.wait_for_steps(job, 5)
                self.check_result(job, *WORDS)

    def test_a_short_cut_changes_no_bit(self):
        job = self.start_training()
        self.network.cut(1)
        self.addCleanup(self.network.mend, 1)
        self.network.mend(1)
        self.wait_for_steps(job, 20)
        self.check_result(job, *WORDS)


if __name__ == "__main__":
    skip_where_impossible()
    unittest.main()
