"""Limits of the system: processes, memory, sizes of files; and jobs of many tasks, which may be stopped while they start."""

import os
import resource
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from launcher import COHORT, SANITIZED, LauncherTest

OTHER_USER = 54321  # a user who has no other processes: root is bound by no number of them


class Limits(LauncherTest):
    def limited(self, *limits, words=("-n", "1", "--", "/bin/true"), user=None):
        def prepare():
            for kind, value in limits:
                resource.setrlimit(kind, (value, value))
        command, folder = COHORT, self.folder
        if user is not None:
            folder = tempfile.mkdtemp(prefix="cohort-test-limits-")
            self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
            command = shutil.copy(COHORT, folder)
            os.chown(folder, user, user)
        identity = {} if user is None else {"user": user, "group": user, "extra_groups": []}
        return subprocess.run([command, "run", "--output", f"{folder}/limited", *words], capture_output=True,
                              text=True, timeout=60, cwd=folder, preexec_fn=prepare, env=self.environment(),
                              **identity)

    def check_named(self, result, limit):
        self.assertNotIn("terminate called", result.stderr)
        if result.returncode != 0:
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertIn(limit, result.stderr)
        return result.returncode

    @unittest.skipIf(os.geteuid() != 0 or SANITIZED, "needs a user of its own, and no sanitizer")
    def test_too_few_processes_are_named_as_the_reason(self):
        codes = [self.check_named(self.limited((resource.RLIMIT_NPROC, n), user=OTHER_USER), f"ulimit -u, now {n}")
                 for n in (1, 4, 10, 14, 20, 26, 200)]
        self.assertEqual((codes[0], codes[-1]), (1, 0))

    @unittest.skipIf(SANITIZED, "a sanitizer's own memory is larger")
    def test_too_little_memory_is_named_as_the_reason(self):
        for kib in (100000, 150000, 200000):
            self.check_named(self.limited((resource.RLIMIT_AS, kib * 1024)), f"ulimit -v, now {kib}")

    def test_a_file_that_may_not_grow_is_like_a_full_disk(self):
        result = self.limited((resource.RLIMIT_FSIZE, 16384),
                              words=("-n", "1", "--", "/bin/sh", "-c", "trap '' XFSZ; yes | head -c 100000"))
        self.assertEqual(result.returncode, 0, result.stderr[-500:])
        self.assertIn("ulimit -f", result.stderr)
        self.assertIn("the job goes on", result.stderr)
        self.assertEqual(result.stdout.count("y\n"), 50000)

    def test_tasks_have_the_signals_disposition_of_a_program(self):
        result = self.run_job("-n", 1, *self.python("""
import signal
print(signal.getsignal(signal.SIGPIPE), [line for line in open("/proc/self/status") if line.startswith("SigIgn")])
import os; os.execvp("grep", ["grep", "SigIgn", "/proc/self/status"])
"""))
        ignored = int(result.log("worker/0").decode().split("SigIgn:")[-1].split()[0], 16)
        self.assertFalse(ignored & 1 << (signal.SIGXFSZ - 1) and not self.ignored_here(signal.SIGXFSZ))

    @staticmethod
    def ignored_here(number):
        return signal.getsignal(number) == signal.SIG_IGN  # Python ignores it, and hands that down


class ManyTasks(LauncherTest):
    TASKS = 400

    def test_a_signal_is_answered_while_tasks_start(self):
        process = self.start("-n", self.TASKS, "--grace", 1, "--", "/bin/sleep", "600")
        self.wait_for(lambda: len(self.processes()) > 20, "the first tasks")
        begin = time.monotonic()
        process.send_signal(signal.SIGTERM)
        line = ""
        while "stopping the job" not in line:
            line = process.stderr.readline().decode()
            self.assertTrue(line, "the launcher ended without a word")
        answered = time.monotonic() - begin
        result = self.finish(process)
        self.assertEqual(result.code, 128 + signal.SIGTERM, result.stderr)
        self.assertLess(answered, 1.0)  # 100 ms on a machine that does nothing else

    @unittest.skipIf(SANITIZED, "their fork() copies all memory")
    def test_starting_costs_each_task_the_same(self):
        def cost(tasks):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            self.output = self.folder / f"out{tasks}"
            result = self.run_job("-q", "-n", tasks, "--", "/bin/true")
            self.assertEqual(result.code, 0, result.stderr[-500:])
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / tasks

        few, many = cost(100), cost(self.TASKS)
        self.assertLess(many, 3 * few + 0.002, f"{few * 1e3:.1f} ms each of 100, {many * 1e3:.1f} ms of {self.TASKS}")


if __name__ == "__main__":
    unittest.main()
