"""cohort.run() and horovod.run(): functions on ranks, their results and failures, and who may take part."""

import os
import pathlib
import pickle
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock

HERE = pathlib.Path(__file__).resolve().parent
TREE = HERE.parents[1]
sys.path[:0] = [str(TREE / "python"), str(HERE)]
os.environ["COHORT_PROGRAM"] = str(pathlib.Path(os.environ.get("COHORT_BIN_DIR", TREE / "build/bin")) / "cohort")

import functions  # noqa: E402

import cohort  # noqa: E402
import cohort.runner  # noqa: E402
from cohort.runner import channel  # noqa: E402
from cohort.runner.function import RunFailed, run  # noqa: E402


class Results(unittest.TestCase):
    def test_results_come_in_the_order_of_ranks(self):
        self.assertEqual(run(functions.describe, ("ab",), {"times": 2}, n=3), [[r, "abab"] for r in range(3)])

    def test_horovods_signature(self):
        self.assertEqual(cohort.runner.run(functions.describe, ("x",)), [[0, "x"]])
        self.assertEqual(cohort.runner.run(functions.describe, ("x",), np=2, hosts="localhost:2", use_gloo=True,
                                           disable_cache=True), [[0, "x"], [1, "x"]])  # fmt: skip
        self.assertEqual(cohort.runner.run(functions.environment, ("HOROVOD_START_TIMEOUT",), num_proc=1,
                                           start_timeout=7), ["7"])  # fmt: skip

    def test_large_results(self):
        self.assertEqual([len(data) for data in run(functions.large, (30_000_000,))], [30_000_000] * 2)

    def test_environment_of_workers(self):
        self.assertEqual(run(functions.environment, ("COLOUR",), n=1, env={"COLOUR": "blue"}), ["blue"])
        self.assertEqual(run(functions.secrets, n=1), [[]], "a child of the function would inherit them")

    def test_logs_are_kept_where_asked(self):
        with tempfile.TemporaryDirectory() as folder:
            cohort.runner.run(functions.describe, ("x",), np=1, output_filename=f"{folder}/out")
            self.assertTrue(pathlib.Path(folder, "out/job.json").exists())

    def test_a_program_without_cloudpickle_is_imported_by_its_workers(self):
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder, "script.py")
            script.write_text("import sys\nsys.modules['cloudpickle'] = None\n"
                              "from cohort.runner.function import run\n"
                              "def twice(x):\n    return 2 * x\n"
                              "if __name__ == '__main__':\n    print(run(twice, (21,)))\n"
                              "    try:\n        run(lambda: 1)\n    except TypeError as error:\n"
                              "        print(error)\n")
            said = subprocess.run([sys.executable, script], text=True, stdout=subprocess.PIPE, cwd=folder, timeout=60,
                                  env={**os.environ, "PYTHONPATH": str(TREE / "python")}).stdout  # fmt: skip
        self.assertRegex(said, r"^\[42, 42\]\nthe function or an argument of it cannot be sent to another process: .*"
                               r"pip install cloudpickle\n$")  # fmt: skip


@unittest.skipIf("san" in pathlib.Path(os.environ["COHORT_PROGRAM"]).parents[1].name,
                 "Python loads no sanitized library")  # fmt: skip
class Collectives(unittest.TestCase):
    def test_ranks_are_those_of_one_job(self):
        self.assertEqual(cohort.run(functions.gather, n=3), [[0, 1, 2]] * 3)

    def test_an_elastic_job_outlives_a_worker_that_is_killed(self):
        self.assertEqual(cohort.run(functions.gather_elastically, n=2, least=2), [5, 5])

    def test_the_rank_that_began_it_is_named_and_not_one_that_waited_for_it(self):
        with self.assertRaises(RunFailed) as caught:
            run(functions.gather_and_fail, n=3)
        self.assertEqual(caught.exception.rank, 1)
        self.assertIsInstance(caught.exception.__cause__, ValueError)


