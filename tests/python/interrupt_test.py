"""Ctrl-C, and other signals with a handler, end a blocked collective at once; the peer's error names who left."""

import os
import re
import signal
import sys
import time
import unittest

import jobs
from needed_packages import need

need("numpy")
PEER = r"rank 1: HorovodInternalError after .* s, peer 0: rank 0 \(worker/0 "


class Interrupt(unittest.TestCase):
    def interrupted(self, how, number=signal.SIGINT):
        """The output of both ranks after rank 0 got a signal while it waited, and how long it took to end."""
        process = jobs.start(jobs.job_command(2, jobs.RANKS / "blocked.py", how))
        said, pids = "", {}
        while len(pids) < 2:
            line = process.stdout.readline()
            self.assertTrue(line, said)
            said += line
            found = re.search(r"(\d+) of rank (\d)", line)
            if found:
                pids[found.group(2)] = int(found.group(1))
        time.sleep(0.5)
        os.kill(pids["0"], number)
        sent = time.monotonic()
        while not re.search("rank 0: ", said):
            line = process.stdout.readline()
            self.assertTrue(line, said)
            said += line
        took = time.monotonic() - sent
        status, rest = jobs.finish(process, 30)
        self.assertNotEqual(status, 0)
        self.assertLess(took, 1, said + rest)
        return said + rest

    def check(self, how):
        said = self.interrupted(how)
        self.assertRegex(said, r"rank 0: KeyboardInterrupt")
        return said

    def test_a_blocking_call(self):
        self.assertRegex(self.check("blocking"), PEER)

    def test_a_handle(self):
        self.assertRegex(self.check("handle"), PEER)

    def test_large_arrays(self):
        self.check("large")

    def test_the_opening_of_a_world(self):
        self.check("world")

    def test_a_handler_of_the_program(self):
        said = self.interrupted("handler", signal.SIGUSR1)
        self.assertRegex(said, r"rank 0: InterruptedError after .* s, peer None: signal 10")


if __name__ == "__main__":
    unittest.main()
