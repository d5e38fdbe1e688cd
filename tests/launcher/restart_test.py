"""Tasks that are started again alone: who is, how often, what they keep, and what the launcher says."""

import os
import re
import signal
import subprocess
import unittest

from launcher import BIN, COHORT, LauncherTest, PYTHON

# What a task does with the memory that its launcher keeps; `lives` counts its runs in it.
KEEP = """
import os, signal, sys, time
role = os.environ["TASK_TYPE"]
state = int(os.environ.get("COHORT_KEEP_FD", -1))
def ask(word=b"1"):
    os.pwrite(int(os.environ["COHORT_RESTART_FD"]), word, 0)
def die(number=signal.SIGKILL):
    os.kill(os.getpid(), number)
    time.sleep(600)
def count_life():
    lives = int(os.pread(state, 20, 0) or b"0") + 1
    os.pwrite(state, b"%d" % lives, 0)
    return lives
def count_life_in_a_file():
    with open(role + os.environ["TASK_INDEX"], "a+b") as file:
        file.write(b".")
        return file.tell()
def wait_for(path):
    while not os.path.exists(path): time.sleep(0.01)
"""


class Alone(LauncherTest):
    def tasks(self, result):
        return {f"{t['type']}/{t['index']}": t for t in result.record()["tasks"]}

    def test_servers_and_workers_of_ours_come_back_to_their_job_and_end_it_together(self):
        result = self.run_job("-n", 2, "--ps", 1, "--", BIN.parent / "tests" / "kept_program")
        self.assertEqual(result.code, 0, result.stderr)
        said = [line for line in result.log("ps/0").decode().splitlines() if not line.startswith("---")]
        self.assertEqual(said, ["life 1", "life 2", "life 3", "worker/0 is done", "worker/1 is lost",
                                "worker/1 is returned", "worker/1 is done", "0 are gone"])
        self.assertEqual({name: (task["restarts"], task["state"]) for name, task in self.tasks(result).items()},
                         {"worker/0": (0, "succeeded"), "worker/1": (1, "succeeded"), "ps/0": (2, "succeeded")})

    def test_a_task_that_is_killed_before_it_could_ask_comes_back_where_there_are_servers(self):
        program = self.python(KEEP + """
if role == "ps": wait_for("never")
if os.environ["TASK_INDEX"] == "1" and "COHORT_INCARNATION" not in os.environ: die()
print("life", os.environ.get("COHORT_INCARNATION", "0"))
""")
        result = self.run_job("-n", 2, "--ps", 1, *program)
        self.assertEqual(result.code, 0, result.stderr)
        self.assertIn(b"life 1\n", result.log("worker/1"))
        self.assertEqual(result.log("worker/0"), b"life 0\n")
        self.output = self.folder / "without-servers"
        result = self.run_job("-n", 2, *program)
        self.assertEqual(result.code, 128 + signal.SIGKILL, result.stderr)

    def test_a_task_that_is_killed_when_its_work_is_done_fails_nothing(self):
        result = self.run_job("-n", 2, "--ps", 1, *self.python(KEEP + """
if role == "ps": wait_for("never")
if os.environ["TASK_INDEX"] == "1":
    ask(b"d")
    die()
"""))
        self.assertEqual(result.code, 0, result.stderr)
        self.assertRegex(result.stderr, r"worker/1 \(pid \d+\) was killed by signal 9 \(SIGKILL\) .*its work was done")

    def test_a_killed_server_goes_on_from_what_it_kept_and_no_other_task_is_disturbed(self):
        result = self.run_job("-n", 2, "--ps", 2, *self.python(KEEP + """
print("runs as", os.getpid(), os.environ["TF_CONFIG"], flush=True)
if role == "worker":
    wait_for("served")
    sys.exit(0)
lives = count_life()
ask()
if os.environ["TASK_INDEX"] == "1" and lives <= 3:
    print("dies in life", lives, end="", flush=True)  # an unfinished line
    die()
if lives == 4:
    print("serves", flush=True)
    open("served", "w").close()
wait_for("never")
"""))
        self.assertEqual(result.code, 0, result.stderr)
        record, tasks = result.record(), self.tasks(result)
        self.assertEqual((record["state"], record["attempt"], record["root_cause"]), ("succeeded", 1, None))
        self.assertEqual([tasks[name]["restarts"] for name in ("worker/0", "worker/1", "ps/0", "ps/1")], [0, 0, 0, 3])
        self.assertEqual(tasks["ps/1"]["state"], "stopped")
        log = result.log("ps/1").decode()
        runs = re.findall(r"^runs as (\d+) (.*)$", log, re.M)
        self.assertEqual((len(set(pid for pid, _ in runs)), len(set(config for _, config in runs))), (4, 1))
        self.assertEqual(int(runs[-1][0]), tasks["ps/1"]["pid"])
        self.assertRegex(log, rf"dies in life 3\n--- cohort: pid {runs[2][0]} was killed by signal 9 \(SIGKILL\) after "
                              rf"\d+\.\d s; started again alone as pid {runs[3][0]} \(restart 3\) ---\nruns as")
        for restart in (1, 2, 3):
            self.assertRegex(result.stderr, rf"ps/1 \(pid {runs[restart - 1][0]}\) was killed by signal 9 \(SIGKILL\) "
                                            rf"after .* s; starting it again alone \(restart {restart}\)")
        self.assertEqual(result.log("ps/0").count(b"runs as"), 1)

    def test_the_kill_of_another_process_counts_as_well(self):
        process = self.start("-n", 1, "--ps", 1, *self.python(KEEP + """
if role == "worker":
    wait_for("served")
    sys.exit(0)
lives = count_life()
ask()
print("life", lives, flush=True)
if lives == 3: open("served", "w").close()
wait_for("never")
"""))
        for life in (1, 2):
            self.wait_for_log("ps/0", f"life {life}\n")
            os.kill(self.wait_for_tasks(2)[1]["pid"], signal.SIGKILL)
        result = self.finish(process)
        self.assertEqual(result.code, 0, result.stderr)
        self.assertEqual(self.tasks(result)["ps/0"]["restarts"], 2)

    def test_a_worker_that_comes_back_ends_the_job_as_if_nothing_had_been(self):
        result = self.run_job("-n", 2, *self.python(KEEP + """
assert state == -1
ask()
if os.environ["RANK"] == "1" and count_life_in_a_file() <= 3: die(signal.SIGSEGV)
"""))
        self.assertEqual(result.code, 0, result.stderr)
        self.assertEqual(self.tasks(result)["worker/1"]["restarts"], 3)
        self.assertEqual(self.tasks(result)["worker/1"]["state"], "succeeded")

    def test_a_task_that_asks_not_to_or_takes_its_word_back_takes_the_job_down(self):
        for words in ("ask(b'0')", "ask(); ask(b'0')"):
            with self.subTest(words=words):
                self.output = self.folder / f"out{len(words)}"
                result = self.run_job("-n", 1, "--ps", 1, *self.python(KEEP + f"""
if role == "worker": time.sleep(600)
{words}
die()
"""))
                self.assertEqual(result.code, 137)
                self.assertIn("ps/0", result.last_line)
                self.assertNotIn("again", result.stderr)

    def test_an_exit_code_is_the_programs_own_word(self):
        result = self.run_job("-n", 1, "--ps", 1, *self.python(KEEP + """
if role == "worker": time.sleep(600)
ask()
if count_life() == 1: die()
sys.exit("ValueError: no such model")
"""))
        self.assertEqual(result.code, 1)
        self.assertRegex(result.last_line, r"ps/0 .* failed with exit code 1 after .*: ValueError: no such model$")
        self.assertRegex(result.stderr, r"Root cause: ps/0 on .*, attempt 1, restart 1\n")
        self.assertEqual(result.record()["root_cause"]["restarts"], 1)

    def test_a_preempted_task_restarts_the_group_and_not_itself(self):
        result = self.run_job("-n", 1, "--ps", 1, *self.python(KEEP + """
if os.environ["COHORT_ATTEMPT"] == "2":
    # A new attempt begins with nothing kept.
    assert state == -1 or os.fstat(state).st_size == 0
    assert os.pread(int(os.environ["COHORT_RESTART_FD"]), 1, 0) == b"?"
    sys.exit(0)
ask()
if role == "worker": time.sleep(600)
count_life()
die(signal.SIGTERM)
"""))
        self.assertEqual(result.code, 0, result.stderr)
        self.assertEqual(result.record()["attempt"], 2)
        self.assertNotIn("alone", result.stderr)


