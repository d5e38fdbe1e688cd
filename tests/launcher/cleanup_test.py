"""Nothing is left behind, whatever happens: launcher killed, children that escape, full disk."""

import os
import pathlib
import re
import resource
import signal
import subprocess
import unittest

from launcher import BIN, COHORT, LauncherTest

# A task with a child in its own group and one in a session of its own.
FAMILY = """
import os, subprocess, sys, time
sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
subprocess.Popen(sleep)
subprocess.Popen(sleep, start_new_session=True)
print("ready", flush=True)
if os.environ.get("THEN") == "exit":
    sys.exit(0)
time.sleep(600)
"""


class Leftovers(LauncherTest):
    def test_a_killed_launcher_takes_every_process_with_it(self):
        process = self.start("-n", 3, "--ps", 1, *self.python(FAMILY))
        for task in ("worker/0", "worker/1", "worker/2", "ps/0"):
            self.wait_for_log(task, "ready")
        self.assertGreater(len(self.processes()), 12)
        process.kill()
        process.communicate()
        self.assert_nothing_left(within=2.0)

    def test_children_of_a_task_end_with_it(self):
        result = self.run_job("-n", 2, *self.python(FAMILY), env={"THEN": "exit"})
        self.assertEqual(result.code, 0, result.stderr)  # finish() proves that nothing is left

    def test_daemons_that_wiped_their_environment_end_with_the_job(self):
        result = self.run_job("-n", 2, *self.python("""
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"],
                         env={}, start_new_session=True)
with open(f"daemon{os.environ['RANK']}", "w") as file:
    file.write(str(child.pid))
"""))
        self.assertEqual(result.code, 0, result.stderr)
        self.assertIn("leftover", result.stderr)
        for rank in range(2):
            pid = int((self.folder / f"daemon{rank}").read_text())
            self.assertFalse(self.runs(pid), f"the daemon of worker/{rank} is left")

    def test_a_job_inside_a_killed_job_is_cleared_away_too(self):
        for round in range(5):
            self.output = self.folder / f"outer{round}"
            inner = self.folder / f"inner{round}"
            process = self.start("--", COHORT, "run", "--output", inner, "-n", 3,
                                 *self.python(FAMILY))
            for rank in range(3):
                log = inner / "logs" / f"worker-{rank}.attempt1.log"
                self.wait_for(lambda: log.exists() and b"ready" in log.read_bytes(), "the inner job")
            process.kill()
            process.communicate()
            self.assert_nothing_left(within=5.0)

    def test_no_socket_and_no_shared_memory_file_stays(self):
        def claims():  # of this job alone: others may run on the machine
            lines = pathlib.Path("/proc/net/unix").read_text().splitlines()
            return {line.split()[-1] for line in lines} & {f"@cohort-port-{os.geteuid()}-{port}" for port in ports}
        files = set(os.listdir("/dev/shm"))
        process = self.start("-n", 2, *self.python(FAMILY))
        self.wait_for_log("worker/1", "ready")
        environment = pathlib.Path(f"/proc/{self.wait_for_tasks(2)[0]['pid']}/environ").read_text()
        ports = re.findall(r"127\.0\.0\.1:(\d+)|MASTER_PORT=(\d+)", environment)
        ports = {one or other for one, other in ports}
        self.assertGreaterEqual(len(claims()), 3)
        process.kill()
        process.communicate()
        self.assert_nothing_left()
        self.assertEqual(claims(), set())
        self.assertFalse([name for name in set(os.listdir("/dev/shm")) - files if "cohort" in name])


class StrangeStarts(LauncherTest):
    """The launcher is started with something missing that most programs take for granted."""

    def test_closed_standard_descriptors(self):
        for closed in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
            with self.subTest(closed=closed):
                self.output = self.folder / f"out{len(list(self.folder.iterdir()))}"
                words = self.command("-n", 2, "--", "sh", "-c", "echo hello; ls -l /proc/$PPID/fd >&2; exit 7")
                result = subprocess.run(["sh", "-c", f'exec "$@" {closed}', "sh", *words], cwd=self.folder,
                                        env=self.environment(), capture_output=True, timeout=60)
                self.assertEqual(result.returncode, 7, result.stderr)
                log = (self.output / "logs" / "worker-0.attempt1.log").read_text()
                self.assertIn("hello\n", log)
                for number in (0, 1, 2):
                    self.assertRegex(log, rf" {number} -> (/dev/null|pipe:|/)", "a descriptor is closed")
                self.assertNotRegex(log, r" [012] -> (anon_inode|socket|" + str(self.output) + ")")
                self.assert_nothing_left()

    def test_few_descriptors(self):
        # Cohort's own program reads the job's secret from a descriptor.
        result = self.run_job("-n", 2, "--", BIN / "hello",
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)))
        self.assertEqual(result.code, 0, result.stderr)

    def test_ignored_child_signal(self):
        result = self.run_job("-n", 2, "--", "sh", "-c", "exit 5",
                              preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
        self.assertEqual(result.code, 5, result.stderr)


class Ports(LauncherTest):
    def test_two_jobs_at_once_get_different_ports(self):
        program = self.python("import os, time\nprint(os.environ['TF_CONFIG'], flush=True)\n"
                              "print('MASTER', os.environ.get('MASTER_PORT'), flush=True)\ntime.sleep(1)")
        outputs, processes = [], []
        for index in range(4):
            self.output = self.folder / f"out{index}"
            outputs.append(self.output)
            processes.append(self.start("-n", 3, "--ps", 2, *program))
        for process in processes:
            _, stderr = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 0, stderr)
        seen = []
        for output in outputs:
            text = (output / "logs" / "worker-0.attempt1.log").read_text()
            seen += [part.split('"')[0] for part in text.split("127.0.0.1:")[1:]]
            seen.append(text.split("MASTER ")[1].split()[0])
        self.assertEqual(len(seen), 4 * 6)
        self.assertEqual(len(set(seen)), len(seen), seen)

    def test_a_program_without_reuseaddr_can_listen_on_its_port(self):
        result = self.run_job("-n", 2, *self.python("""
import json, os, socket
config = json.loads(os.environ["TF_CONFIG"])
host, port = config["cluster"]["worker"][config["task"]["index"]].split(":")
server = socket.socket()
server.bind((host, int(port)))
server.listen()
print("listening")
"""))
        self.assertEqual(result.code, 0, result.stderr)
        self.assertEqual(result.stdout.count(b"listening"), 2)


@unittest.skipUnless(os.geteuid() == 0, "mounting a small disk needs root")
class FullDisk(LauncherTest):
    def test_a_full_disk_costs_log_lines_but_not_the_job(self):
        small = self.folder / "small"
        small.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", small], check=True)
        self.addCleanup(subprocess.run, ["umount", small])
        self.output = small / "out"
        result = self.run_job("-n", 2, *self.python(
            "for i in range(20000): print('x' * 50)\nprint('the end')"))
        self.assertEqual(result.code, 0, result.stderr)
        self.assertEqual(result.stdout.count(b"the end"), 2)
        self.assertIn("No space left on device", result.stderr)
        self.assertIn("the job goes on", result.stderr)


if __name__ == "__main__":
    unittest.main()
