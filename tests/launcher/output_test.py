"""What the person sees, and what is kept: prefixes, filters, log files, job.json."""

import os
import pty
import subprocess
import time
import unittest

from launcher import PATIENCE, SANITIZED, LauncherTest


class Lines(LauncherTest):
    def test_each_line_carries_host_and_task(self):
        host = os.uname().nodename
        result = self.run_job("-n", 2, *self.python("import os; print('rank', os.environ['RANK'])"))
        self.assertEqual(sorted(result.stdout.decode().splitlines()),
                         [f"{host}:worker/0 rank 0", f"{host}:worker/1 rank 1"])

    def test_lines_of_many_tasks_never_mix(self):
        result = self.run_job("-n", 4, *self.python("""
import os
for i in range(2000):
    os.write(1, (os.environ["RANK"] * 50 + chr(10)).encode())
"""))
        lines = result.stdout.decode().splitlines()
        self.assertEqual(len(lines), 8000)
        for line in lines:
            rank = line.split("/")[1][0]
            self.assertEqual(line.split(" ")[1], rank * 50)

    def test_show_filters_the_screen_but_not_the_log_files(self):
        result = self.run_job("-n", 2, "--ps", 1, "--show", "worker:1,ps", *self.python(
            "import os, time\nprint('hello', flush=True)\nos.environ['TASK_TYPE'] == 'worker' and "
            "time.sleep(0.5)"))
        text = result.stdout.decode()
        self.assertIn("worker/1 hello", text)
        self.assertIn("ps/0 hello", text)
        self.assertNotIn("worker/0", text)
        self.assertEqual(result.log("worker/0"), b"hello\n")

    def test_output_and_errors_keep_their_order(self):
        result = self.run_job("-n", 1, *self.python("""
import sys
for i in range(100):
    print("out", i, flush=True)
    print("err", i, file=sys.stderr, flush=True)
"""))
        expected = "".join(f"out {i}\nerr {i}\n" for i in range(100)).encode()
        self.assertEqual(result.log("worker/0"), expected)

    def test_a_10_mb_line_is_kept_whole_and_shown_cut(self):
        result = self.run_job("-n", 1, *self.python("print('x' * 10_000_000)\nprint('after')"))
        self.assertEqual(result.code, 0)
        self.assertEqual(result.log("worker/0"), b"x" * 10_000_000 + b"\nafter\n")
        self.assertLess(len(result.stdout), 100_000)
        self.assertIn(b"bytes more, see its log file", result.stdout)
        self.assertIn(b"after", result.stdout)

    def test_binary_output_is_kept_byte_for_byte_and_does_not_break_the_record(self):
        result = self.run_job("-n", 1, *self.python(
            "import os, sys\nos.write(1, bytes(range(256)) * 4)\nsys.exit(3)"))
        self.assertEqual(result.code, 3)
        self.assertEqual(result.log("worker/0"), bytes(range(256)) * 4)
        self.assertEqual(result.record()["root_cause"]["exit_code"], 3)

    def test_on_a_terminal_control_bytes_are_shown_not_obeyed(self):
        controller, terminal = pty.openpty()
        program = self.python("import os; os.write(1, b'bell\\x07 clear\\x1b[2J end\\n')")
        process = subprocess.Popen(self.command("-n", 1, *program), stdout=terminal,
                                   stderr=subprocess.PIPE, env=self.environment(), cwd=self.folder)
        process.wait(timeout=60)
        os.close(terminal)
        text = os.read(controller, 65536)
        os.close(controller)
        process.stderr.close()
        self.assertIn(b"bell\\x07 clear\\x1b[2J end", text)

    def test_a_task_that_closes_its_output_goes_on(self):
        result = self.run_job("-n", 1, *self.python("""
import os, time
print("last word", flush=True)
os.close(1); os.close(2)
time.sleep(0.5)
open("went-on", "w").close()
"""))
        self.assertEqual(result.code, 0, result.stderr)
        self.assertTrue((self.folder / "went-on").exists())

    def test_a_reader_that_does_not_read_does_not_keep_the_job_from_being_stopped(self):
        # Enough of them that the first ones have filled the pipe before the last one starts.
        process = self.start("-n", 100, "--", "yes", "x" * 1000)
        self.wait_for_tasks(100)
        time.sleep(0.5)  # the pipe to this test fills
        process.terminate()
        # Beside a hundred of them a launcher with a sanitizer is slow.
        self.assertEqual(process.wait(timeout=PATIENCE if SANITIZED else 20), 143)
        process.communicate()
        self.assert_nothing_left()

    def test_a_reader_of_errors_that_leaves_does_not_change_the_exit_code(self):
        process = self.start("-n", 1, "--", "sh", "-c", "sleep 0.3; exit 7")
        process.stderr.close()
        process.stdout.close()
        self.assertEqual(process.wait(timeout=20), 7)

    def test_a_reader_that_leaves_does_not_end_the_job(self):
        process = self.start("-n", 1, *self.python(
            "for i in range(20000): print('line', i)\nopen('done', 'w').close()"))
        process.stdout.close()
        process.wait(timeout=60)
        process.stderr.close()
        self.assertEqual(process.returncode, 0)
        self.assertTrue((self.folder / "done").exists())


