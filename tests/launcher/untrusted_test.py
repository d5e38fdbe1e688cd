"""Folders, records and job files that another user may have prepared; guards that were killed."""

import json
import os
import pathlib
import signal
import socket
import stat
import subprocess
import sys
import time
import unittest

from launcher import COHORT, PYTHON, SANITIZED, LauncherTest

OTHER = 65534


class UntrustedTest(LauncherTest):
    def cohort(self, *words, timeout=60):
        return subprocess.run([COHORT, *map(str, words)], capture_output=True, text=True, timeout=timeout,
                              env=self.environment(), cwd=self.folder)

    def refused(self, *words, saying):
        result = self.cohort(*words)
        self.assertEqual(result.returncode, 2, f"{words}: {result.stdout}{result.stderr}")
        self.assertIn(saying, result.stderr)
        self.assertNotIn("\x1b", result.stderr + result.stdout)


class OutputFolders(UntrustedTest):
    RUN = ("run", "-q", "--output", "out", "--", "/bin/true")

    def test_a_folder_that_others_may_write_is_refused(self):
        self.output.mkdir()
        for mode in (0o775, 0o757, 0o1777):
            self.output.chmod(mode)
            self.refused(*self.RUN, saying="may be written by other users")
        self.assertEqual(list(self.output.iterdir()), [])
        self.output.chmod(0o755)
        self.assertEqual(self.cohort(*self.RUN).returncode, 0)
        for mode in (0o775, 0o757):
            self.output.chmod(mode)
            for command in (("resume", "out"), ("status", "out"), ("scale", "out", "2")):
                self.refused(*command, saying="may be written by other users")
        self.output.chmod(0o755)
        (self.output / "job.json").chmod(0o666)
        for command in (("resume", "out"), ("status", "out"), ("scale", "out", "2"), self.RUN):
            self.refused(*command, saying="may be written by other users")

    @unittest.skipUnless(os.geteuid() == 0, "only root can give files away")
    def test_what_belongs_to_another_user_is_refused(self):
        self.output.mkdir()
        os.chown(self.output, OTHER, OTHER)
        self.refused(*self.RUN, saying=f"belongs to user {OTHER}")
        os.chown(self.output, 0, 0)
        self.assertEqual(self.cohort(*self.RUN).returncode, 0)
        (self.output / "job.json").write_text((self.output / "job.json").read_text().replace("succeeded", "running"))
        os.chown(self.output / "job-options.json", OTHER, OTHER)
        self.refused("resume", "out", saying=f"belongs to user {OTHER}")
        os.chown(self.output / "job.json", OTHER, OTHER)
        for command in (("resume", "out"), ("status", "out"), ("scale", "out", "2")):
            self.refused(*command, saying=f"belongs to user {OTHER}")
        (self.folder / "link").symlink_to(self.folder)
        os.lchown(self.folder / "link", OTHER, OTHER)
        self.refused("run", "-q", "--output", "link", "--", "/bin/true", saying="is a symbolic link of user")

    def test_nothing_is_written_through_a_link_and_options_are_private(self):
        precious = self.folder / "precious"
        precious.write_text("keep")
        self.output.mkdir()
        for name in ("job-options.json", "membership.jsonl"):
            (self.output / name).symlink_to(precious)
        result = self.cohort("run", "-q", "--env", "TOKEN=secret", "--output", "out", "--", "/bin/true")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(precious.read_text(), "keep")
        status = (self.output / "job-options.json").lstat()
        self.assertTrue(stat.S_ISREG(status.st_mode))
        self.assertEqual(stat.S_IMODE(status.st_mode), 0o600)
        self.assertIn("secret", (self.output / "job-options.json").read_text())
        self.assertEqual(stat.S_IMODE(self.output.stat().st_mode) & 0o022, 0)

    def test_a_record_that_is_no_file_is_refused_at_once(self):
        self.output.mkdir()
        record = self.output / "job.json"
        os.mkfifo(record)
        for command in (("resume", "out"), ("status", "out"), ("scale", "out", "2")):
            self.refused(*command, saying="is not a regular file")
        record.unlink()
        record.symlink_to("/dev/zero")
        for command in (("resume", "out"), ("status", "out")):
            self.refused(*command, saying="is a symbolic link")


