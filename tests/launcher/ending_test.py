"""How a job ends: success policies, failures, restarts, signals."""

import os
import signal
import time
import unittest

from launcher import LauncherTest

# A parameter server that never ends by itself, as TensorFlow's server.join(); workers that do.
SERVER_AND_WORKERS = """
import os, time
if os.environ["TASK_TYPE"] in ("ps", "evaluator"):
    print("joined", flush=True)
    while True:
        time.sleep(60)
print("trained", flush=True)
"""

SLEEP_FOR_EVER = "import time\nprint('ready', flush=True)\nwhile True: time.sleep(60)\n"


class Success(LauncherTest):
    def test_a_server_that_never_returns_does_not_keep_the_job(self):
        result = self.run_job("-n", 2, "--ps", 2, "--evaluator", *self.python(SERVER_AND_WORKERS))
        self.assertEqual(result.code, 0, result.stderr)
        self.assertEqual(result.stdout.count(b"trained"), 2)
        record = result.record()
        self.assertEqual(record["state"], "succeeded")
        self.assertIsNone(record["root_cause"])
        states = {f"{t['type']}/{t['index']}": t["state"] for t in record["tasks"]}
        self.assertEqual(states["worker/1"], "succeeded")
        self.assertEqual(states["ps/1"], "stopped")

    def test_with_a_coordinator_the_chief_alone_decides(self):
        result = self.run_job("-n", 2, "--ps", 1, "--coordinator", *self.python("""
import os, time
if os.environ["TASK_TYPE"] != "chief":
    time.sleep(600)
"""))
        self.assertEqual(result.code, 0, result.stderr)

    def test_success_worker0_stops_the_others(self):
        result = self.run_job("-n", 3, "--success", "worker0", *self.python("""
import os, time
if os.environ["RANK"] != "0":
    time.sleep(600)
"""))
        self.assertEqual(result.code, 0, result.stderr)

    def test_a_task_that_exits_0_early_does_not_end_the_others(self):
        result = self.run_job("-n", 2, *self.python("""
import os, time
if os.environ["RANK"] == "1":
    time.sleep(3)
    print("finished", flush=True)
"""))
        self.assertEqual(result.code, 0, result.stderr)
        self.assertIn(b"worker/1 finished", result.stdout)
        self.assertIn("worker/0 ended with 0; waiting for worker/1", result.stderr)

    def test_a_task_that_ignores_term_is_killed_after_the_grace_period(self):
        result = self.run_job("-n", 1, "--ps", 1, "--grace", 0.5, *self.python("""
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open(os.environ["COHORT_TASK_TYPE"], "w").close()
while os.environ["TASK_TYPE"] == "ps": time.sleep(60)
while not os.path.exists("ps"): time.sleep(0.01)
"""))
        self.assertEqual(result.code, 0, result.stderr)
        self.assertIn("ps/0 (pid", result.stderr)
        self.assertIn("did not end within the grace period of 0.5 s", result.stderr)
        self.assertLess(result.seconds, 10)


    def test_a_service_gets_its_term_even_when_a_worker_ignores_its_own(self):
        result = self.run_job("-n", 2, "--ps", 1, "--grace", 0.5, *self.python("""
import os, signal, sys, time
def leave(*_):
    print("saved", flush=True)
    sys.exit(0)
role = os.environ["TASK_TYPE"] + os.environ["TASK_INDEX"]
signal.signal(signal.SIGTERM, leave if role == "ps0" else signal.SIG_IGN)
open(role, "w").close()
while role != "worker0" or not all(map(os.path.exists, ("ps0", "worker1"))): time.sleep(0.01)
sys.exit(3)
"""))
        self.assertEqual(result.code, 3, result.stderr)
        self.assertEqual(result.log("ps/0"), b"saved\n")

    def test_a_child_that_left_and_writes_for_ever_does_not_keep_the_job(self):
        result = self.run_job("-n", 1, *self.python(
            "import subprocess, time\n"
            "subprocess.Popen(['yes', 'still here'], start_new_session=True)\ntime.sleep(0.2)"))
        self.assertEqual(result.code, 0, result.stderr)