class Record(LauncherTest):
    def test_job_json_is_current_while_the_job_runs(self):
        process = self.start("-n", 2, "--ps", 1, *self.python("import time; time.sleep(1.5)"))
        tasks = self.wait_for_tasks(3)
        self.assertEqual([(t["type"], t["index"]) for t in tasks],
                         [("worker", 0), ("worker", 1), ("ps", 0)])
        for task in tasks:
            self.assertEqual(task["state"], "running")
            self.assertEqual(task["attempt"], 1)
            self.assertEqual(task["host"], os.uname().nodename)
            os.kill(task["pid"], 0)
            self.assertRegex(task["started"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
        result = self.finish(process)
        record = result.record()
        self.assertEqual(record["exit_code"], 0)
        self.assertEqual(record["tasks"][0]["exit_code"], 0)
        self.assertIsNotNone(record["ended"])

    def test_job_json_is_there_before_the_first_task(self):
        result = self.run_job("-n", 16, "--max-restarts", 1, *self.python("""
import json, os, sys
if os.environ["RANK"] == "0":
    job = json.load(open(os.environ["COHORT_OUTPUT"] + "/job.json"))
    print(job["attempt"], len(job["tasks"]), len(job["previous_attempts"]), flush=True)
    sys.exit(os.environ["COHORT_ATTEMPT"] == "1")
"""))
        self.assertEqual(result.code, 0, result.stderr)
        self.assertEqual(result.log("worker/0", 1), b"1 16 0\n")
        self.assertEqual(result.log("worker/0", 2), b"2 16 1\n")

    def test_an_earlier_job_in_the_folder_is_moved_aside(self):
        first = self.run_job("-n", 1, *self.python("print('first')"))
        identity = first.record()["job"]
        second = self.run_job("-n", 1, *self.python("print('second')"))
        self.assertEqual(second.log("worker/0"), b"second\n")
        moved = self.output / f"logs-{identity}" / "worker-0.attempt1.log"
        self.assertEqual(moved.read_bytes(), b"first\n")
        self.assertTrue((self.output / f"job-{identity}.json").exists())

    def test_a_strangers_job_json_in_the_folder_is_moved_aside(self):
        self.output.mkdir()
        (self.output / "job.json").write_text('{"job": 5}')
        result = self.run_job("--", "true")
        self.assertEqual(result.code, 0, result.stderr)
        self.assertEqual(len(list(self.output.glob("job-earlier-*.json"))), 1)

    def test_two_jobs_cannot_share_a_folder(self):
        first = self.start("-n", 1, *self.python("import time; time.sleep(2)"))
        self.wait_for_tasks(1)
        second = subprocess.run(self.command("-n", 1, "--", "true"), env=self.environment(),
                                cwd=self.folder, capture_output=True, timeout=60)
        self.assertEqual(second.returncode, 2)
        self.assertIn(b"another job is writing into the output folder", second.stderr)
        self.assertEqual(self.finish(first).code, 0)


if __name__ == "__main__":
    unittest.main()