class Status(UntrustedTest):
    def write_record(self, **fields):
        self.output.mkdir(exist_ok=True)
        record = {"job": "j", "state": "running", "launcher_pid": 1, "folder": None, "control": None,
                  "started": "t", "ended": None, "attempt": 1, "tasks": [], **fields}
        (self.output / "job.json").write_text(json.dumps(record))

    def test_escape_sequences_of_a_record_are_shown_and_not_obeyed(self):
        evil = "\x1b]0;title\x07\x1b[2J\x9b31m\r"
        self.write_record(job=evil, state=evil, failure=evil, root_cause={"summary": evil},
                          tasks=[{"type": evil, "index": 0, "host": evil, "pid": evil, "state": evil}])
        for words in (("status", "out"), ("status", "out", "--json"), ("scale", "out", "2"), ("resume", "out")):
            result = self.cohort(*words)
            for control in "\x1b\x07\x9b\r":
                self.assertNotIn(control, result.stdout + result.stderr, words)
        self.assertIn("\\x1b]0;title", self.cohort("status", "out").stdout)

    def test_a_launcher_that_is_busy_is_not_said_to_be_gone(self):
        with socket.socket(socket.AF_UNIX) as listener:
            path = self.folder / "socket"
            listener.bind(str(path))
            listener.listen(0)
            self.write_record(control=str(path))
            waiting = [socket.socket(socket.AF_UNIX) for _ in range(3)]
            for client in waiting:
                client.setblocking(False)
                client.connect_ex(str(path))
            text = self.cohort("status", "out").stdout
            self.assertIn("does not answer", text)
            self.assertNotIn("gone", text)
            for client in waiting:
                client.close()
        text = self.cohort("status", "out").stdout
        self.assertIn("is gone", text)
        self.assertFalse(path.exists(), "a dead launcher's socket is left")


class JobFiles(UntrustedTest):
    def job_file(self, text):
        (self.folder / "job.toml").write_text(text)
        return ("run", "-q", "--output", "out", "--config", "job.toml")

    def test_deep_nesting_and_great_length_are_refused(self):
        self.refused(*self.job_file(f"{'a.' * 50000}b = 1\n"), saying="job.toml line 1: keys nest")
        self.refused(*self.job_file(f"a = {'[' * 5000}"), saying="job.toml line 1: lists and tables nest")
        self.refused(*self.job_file("# " + "x" * (1 << 20)), saying="the most allowed")
        self.refused("run", "-q", "--config", "/dev/zero", saying="the most allowed")

    def test_a_zero_byte_ends_no_word(self):
        self.refused(*self.job_file('program = ["tr\\u0000ue"]\n'), saying="a zero byte behind 'tr'")
        self.refused(*self.job_file('program = ["true"]\nenv = ["A=x\\u0000y"]\n'), saying="zero byte")


# A daemon: in a session of its own, with the launcher's variables.
DAEMON = """
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
print("ready", flush=True)
time.sleep(600)
"""


class Guards(UntrustedTest):
    def guard_of(self, launcher):
        for pid in self.processes():
            try:
                text = pathlib.Path(f"/proc/{pid}/stat").read_text()
            except OSError:
                continue
            if "(cohort-guard)" in text and int(text.rsplit(")", 1)[1].split()[1]) == launcher:
                return pid
        return None

    def start_daemon(self):
        process = self.start("-n", 1, *self.python(DAEMON))
        self.wait_for_log("worker/0", "ready")
        return process

    def test_a_killed_guard_is_replaced(self):
        process = self.start_daemon()
        first = self.guard_of(process.pid)
        os.kill(first, signal.SIGKILL)
        second = self.wait_for(lambda: (found := self.guard_of(process.pid)) != first and found, "another guard")
        process.kill()
        _, stderr = process.communicate()
        self.assertIn(f"(pid {first}) was killed; another one (pid {second})", stderr.decode())
        self.assert_nothing_left()

    def test_what_a_guard_and_a_launcher_killed_together_left_is_told_and_ended(self):
        process = self.start_daemon()
        socket_path = pathlib.Path(json.loads((self.output / "job.json").read_text())["control"])
        guard = self.guard_of(process.pid)
        for pid in (process.pid, guard):  # stopped first, so that neither sees the other's end
            os.kill(pid, signal.SIGSTOP)
        for pid in (guard, process.pid):
            os.kill(pid, signal.SIGKILL)
        process.communicate()
        self.wait_for(lambda: len(self.processes()) == 1, "the task to die with its launcher")
        status = self.cohort("status", "out").stdout
        self.assertIn("1 of its processes still run", status)
        self.assertFalse(socket_path.exists())
        record = json.loads((self.output / "job.json").read_text())
        options = json.loads((self.output / "job-options.json").read_text())
        options["program"] = ["/bin/true"]
        (self.output / "job-options.json").write_text(json.dumps(options))
        result = self.cohort("resume", "out")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(f"ended a process that the earlier launcher of job {record['job']} had left", result.stderr)
        self.assert_nothing_left()

    @unittest.skipUnless(os.geteuid() == 0, "needs a mount namespace")
    @unittest.skipIf(SANITIZED, "LeakSanitizer reads /proc")
    def test_without_proc_a_warning_says_that_daemons_are_not_found(self):
        script = 'mount -t tmpfs none /proc && exec "$@"'
        words = ["unshare", "-m", "sh", "-c", script, "sh", *self.command("-n", 1, "--", "/bin/true")]
        result = subprocess.run(words, capture_output=True, text=True, timeout=60, cwd=self.folder,
                                env=self.environment())
        if "unshare" in result.stderr or "mount" in result.stderr:
            self.skipTest(result.stderr)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("/proc cannot be read", result.stderr)


if __name__ == "__main__":
    unittest.main()