class Failure(LauncherTest):
    def test_the_last_line_is_the_root_cause(self):
        result = self.run_job("-n", 3, "--ps", 1, *self.python("""
import os, sys, time
if os.environ.get("RANK") == "1":
    for i in range(30):
        print("line", i)
    sys.exit("ValueError: bad shape [3, 4]")
time.sleep(600)
"""))
        self.assertEqual(result.code, 1)
        self.assertRegex(result.last_line,
                         r"^cohort: worker/1 on \S+ \(pid \d+\) failed with exit code 1 after "
                         r".* s: ValueError: bad shape \[3, 4\]$")
        report = result.stderr[result.stderr.index("Root cause:"):]
        self.assertIn("its last 20 lines:", report)
        self.assertIn("    | line 29", report)
        self.assertNotIn("    | line 3\n", report)
        self.assertRegex(report, r"collateral +worker/0 \(stopped by cohort\), worker/2 \(stopped by "
                                 r"cohort\), ps/0 \(stopped by cohort\)")
        self.assertIn("logs/worker-1.attempt1.log", report)
        self.assertRegex(report, r"try +\S+")
        cause = result.record()["root_cause"]
        self.assertEqual((cause["type"], cause["index"], cause["exit_code"]), ("worker", 1, 1))

    def test_the_exit_code_is_the_failing_tasks(self):
        result = self.run_job("-n", 2, *self.python(
            "import os, sys, time\nos.environ['RANK'] == '1' and sys.exit(7)\ntime.sleep(600)"))
        self.assertEqual(result.code, 7)
        self.assertLess(result.seconds, 10)

    def test_a_killed_task_gives_128_plus_the_signal(self):
        process = self.start("-n", 2, *self.python(SLEEP_FOR_EVER))
        tasks = self.wait_for_tasks(2)
        os.kill(tasks[1]["pid"], signal.SIGKILL)
        result = self.finish(process)
        self.assertEqual(result.code, 137)
        self.assertIn("worker/1", result.last_line)
        self.assertIn("was killed by signal 9 (SIGKILL)", result.last_line)

    def test_a_crash_is_named_by_its_signal(self):
        result = self.run_job("-n", 2, *self.python(
            "import os, time\nif os.environ['RANK'] == '0': os.abort()\ntime.sleep(600)"))
        self.assertEqual(result.code, 128 + signal.SIGABRT)
        self.assertIn("SIGABRT", result.last_line)

    def test_a_task_that_lost_its_peer_is_not_the_root_cause(self):
        # worker/0 notices the loss and dies first; the real failure follows a moment later.
        result = self.run_job("-n", 2, *self.python("""
import os, sys, time
if os.environ["RANK"] == "0":
    sys.exit("RuntimeError: Connection reset by peer")
time.sleep(0.2)
sys.exit("AssertionError: the loss is NaN")
"""))
        self.assertIn("worker/1", result.last_line)
        self.assertIn("the loss is NaN", result.last_line)
        self.assertIn("worker/0 (exit code 1, lost its peer)", result.stderr)

    def test_a_failing_evaluator_does_not_end_the_job(self):
        result = self.run_job("-n", 1, "--evaluator", *self.python("""
import os, sys, time
if os.environ["TASK_TYPE"] == "evaluator":
    sys.exit(3)
time.sleep(1)
"""))
        self.assertEqual(result.code, 0, result.stderr)
        self.assertIn("evaluator/0", result.stderr)

    def test_a_failing_parameter_server_is_a_root_cause(self):
        result = self.run_job("-n", 1, "--ps", 1, *self.python(
            "import os, sys, time\nos.environ['TASK_TYPE'] == 'ps' and sys.exit(5)\ntime.sleep(600)"))
        self.assertEqual(result.code, 5)
        self.assertIn("ps/0", result.last_line)

    def test_a_task_that_runs_out_of_file_descriptors_says_so(self):
        result = self.run_job("-n", 2, *self.python("""
import os, resource, time
if os.environ["RANK"] == "1":
    resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))
    files = [open("/dev/null") for _ in range(100)]
time.sleep(600)
"""))
        self.assertEqual(result.code, 1)
        self.assertIn("Too many open files", result.last_line)
        self.assertIn("ulimit -n", result.stderr)