class Bounds(LauncherTest):
    def test_a_server_that_dies_at_once_again_and_again_fails_the_job(self):
        # A shell, since Python may take more than a second to start on a busy machine.
        result = self.run_job("-n", 1, "--ps", 1, "--", "bash", "-c", """
[ $TASK_TYPE = worker ] && exec sleep 600
printf 1 1<>/proc/self/fd/$COHORT_RESTART_FD
echo pid $$
kill -SEGV $$
""")
        self.assertEqual(result.code, 128 + signal.SIGSEGV)
        self.assertRegex(result.stderr, r"ps/0 \(pid \d+\) was killed by signal 11 \(SIGSEGV\) after .* s; that is 5 "
                                        r"times in a row within 1 s of its start: it is not started again")
        self.assertRegex(result.last_line, r"ps/0 .* was killed by signal 11 \(SIGSEGV\) after .*: pid \d+$")
        cause = result.record()["root_cause"]
        self.assertEqual((cause["restarts"], cause["last_lines"]), (4, [f"pid {cause['pid']}"]))

    def test_a_worker_is_started_again_so_many_times_and_then_the_group(self):
        result = self.run_job("-n", 1, "--task-restarts", 2, "--max-restarts", 1, *self.python(KEEP + """
ask()
print("life", count_life_in_a_file(), flush=True)
if os.environ["COHORT_ATTEMPT"] == "1": die()
"""))
        self.assertEqual(result.code, 0, result.stderr)
        self.assertIn("it has been started again alone 2 times already", result.stderr)
        record = result.record()
        self.assertEqual(record["task_restarts"], 2)
        self.assertEqual(record["previous_attempts"][0][0]["restarts"], 2)
        self.assertEqual((record["attempt"], record["tasks"][0]["restarts"]), (2, 0))
        self.assertEqual(result.log("worker/0", 2), b"life 4\n")

    def test_0_switches_it_off_and_tasks_can_tell(self):
        result = self.run_job("-n", 1, "--ps", 1, "--task-restarts", 0, *self.python("""
import os, signal, time
assert "COHORT_RESTART_FD" not in os.environ and "COHORT_KEEP_FD" not in os.environ
assert "memfd:cohort-keep" not in os.popen(f"ls -l /proc/{os.getpid()}/fd").read()
if os.environ["TASK_TYPE"] == "ps": os.kill(os.getpid(), signal.SIGKILL)
time.sleep(600)
"""))
        self.assertEqual(result.code, 137)
        self.assertEqual(result.record()["root_cause"]["restarts"], 0)

    def test_a_negative_number_is_refused(self):
        result = self.run_job("--task-restarts", -1, "--", "true")
        self.assertEqual(result.code, 2)
        self.assertIn("--task-restarts must be at least 0, got -1", result.stderr)

    def test_a_job_file_may_set_it(self):
        job = self.script("task_restarts = 1\n", "job.toml")
        result = self.run_job("--config", job, *self.python(KEEP + "ask()\ndie()\n"))
        self.assertEqual(result.code, 137)
        self.assertEqual(result.record()["root_cause"]["restarts"], 1)

    def test_a_program_that_has_gone_fails_the_job_with_the_death_as_its_cause(self):
        program = self.folder / "server"
        program.write_text(f"#!{PYTHON}\n" + KEEP + f"ask()\nos.remove({str(program)!r})\nprint('last words', flush=True)\ndie()\n")
        program.chmod(0o755)
        result = self.run_job("-n", 1, "--", program)
        self.assertEqual(result.code, 137)
        self.assertIn("worker/0 cannot be started again", result.stderr)
        self.assertIn("last words", result.last_line)


