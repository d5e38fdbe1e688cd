"""People without the secret connect to a job's ports: it goes on, and recovers as ever."""

import fcntl
import os
import signal
import subprocess
import threading
import time
import unittest

from attack import SANITIZED, TESTS, USUAL_LIMIT, AttackTest, connect, environment_of, junk_connections, limit_files, silent_connections

MEMBER = str(TESTS / "member_program")
SERVED = str(TESTS / "ps_program")
STRANGERS = 1010
STEPS = 100 if SANITIZED else 400  # a step takes up to 0.1 s under ThreadSanitizer


class Store(AttackTest):
    def test_a_killed_worker_is_started_again_while_silent_connections_fill_the_store(self):
        process = self.start("-n", "1:2", "--elastic", "--", MEMBER, "--until", self.folder / "end",
                             preexec_fn=limit_files(USUAL_LIMIT))
        tasks = self.wait_for_tasks(2)
        strangers = silent_connections(self.store_port(tasks[0]["pid"]), STRANGERS)
        self.addCleanup(lambda: [one.close() for one in strangers])
        os.kill(tasks[1]["pid"], signal.SIGKILL)
        self.wait_for(lambda: any(t["pid"] not in (0, tasks[1]["pid"]) and t["index"] == 1
                                  for t in self.wait_for_tasks(2)), "the worker's new process")
        (self.folder / "end").touch()
        result = self.finish(process)
        self.assertEqual(result.code, 0, result.stderr)
        self.assertNotIn("cannot be started", result.stderr)

    def test_refusals_are_counted_not_listed(self):
        process = self.start("-n", 1, "--elastic", "--", MEMBER, "--until", self.folder / "end")
        port = self.store_port(self.wait_for_tasks(1)[0]["pid"])
        junk_connections(port, 1000)
        (self.folder / "end").touch()
        result = self.finish(process)
        self.assertEqual(result.code, 0, result.stderr)
        self.assertLess(len(result.stderr), 10_000)
        self.assertRegex(result.stderr, r"the store: \d+ more connections refused in the last \d+ s")


class UnreadLog(AttackTest):
    def test_junk_does_not_freeze_an_elastic_job_whose_messages_are_not_read(self):
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        while True:  # full: not a line more goes in
            try:
                fcntl.fcntl(writer, fcntl.F_SETFL, os.O_NONBLOCK)
                os.write(writer, b"x" * 4096)
            except BlockingIOError:
                break
        fcntl.fcntl(writer, fcntl.F_SETFL, 0)
        process = subprocess.Popen(
            self.command("-q", "-n", 1, "--elastic", "--", MEMBER, "--until", self.folder / "end"),
            stdout=subprocess.DEVNULL, stderr=writer, env=self.environment(), cwd=self.folder)  # fmt: skip
        os.close(writer)
        self.addCleanup(process.kill)
        task = self.wait_for_tasks(1)[0]
        port = self.store_port(task["pid"])
        junk_connections(port, 20)
        # The store answers: a stranger's junk is closed upon, not left unread.
        with connect(port) as one:
            one.sendall(b"x" * 300)
            self.assertIn(self.end_of(one), ("closed", "reset"))
        (self.folder / "end").touch()
        drain = threading.Thread(target=self.drain, args=(reader, process))
        # The worker ends by itself; the launcher may wait for its reader after that.
        self.wait_for(lambda: not self.runs(task["pid"]), "the end of the worker: the job stands still")
        drain.start()
        self.assertEqual(process.wait(30), 0)
        drain.join()
        self.assert_nothing_left()

    @staticmethod
    def end_of(one):
        try:
            while one.recv(4096):
                pass
            return "closed"
        except ConnectionResetError:
            return "reset"

    @staticmethod
    def drain(reader, process):
        os.set_blocking(reader, False)
        while process.poll() is None:
            try:
                os.read(reader, 65536)
            except BlockingIOError:
                time.sleep(0.01)


class Server(AttackTest):
    def run_served(self, *more, strangers=0):
        self.output = self.folder / f"out-{strangers}"
        process = self.start("-n", 2, "--ps", 1, *more, "--", SERVED, "--steps", STEPS, "--pause", 5, "--tcp",
                             preexec_fn=limit_files(USUAL_LIMIT))
        tasks = self.wait_for_tasks(3)
        held = []
        if strangers:
            server = next(t for t in tasks if t["type"] == "ps")
            address = environment_of(server["pid"])["COHORT_CLUSTER"]
            port = int(address.split('"ps":["')[1].split('"')[0].rsplit(":", 1)[1])
            self.wait_for(lambda: self.listens(port), "the server's port")
            held = silent_connections(port, strangers)
        result = self.finish(process)
        for one in held:
            one.close()
        self.assertEqual(result.code, 0, result.stderr)
        return sorted(line for line in result.stdout.decode().splitlines() if "values" in line)

    @staticmethod
    def listens(port):
        try:
            connect(port).close()
            return True
        except ConnectionRefusedError:
            return False

    def test_silent_connections_past_the_limit_do_not_disturb_training(self):
        self.assertEqual(self.run_served(strangers=STRANGERS), self.run_served())


if __name__ == "__main__":
    unittest.main()
