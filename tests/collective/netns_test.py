"""Jobs whose hosts are network namespaces of this machine: real addresses, links that can be cut.

usage: netns_test.py RANK_PROGRAM
Exit 77, with the reason, where this user may not make network namespaces.
"""

import pathlib
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "network"))
from namespaces import PATIENCE, HostsTest, skip_where_impossible  # noqa: E402

PROGRAM = str(pathlib.Path(sys.argv.pop(1)).resolve()) if len(sys.argv) > 1 else ""


class Rank:
    """One process of a job; its output is read line by line, with the time at which each came."""

    def __init__(self, command, environment):
        self.process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.lines, self.errors = [], []
        self.changed = threading.Condition()
        self.readers = [threading.Thread(target=self.read, args=pair, daemon=True)
                        for pair in ((self.process.stdout, self.lines), (self.process.stderr, self.errors))]
        for reader in self.readers:
            reader.start()

    def read(self, pipe, lines):
        for line in pipe:
            with self.changed:
                lines.append((time.monotonic(), line.rstrip("\n")))
                self.changed.notify_all()
        with self.changed:
            lines.append((time.monotonic(), ""))
            self.changed.notify_all()

    def line(self, number):
        with self.changed:
            self.changed.wait_for(lambda: len(self.lines) > number, PATIENCE)
            return self.lines[number] if len(self.lines) > number else (time.monotonic(), "nothing in time")

    def end(self):
        self.process.kill()
        self.process.wait()
        for reader in self.readers:
            reader.join()
        self.process.stdout.close()
        self.process.stderr.close()


class Hosts(HostsTest):
    def start(self, hosts, mode, ranks_each=2, **variables):
        """`ranks_each` ranks on each of `hosts`; None stands for this machine itself."""
        places = [host for host in hosts for _ in range(ranks_each)]
        cluster = [self.new_address(host) for host in places]
        ranks = []
        for index, host in enumerate(places):
            ranks.append(self.rank(host, {"cluster": {"worker": cluster}, "task": {"type": "worker", "index": index}},
                                   mode, **variables))
        return ranks

    def rank(self, host, tf_config, mode, **variables):
        command = [PROGRAM, "world", *map(str, mode if isinstance(mode, tuple) else (mode,))]
        rank = Rank(self.on_host(host, command), self.environment(tf_config, **variables))
        self.addCleanup(rank.end)
        return rank

    def await_ready(self, ranks):
        for rank in ranks:
            self.assertEqual(rank.line(0)[1], "ready", rank.errors)

    def digests(self, ranks, backend):
        self.await_ready(ranks)
        lines = [rank.line(1)[1] for rank in ranks]
        for line in lines:
            self.assertRegex(line, f"^digest [0-9a-f]{{8}} over {backend}$")
        return [line.split()[1] for line in lines]

    def test_the_bits_are_those_of_one_host(self):
        for hosts in ([0, 1], [0, 1, 2]):
            alone = self.digests(self.start([None] * len(hosts), "digest"), "shm")
            self.assertEqual(self.digests(self.start(hosts, "digest"), "hierarchical"), alone)
        self.assertEqual(self.digests(self.start(hosts, "digest", COHORT_TLS="1", COHORT_STREAMS="3"), "hierarchical"),
                         alone)

    def test_a_cut_link_is_noticed_at_the_deadline_by_all_ranks(self):
        ranks = self.start([0, 1], "brief")
        self.await_ready(ranks)
        time.sleep(0.5)  # in the middle of things
        self.network.cut(1)
        self.addCleanup(self.network.mend, 1)
        cut = time.monotonic()
        for index, rank in enumerate(ranks):
            when, text = rank.line(1)
            others = self.network.address(1 if index < 2 else 0)
            self.assertIn(f"on {others}", text)
            self.assertRegex(text, r"error rank \d \(worker/\d on .*in time.* \(during ")
            self.assertLess(when - cut, 2 + 6)  # the deadline of each call, and a busy machine
            self.assertGreater(when - cut, 0.5)

    def test_a_rank_that_is_killed_is_named_by_the_ranks_of_all_hosts(self):
        worst = []
        for victim in (0, 3, 5):
            ranks = self.start([0, 1, 2], "loop")
            self.await_ready(ranks)
            time.sleep(0.2)  # in the middle of things
            killed = time.monotonic()
            ranks[victim].process.kill()
            times = []
            for index, rank in enumerate(ranks):
                if index == victim:
                    continue
                when, text = rank.line(1)
                self.assertIn(f"error rank {victim} (worker/{victim} on {self.network.address(victim // 2)})", text)
                times.append(when - killed)
            worst.append(max(times))
        print(f"a killed rank was named on three hosts within {', '.join(f'{1000 * t:.0f} ms' for t in worst)}")
        self.assertLess(sorted(worst)[1], 1.0)  # 100 ms on a machine of its own

    def test_a_network_without_a_secret_is_refused(self):
        for rank in self.start([0, 1], "digest", ranks_each=1, COHORT_SECRET_FILE=""):
            _, text = rank.line(0)
            self.assertIn("refused", text)
            self.assertIn("can be reached from the network, and this job has no secret", text)
            self.assertEqual(rank.process.wait(PATIENCE), 1)

    def test_a_task_with_another_secret_is_refused_and_the_job_goes_on(self):
        cluster = {"worker": [self.new_address(host) for host in (0, 1)]}
        chief = self.rank(0, {"cluster": cluster, "task": {"type": "worker", "index": 0}}, "digest")
        task = {"cluster": cluster, "task": {"type": "worker", "index": 1}}
        stranger = self.rank(1, task, "digest", COHORT_SECRET_FILE=self.secret("another"))
        self.assertIn("secret", stranger.line(0)[1])
        self.assertEqual(stranger.process.wait(PATIENCE), 1)
        self.digests([chief, self.rank(1, task, "digest")], "network")


if __name__ == "__main__":
    skip_where_impossible()
    unittest.main()