class Stopping(LauncherTest):
    def test_ctrl_c_ends_a_job_whose_tasks_die_and_come_back(self):
        process = self.start("-n", 2, "--ps", 1, *self.python(KEEP + """
ask()
print("ready", flush=True)
if role != "ps": time.sleep(600)
count_life()
signal.signal(signal.SIGTERM, lambda *_: die())  # the stop itself kills it, and that is no reason to come back
while True:
    time.sleep(1.2)
    die()
"""))
        for task in ("worker/0", "worker/1", "ps/0"):
            self.wait_for_log(task, "ready")
        self.wait_for_log("ps/0", "(restart 2)")
        process.send_signal(signal.SIGINT)
        result = self.finish(process)
        self.assertEqual(result.code, 130, result.stderr)
        after = result.stderr[result.stderr.index("SIGINT: stopping the job"):]
        self.assertNotIn("again alone", after.split("press Ctrl-C again", 1)[1])
        self.assertEqual(result.record()["state"], "stopped")

    def test_a_hangup_ends_the_tasks_and_does_not_bring_them_back(self):
        process = self.start("-n", 2, *self.python(KEEP + "ask()\nprint('ready', flush=True)\ntime.sleep(600)\n"))
        for task in ("worker/0", "worker/1"):
            self.wait_for_log(task, "ready")
        process.send_signal(signal.SIGHUP)
        result = self.finish(process)
        self.assertEqual(result.code, 129)
        self.assertNotIn("again alone", result.stderr)

    def test_a_server_killed_while_the_job_fails_stays_dead(self):
        # worker/1 goes on for a while, so that the launcher still settles what the cause is.
        result = self.run_job("-n", 2, "--ps", 1, *self.python(KEEP + """
if os.environ.get("RANK") == "1": time.sleep(600)
if role == "worker":
    wait_for("asked")
    sys.exit(9)
ask()
open("asked", "w").close()
while b'"exit_code": 9' not in open(os.environ["COHORT_OUTPUT"] + "/job.json", "rb").read(): time.sleep(0.01)
die()
"""))
        self.assertEqual(result.code, 9, result.stderr)
        self.assertNotIn("again alone", result.stderr)


