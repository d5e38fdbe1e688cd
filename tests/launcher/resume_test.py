"""cohort resume: a job whose launcher was killed goes on, and what cannot go on is refused by name."""

import signal
import subprocess
import unittest

from launcher import COHORT, LauncherTest

# Its first life waits to be killed; the second one ends.
PROGRAM = """
import os, sys, time
keys = ("COHORT_JOB", "COHORT_ATTEMPT", "COHORT_RESUME", "COHORT_OUTPUT", "GIVEN")
print("life", *[os.environ.get(key, "-") for key in keys], sys.argv[1], flush=True)
if os.environ.get("COHORT_RESUME") != "1":
    time.sleep(1000)
"""


class Resume(LauncherTest):
    def resume(self, job=None, **options):
        return subprocess.run([COHORT, "resume", str(job or self.output)], capture_output=True, text=True, timeout=60,
                              env=self.environment(), **options)

    def refused(self, *words, job=None):
        result = self.resume(job)
        self.assertEqual(result.returncode, 2, result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)

    def start_program(self):
        self.script(PROGRAM)
        process = self.start("-n", 2, "--env", "GIVEN=x y", "--", "python3", "task.py", "argument")
        for task in "worker/0", "worker/1":
            self.wait_for_log(task, "life")
        return process

    def test_a_killed_job_goes_on_as_it_was_asked_to_be(self):
        process = self.start_program()
        self.refused("still runs", f"launcher pid {process.pid}")
        process.send_signal(signal.SIGKILL)
        process.communicate()
        result = self.resume(cwd="/")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("goes on (it was running)", result.stderr)
        self.assert_nothing_left()
        lives = []
        for attempt in 1, 2:
            for worker in 0, 1:
                log = self.output / "logs" / f"worker-{worker}.attempt{attempt}.log"
                lives.append(log.read_text().split())
        job = lives[0][1]
        self.assertEqual(lives[0], ["life", job, "1", "-", str(self.output), "x", "y", "argument"])
        self.assertEqual(lives[2], ["life", job, "2", "1", str(self.output), "x", "y", "argument"])
        self.assertEqual(lives[2], lives[3])
        self.refused(f"job {job} has succeeded")

    def test_a_job_file_and_a_hostfile_are_asked_again_where_the_job_was_started(self):
        self.script(PROGRAM)
        (self.folder / "job.toml").write_text('workers = 2\nhostfile = "hosts"\n[env]\nGIVEN = "file"\n')
        (self.folder / "hosts").write_text("localhost\n")
        process = self.start("--config", "job.toml", "--", "python3", "task.py", "argument")
        for task in "worker/0", "worker/1":
            self.wait_for_log(task, "life")
        process.send_signal(signal.SIGKILL)
        process.communicate()
        (self.folder / "job.toml").unlink()  # its words are kept, a file that they name is read again
        result = self.resume(cwd="/")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("file argument", (self.output / "logs" / "worker-1.attempt2.log").read_text())
        self.assert_nothing_left()

    def test_what_cannot_go_on_is_refused(self):
        self.refused("no job 'nothing'", job="nothing")
        process = self.start_program()
        process.send_signal(signal.SIGKILL)
        process.communicate()
        words = self.output / "job-options.json"
        # As an earlier version wrote it.
        words.write_text('{"command": ["true"], "workers": 2, "output": "out", "resume": false}')
        self.refused("job-options.json' does not hold the words", "start the job anew")
        words.unlink()
        self.refused("left no", "job-options.json")
        self.assert_nothing_left()


if __name__ == "__main__":
    unittest.main()
