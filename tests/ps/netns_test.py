"""Parameter servers and workers on hosts of their own (network namespaces), and links that are cut.

usage: netns_test.py PS_PROGRAM
Exit 77, with the reason, where this user may not make network namespaces.
"""

import pathlib
import re
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "network"))
from namespaces import PATIENCE, HostsTest, skip_where_impossible  # noqa: E402

PROGRAM = str(pathlib.Path(sys.argv.pop(1)).resolve()) if len(sys.argv) > 1 else ""
STEPS = 200


class Hosts(HostsTest):
    def setUp(self):
        super().setUp()
        self.acks = self.folder / "acks"
        self.acks.mkdir()

    def start(self, hosts, *options, **variables):
        """A server on hosts[0], workers on the others; None stands for this machine itself."""
        addresses = [self.new_address(host) for host in hosts]
        cluster = {"ps": addresses[:1], "worker": addresses[1:]}
        tasks = [("ps", 0)] + [("worker", i) for i in range(len(hosts) - 1)]
        processes = []
        for host, (kind, index) in zip(hosts, tasks):
            config = {"cluster": cluster, "task": {"type": kind, "index": index}}
            command = [PROGRAM, "--steps", str(STEPS), "--elements", "50000", "--durability", "none",
                       "--acks", str(self.acks), *options]
            process = subprocess.Popen(self.on_host(host, command), env=self.environment(config, **variables),
                                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            self.addCleanup(self.end, process)
            processes.append(process)
        return processes

    @staticmethod
    def end(process):
        process.kill()
        process.wait()
        process.stdout.close()

    def values(self, processes):
        outputs = [process.communicate(timeout=PATIENCE)[0] for process in processes]
        self.assertEqual([process.returncode for process in processes], [0] * len(processes), outputs)
        digests = set(re.findall("values ([0-9a-f]{64})", "".join(outputs)))
        self.assertEqual(len(digests), 1, outputs)
        for file in self.acks.iterdir():
            file.unlink()
        return digests.pop()

    def steps_done(self, worker):
        path = self.acks / f"worker-{worker}"
        return len(path.read_text().split()) if path.exists() else 0

    def wait_for_steps(self, steps):
        deadline = time.monotonic() + PATIENCE
        while self.steps_done(0) < steps and time.monotonic() < deadline:
            time.sleep(0.01)

    def test_hosts_of_their_own_have_the_bits_of_one_host(self):
        alone = self.values(self.start([None, None, None]))
        self.assertEqual(self.values(self.start([0, 1, 2])), alone)

    def test_a_cut_link_delays_and_loses_nothing(self):
        alone = self.values(self.start([None, None, None]))
        processes = self.start([0, 1, 2], "--pause", "2")
        for host in (0, 2):  # the server's, then a worker's
            self.wait_for_steps(self.steps_done(0) + 20)
            self.network.cut(host)
            time.sleep(0.3)  # what was on its way has arrived
            stood = self.steps_done(0)
            time.sleep(0.7)
            self.assertLessEqual(self.steps_done(0), stood + 1)
            self.network.mend(host)
        self.assertEqual(self.values(processes), alone)

    def test_a_network_without_a_secret_is_refused(self):
        for process in self.start([0, 1], COHORT_SECRET_FILE="")[1:]:
            output = process.communicate(timeout=PATIENCE)[0]
            self.assertIn("can be reached from the network, and this job has no secret", output)
            self.assertEqual(process.returncode, 2)


if __name__ == "__main__":
    skip_where_impossible()
    unittest.main()