class TimeLimit(LauncherTest):
    def test_a_job_whose_time_is_over_fails_with_124_and_is_not_restarted(self):
        result = self.run_job("-n", 2, "--max-run", 0.5, "--max-restarts", 3, "--grace", 0.5,
                              *self.python("import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
                                           "time.sleep(600)"))
        self.assertEqual(result.code, 124, result.stderr)
        record = result.record()
        self.assertEqual((record["state"], record["failure"], record["attempt"]),
                         ("failed", "max_run of 0.5 s is over", 1))
        self.assertIn("max_run of 0.5 s is over", result.last_line)

    def test_a_job_that_ends_in_time_is_not_touched(self):
        result = self.run_job("--max-run", 60, *self.python("print('done')"))
        self.assertEqual(result.code, 0, result.stderr)


class Restart(LauncherTest):
    def test_max_restarts_starts_the_whole_group_again(self):
        result = self.run_job("-n", 2, "--max-restarts", 2, *self.python("""
import os, sys, time
attempt = int(os.environ["COHORT_ATTEMPT"])
print("attempt", attempt, os.environ["TORCHELASTIC_RESTART_COUNT"], flush=True)
if attempt < 3:
    if os.environ["RANK"] == "1":
        sys.exit(9)
    time.sleep(600)
"""))
        self.assertEqual(result.code, 0, result.stderr)
        self.assertEqual(result.log("worker/0", 1), b"attempt 1 0\n")
        self.assertEqual(result.log("worker/0", 3), b"attempt 3 2\n")
        record = result.record()
        self.assertEqual(record["attempt"], 3)
        self.assertEqual(len(record["previous_attempts"]), 2)
        self.assertEqual(record["previous_attempts"][0][1]["exit_code"], 9)

    def test_an_output_folder_that_was_deleted_does_not_prevent_a_restart(self):
        result = self.run_job("-n", 1, "--max-restarts", 1, *self.python("""
import os, shutil, sys
if os.environ["COHORT_ATTEMPT"] == "1":
    shutil.rmtree(os.environ["COHORT_OUTPUT"])
    sys.exit(3)
print("second", flush=True)
"""))
        self.assertEqual(result.code, 0, result.stderr)
        self.assertEqual(result.log("worker/0", 2), b"second\n")

    def test_when_the_restarts_are_used_up_the_job_fails(self):
        result = self.run_job("-n", 1, "--max-restarts", 1, *self.python("import sys; sys.exit(4)"))
        self.assertEqual(result.code, 4)
        self.assertEqual(result.record()["attempt"], 2)

    def test_preemption_restarts_without_being_charged(self):
        for code in (42, 143):
            with self.subTest(code=code):
                self.output = self.folder / f"out{code}"
                result = self.run_job("-n", 2, "--max-restarts", 0, *self.python(f"""
import os, sys, time
if os.environ["COHORT_ATTEMPT"] == "1":
    if os.environ["RANK"] == "0":
        sys.exit({code})
    time.sleep(600)
"""))
                self.assertEqual(result.code, 0, result.stderr)
                self.assertIn("preempted", result.stderr)

    def test_a_task_that_got_a_term_is_restarted(self):
        process = self.start("-n", 2, *self.python("""
import os, time
print("ready", flush=True)
if os.environ["COHORT_ATTEMPT"] == "1":
    time.sleep(600)
"""))
        tasks = self.wait_for_tasks(2)
        os.kill(tasks[0]["pid"], signal.SIGTERM)
        result = self.finish(process)
        self.assertEqual(result.code, 0, result.stderr)

    def test_a_program_that_always_exits_42_at_once_fails_in_the_end(self):
        result = self.run_job("-n", 1, *self.python("import sys; sys.exit(42)"))
        self.assertEqual(result.code, 42)
        self.assertIn("in a row", result.stderr)