class Failures(unittest.TestCase):
    def fails(self, func, *args):
        begin = time.monotonic()
        with self.assertRaises(RunFailed) as caught:
            run(func, args)
        self.assertLess(time.monotonic() - begin, 30)
        self.assertIsInstance(caught.exception, RuntimeError)
        return caught.exception

    def test_an_exception_comes_with_its_traceback_and_the_root_cause(self):
        failure = self.fails(functions.raise_on_rank_1, "value")
        self.assertIsInstance(failure.__cause__, ValueError)
        self.assertEqual((failure.rank, failure.exit_code), (1, 1))
        self.assertRegex(str(failure), r"^rank 1 failed: ValueError: shard 3 is empty\n\nTraceback of rank 1:\n"
                                       r"Traceback [^$]*functions.py\", line \d+, in raise_on_rank_1\n[^$]*\n\n"
                                       r"Root cause, as the launcher tells it: worker/1 on \S+ \(pid \d+\) "
                                       r"failed with exit code 1")  # fmt: skip

    def test_an_exception_that_cannot_be_sent_is_told_all_the_same(self):
        failure = self.fails(functions.raise_on_rank_1, "unreadable")
        self.assertIsNone(failure.__cause__)
        self.assertIn("Unreadable: this and that", str(failure))

    def test_a_rank_that_is_killed(self):
        failure = self.fails(functions.killed_on_rank_1)
        self.assertEqual((failure.rank, failure.exit_code), (1, 137))
        self.assertIn("was killed by signal 9 (SIGKILL)", str(failure))

    def test_a_rank_that_ends_without_a_result(self):
        self.assertIn("rank 1 of 2 ended without returning", str(self.fails(functions.exit_on_rank_1)))

    def test_a_result_that_cannot_be_sent(self):
        failure = self.fails(functions.return_what_cannot_be_sent)
        self.assertIn("TypeError: what the function returned cannot be sent to another process", str(failure))

    def test_arguments_are_checked_before_anything_starts(self):
        for message, words in {"n is 0": {"n": 0}, "least is 3": {"n": 2, "least": 3}}.items():
            with self.assertRaisesRegex(ValueError, message):
                run(functions.describe, ("x",), **words)
        for message, words in {"hosts has 'elsewhere': functions are not sent": {"hosts": "elsewhere:2"},
                               "hosts has 1 slots, and 2 processes": {"hosts": "localhost:1"},
                               "host_discovery_script is './x'": {"host_discovery_script": "./x"}}.items():  # fmt: skip
            with self.assertRaisesRegex(ValueError, message):
                cohort.runner.run(functions.describe, ("x",), np=2, **words)

    def test_nothing_is_left_when_the_caller_is_killed_or_interrupted(self):
        for number in (signal.SIGINT, signal.SIGKILL):
            with self.subTest(number=number), tempfile.TemporaryDirectory() as folder:
                caller = subprocess.Popen(
                    [sys.executable, "-c", "import sys, functions; from cohort.runner.function import run; "
                     "run(functions.sleep, (sys.argv[1],))", f"{folder}/pid"], stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL, cwd=folder,
                    env={**os.environ, "PYTHONPATH": f"{TREE / 'python'}:{HERE}", "TMPDIR": folder})  # fmt: skip
                files = [pathlib.Path(folder, f"pid.{rank}") for rank in (0, 1)]
                self.wait_until(lambda: all(file.exists() and file.read_text() for file in files))
                caller.send_signal(number)
                caller.wait(30)
                self.wait_until(lambda: not any(pathlib.Path("/proc", file.read_text()).exists() for file in files))
                if number == signal.SIGINT:
                    self.assertEqual([path.name for path in pathlib.Path(folder).glob("cohort-run-*")], [])

    def wait_until(self, condition):
        deadline = time.monotonic() + 30
        while not condition():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)


class Strangers(unittest.TestCase):
    """Only a worker of this call gets the function, and is listened to."""

    def setUp(self):
        self.reports = []
        self.server = channel.Server(b"the work", self.reports.append)
        self.addCleanup(self.server.close, 5)
        self.path = self.server.environment()[channel.SOCKET]
        self.token = bytes.fromhex(self.server.environment()[channel.TOKEN])

    def test_a_worker_gets_the_work_and_reports(self):
        worker = channel.Client(self.path, self.token)
        self.assertEqual(worker.receive(), b"the work")
        worker.watch(lambda: self.fail("the parent is there"))
        worker.report(b"done")
        self.assertEqual(self.reports, [b"done"])

    def test_the_folder_is_private(self):
        self.assertEqual(os.stat(os.path.dirname(self.path)).st_mode & 0o777, 0o700)

    def test_without_the_token_nothing_is_given_and_nothing_is_read(self):
        with self.assertRaises((channel.ChannelError, ConnectionError)):
            channel.Client(self.path, bytes(32)).receive()
        with socket.socket(socket.AF_UNIX) as stranger:
            stranger.connect(self.path)
            stranger.settimeout(30)
            stranger.recv(32)
            bomb = pickle.dumps({"rank": 0})
            stranger.sendall(bytes(64) + struct.pack("<Q", len(bomb)) + bomb)
            with self.assertRaises(OSError):
                while True:
                    if not stranger.recv(1):
                        raise ConnectionResetError
        self.assertEqual(self.reports, [])

    def test_another_users_process_is_sent_away(self):
        with unittest.mock.patch("os.geteuid", return_value=os.geteuid() + 1):
            with socket.socket(socket.AF_UNIX) as stranger:
                stranger.connect(self.path)
                stranger.settimeout(30)
                self.assertEqual(stranger.recv(1), b"")

    def test_a_worker_reads_nothing_from_a_parent_that_does_not_know_the_token(self):
        with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
            listener.bind(f"{folder}/work")
            listener.listen()

            def answer():
                connection, _ = listener.accept()
                connection.sendall(bytes(32 + 32) + struct.pack("<Q", 0))
                connection.recv(1)

            threading.Thread(target=answer, daemon=True).start()
            with self.assertRaisesRegex(channel.ChannelError, "does not know its token"):
                channel.Client(f"{folder}/work", self.token)


if __name__ == "__main__":
    unittest.main()
