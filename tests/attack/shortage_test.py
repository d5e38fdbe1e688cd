"""The launcher has no descriptor left when a task is to be started again: it tries again until there is one."""

import os
import resource
import signal
import time
import unittest

from attack import SANITIZED, TESTS, AttackTest

MEMBER = str(TESTS / "member_program")
SERVED = str(TESTS / "ps_program")
FEW = 8  # fewer than a launcher has open


@unittest.skipIf(SANITIZED, "UBSan opens descriptors itself, and ends a process that has none")
class Shortage(AttackTest):
    def kill_without_descriptors(self, process, pid):
        """Kills a task while its launcher may open nothing; the launcher gets its limit back a second later."""
        before = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (FEW, before[1]))
        os.kill(pid, signal.SIGKILL)
        self.wait_for(lambda: not self.runs(pid), "the end of the task")
        time.sleep(1)
        self.assertIsNone(process.poll(), "the job is over")
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, before)

    def assert_started_again(self, tasks, killed):
        def is_there():
            return [t for t in self.wait_for_tasks(len(tasks))
                    if (t["type"], t["index"]) == (killed["type"], killed["index"]) and t["pid"] != killed["pid"]]
        self.wait_for(is_there, "the new process")

    def test_a_worker_of_an_elastic_job(self):
        process = self.start("-n", "1:2", "--elastic", "--", MEMBER, "--until", self.folder / "end")
        tasks = self.wait_for_tasks(2)
        self.kill_without_descriptors(process, tasks[1]["pid"])
        self.assert_started_again(tasks, tasks[1])
        (self.folder / "end").touch()
        result = self.finish(process)
        self.assertEqual(result.code, 0, result.stderr)
        self.assertIn("worker/1 cannot be started for the moment", result.stderr)

    def test_a_parameter_server(self):
        process = self.start("-n", 1, "--ps", 1, "--", SERVED, "--steps", 600, "--pause", 10)
        tasks = self.wait_for_tasks(2)
        server = next(t for t in tasks if t["type"] == "ps")
        time.sleep(0.5)  # it has said by then that it may be started again
        self.kill_without_descriptors(process, server["pid"])
        self.assert_started_again(tasks, server)
        result = self.finish(process)
        self.assertEqual(result.code, 0, result.stderr)
        self.assertIn("ps/0 cannot be started again for the moment", result.stderr)


if __name__ == "__main__":
    unittest.main()
