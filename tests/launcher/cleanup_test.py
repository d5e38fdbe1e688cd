"""Nothing is left behind, whatever happens: launcher killed, children that escape, full disk."""

import os
import pathlib
import signal
import subprocess
import unittest

from launcher import PYTHON, LauncherTest

# A task with a child in its own group, one in a session of its own, and one that wiped its
# environment.
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

    def test_no_socket_and_no_shared_memory_file_stays(self):
        def names():
            abstract = {line.split()[-1] for line in pathlib.Path("/proc/net/unix").read_text()
                        .splitlines() if "cohort" in line}
            return abstract | {p.name for p in pathlib.Path("/dev/shm").iterdir()}
        before = names()
        process = self.start("-n", 2, *self.python(FAMILY))
        self.wait_for_log("worker/1", "ready")
        process.kill()
        process.communicate()
        self.assert_nothing_left()
        self.assertEqual(names() - before, set())


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
