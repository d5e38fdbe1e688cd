"""The task that the launcher names as the root cause, when one rank of three fails in one of many ways.

COHORT_RUNS=200 runs each failure that often (as `make test-soak` does); 10 times without.
"""

import os
import subprocess
import sys
import unittest

from launcher import LauncherTest

PROGRAM = os.path.abspath(sys.argv.pop(1))
RUNS = int(os.environ.get("COHORT_RUNS", "10"))

# How one worker fails, and what the last line must say of it.
ERROR = r"failed with exit code 1 after \S+ s: failing_program: sample 30 is broken"
EARLY = (r"ended with exit code 0 after \S+ s while worker/\d (and worker/\d )?waited for it in "
         r"all_reduce #\d+ .*")
FAILURES = {
    "own": r"failed with exit code 2 after \S+ s: failing_program: sample 30 is broken\. Mend it\.",
    "plain": r"was killed by signal 6 \(SIGABRT\) after \S+ s: std::runtime_error: sample 30 is broken",
    "kill": r"was killed by signal 9 \(SIGKILL\) after \S+ s: step \d+ is the last",
    "segfault": r"was killed by signal 11 \(SIGSEGV\) after \S+ s: step \d+ is the last",
    "early": EARLY,
}
OTHERS = {
    "barrier": r"ended with exit code 0 after \S+ s while worker/\d (and worker/\d )?waited for it in "
               r"(barrier 'step 1'|all_reduce .*)",
    "abort": r"was killed by signal 6 \(SIGABRT\) after \S+ s: step \d+ is the last",
    "caught": r"failed with exit code 1 after \S+ s: the program failed",
    "exits": EARLY,
    "left": EARLY,
    "slow": ERROR,
    "torch": r"failed with exit code 1 after \S+ s: failing_program: mat1 and mat2 shapes cannot be "
             r"multiplied \(3x4 and 5x6\)",
    "wrapped": ERROR,
}


class RootCause(LauncherTest):
    def check(self, how, pattern, run):
        self.output = self.folder / f"{how}-{run}"
        result = self.run_job("-n", 3, "--grace", 20, "--", PROGRAM, how, run % 3, run % 7)
        self.assertNotEqual(result.code, 0, result.stderr)
        self.assertRegex(result.last_line,
                         rf"^cohort: worker/{run % 3} on \S+ \(pid \d+\) {pattern}$",
                         f"run {run} of '{how}':\n{result.stderr}")
        return result

    def test_the_right_task_is_named_every_time(self):
        wrong = []
        for how, pattern in FAILURES.items():
            right = 0
            for run in range(RUNS):
                try:
                    self.check(how, pattern, run)
                    right += 1
                except AssertionError as error:
                    wrong.append(str(error))
            print(f"{how}: {right} of {RUNS} name the right task", flush=True)
        self.assertFalse(wrong, "\n".join(wrong[:5]))

    def test_a_program_alone_keeps_its_own_buffer(self):
        process = subprocess.run([PROGRAM, "kill", "0", "0"], stdout=subprocess.PIPE, timeout=60,
                                 env=self.environment())
        self.assertEqual((process.returncode, process.stdout), (-9, b""))

    def test_what_it_said_is_in_the_record(self):
        result = self.check("own", FAILURES["own"], 1)
        words = {f"{task['type']}/{task['index']}": task["last_word"] for task in result.record()["tasks"]}
        self.assertEqual(words["worker/1"]["kind"], "error")
        self.assertEqual(words["worker/0"]["kind"], "lost_peer")
        self.assertEqual(words["worker/0"]["peer"], "worker/1")
        self.assertIn("all_reduce", words["worker/0"]["during"])
        self.assertIn("lost worker/1", result.stderr)

    def test_of_tasks_on_other_hosts_too(self):
        shell = self.folder / "shell"  # a remote shell that goes nowhere
        shell.write_text('#!/bin/sh\nshift\nexec "$@"\n')
        shell.chmod(0o755)
        result = self.run_job("-n", 3, "--hosts", "host0:1,host1:1,host2:1", "--address", "127.0.0.1",
                              "--remote-shell", shell, "--", PROGRAM, "own", 1, 3)
        self.assertRegex(result.last_line, r"^cohort: worker/1 on host1 \(pid \d+\) " + FAILURES["own"] + "$")
        self.assertEqual(result.log("worker/1"),
                         b"step 3 is the last\nfailing_program: sample 30 is broken. Mend it.\n")
        self.assertIn("worker/0 (exit code 1, lost worker/1)", result.stderr)

    def test_however_little_it_says(self):
        for how, pattern in OTHERS.items():
            with self.subTest(how):
                self.check(how, pattern, 1)


if __name__ == "__main__":
    unittest.main()