class Signals(LauncherTest):
    def test_ctrl_c_stops_the_workers_first_then_the_servers(self):
        process = self.start("-n", 2, "--ps", 1, *self.python("""
import os, signal, sys, time
def leave(*_):
    with open("order", "a") as file:
        file.write(os.environ["TASK_TYPE"] + "\\n")
    sys.exit(0)
signal.signal(signal.SIGTERM, leave)
print("ready", flush=True)
while True: time.sleep(60)
"""))
        for task in ("worker/0", "worker/1", "ps/0"):
            self.wait_for_log(task, "ready")
        process.send_signal(signal.SIGINT)
        result = self.finish(process)
        self.assertEqual(result.code, 130)
        self.assertEqual((self.folder / "order").read_text().split(), ["worker", "worker", "ps"])
        self.assertIn("SIGINT: stopping the job", result.stderr)
        self.assertEqual(result.record()["state"], "stopped")

    def test_a_second_ctrl_c_kills(self):
        process = self.start("-n", 2, "--grace", 300, *self.python(
            "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
            "print('ready', flush=True)\nwhile True: time.sleep(60)"))
        for task in ("worker/0", "worker/1"):
            self.wait_for_log(task, "ready")
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGINT)
        result = self.finish(process)
        self.assertEqual(result.code, 130)

    def test_term_ends_the_job_with_143(self):
        process = self.start("-n", 2, *self.python(SLEEP_FOR_EVER))
        self.wait_for_log("worker/1", "ready")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(self.finish(process).code, 143)

    def test_user_signals_and_hangups_are_forwarded(self):
        process = self.start("-n", 2, *self.python("""
import signal, sys, time
seen = []
def note(number, _):
    seen.append(number)
    print("got", signal.Signals(number).name, flush=True)
for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP):
    signal.signal(number, note)
print("ready", flush=True)
while len(seen) < 3: time.sleep(0.01)
"""))
        for task in ("worker/0", "worker/1"):
            self.wait_for_log(task, "ready")
        for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP):
            process.send_signal(number)
            for task in ("worker/0", "worker/1"):
                self.wait_for_log(task, f"got {number.name}")
        result = self.finish(process)
        self.assertEqual(result.code, 0, result.stderr)

    def test_a_hangup_that_kills_the_tasks_is_a_stop_not_a_failure(self):
        process = self.start("-n", 2, *self.python(SLEEP_FOR_EVER))
        for task in ("worker/0", "worker/1"):
            self.wait_for_log(task, "ready")
        process.send_signal(signal.SIGHUP)
        result = self.finish(process)
        self.assertEqual(result.code, 129)
        self.assertNotIn("Root cause", result.stderr)

    def test_a_suspended_task_is_named_and_still_ends(self):
        process = self.start("-n", 2, *self.python(SLEEP_FOR_EVER))
        tasks = self.wait_for_tasks(2)
        self.wait_for_log("worker/1", "ready")
        os.kill(tasks[1]["pid"], signal.SIGTTIN)
        self.wait_for(lambda: self.wait_for_tasks(2)[1]["state"] == "suspended", "the suspension")
        process.send_signal(signal.SIGINT)
        result = self.finish(process)
        self.assertEqual(result.code, 130)
        self.assertIn("worker/1 (pid", result.stderr)
        self.assertIn("suspended (SIGTTIN)", result.stderr)
        self.assertIn("kill -CONT", result.stderr)


if __name__ == "__main__":
    unittest.main()