class Descriptors(LauncherTest):
    LIST = KEEP + """
ask()
def target(fd):
    try: return os.readlink(f"/proc/self/fd/{fd}")
    except OSError: return None
found = {int(fd): target(fd) for fd in os.listdir("/proc/self/fd")}
names = {fd: name for fd, name in found.items() if fd > 2 and name}
print(role, sorted(names.values()), sorted(names), flush=True)
for variable in ("COHORT_SECRET_FD", "COHORT_RESTART_FD", "COHORT_KEEP_FD", "COHORT_LAST_WORD_FD"):
    if variable in os.environ: assert int(os.environ[variable]) in names, variable
if role == "ps" and count_life() <= 2: die()
if role == "ps":
    open("served", "w").close()
    wait_for("never")
wait_for("served")
"""
    SECRET, FLAG, STATE, WORD = (f"/memfd:cohort-{name} (deleted)" for name in
                                 ("secret", "restart-flag", "keep-state", "last-word"))

    def test_a_task_inherits_what_is_meant_for_it_and_nothing_else_also_when_it_comes_back(self):
        result = self.run_job("-n", 1, "--ps", 1, *self.python(self.LIST))
        self.assertEqual(result.code, 0, result.stderr)
        self.assertEqual(result.log("worker/0").decode(), f"worker {[self.WORD, self.FLAG, self.SECRET]} [194, 196, 197]\n")
        self.assertEqual(result.log("ps/0").decode().count(
            f"ps {[self.STATE, self.WORD, self.FLAG, self.SECRET]} [194, 195, 196, 197]\n"), 3)

    def test_a_low_limit_on_open_files_moves_the_numbers_down(self):
        self.script(self.LIST)
        words = " ".join(self.command("-n", 1, "--ps", 1, "--", PYTHON, "task.py"))
        result = subprocess.run(["bash", "-c", f"ulimit -n 40; {words}"], env=self.environment(), cwd=self.folder,
                                capture_output=True, text=True, timeout=60)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(f"{[self.STATE, self.WORD, self.FLAG, self.SECRET]} [36, 37, 38, 39]", result.stdout)

    def test_a_launcher_inside_a_task_passes_on_its_own_memory_and_not_the_outer_ones(self):
        inner = f"exec {COHORT} run --output inner-$TASK_TYPE --task-restarts 0 -- sh -c 'env; ls -l /proc/self/fd'"
        result = self.run_job("-n", 1, "--ps", 1, "--", "sh", "-c", inner)
        self.assertEqual(result.code, 0, result.stderr)
        self.assertIn(b"COHORT_SECRET_FD", result.stdout)
        for word in (b"COHORT_RESTART_FD", b"COHORT_KEEP_FD", b"restart-flag", b"keep-state"):
            self.assertNotIn(word, result.stdout)


if __name__ == "__main__":
    unittest.main()
