"""The Python SDK against a service of the tests: what is submitted, streams that break, failures, results."""

import contextlib
import io
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import unittest
import unittest.mock
import urllib.parse

import sdk_fake
from sdk_fake import Break, SdkTest, archive_of, end_event, log_event, quietly, usual

import cohort
from cohort.estimator import Generic, PyTorch, TensorFlow
from cohort.events import Event, parse_events
from cohort.interrupt import Answer, ask_about, uninterrupted
from cohort.log_printer import LogPrinter


class Submitting(SdkTest):
    def test_the_source_is_sent_once_and_the_job_names_it(self):
        server, code = self.serve(), self.code(train_py="print(1)")
        estimator = TensorFlow("train.py", source_dir=code, hyperparameters={"epochs": 3})
        quietly(estimator.fit)
        (code / "train.py").touch()
        quietly(estimator.fit)
        self.assertEqual([method for method, path, *_ in server.requests if "sources" in path], ["HEAD", "PUT", "HEAD"])
        self.assertEqual(list(server.sources), [server.spec["source"]])
        self.assertEqual(server.spec["hyperparameters"], {"epochs": 3})
        self.assertNotIn("source_dir", server.spec)

    def test_an_entry_point_alone_is_packed_alone(self):
        server, code = self.serve(), self.code(train_py="print(1)", other_py="")
        quietly(PyTorch(code / "train.py").fit)
        self.assertEqual(server.spec["entry_point"], "train.py")
        self.assertEqual(len(server.sources), 1)

    def test_a_missing_entry_point_is_said_before_anything_is_sent(self):
        server, code = self.serve(), self.code(train_py="")
        missing = r"entry_point: there is no 'trian.py' in .*code, only: train.py"
        with self.assertRaisesRegex(cohort.SourceError, missing):
            TensorFlow("trian.py", source_dir=code).fit()
        with self.assertRaisesRegex(cohort.SourceError, "source_dir: .*nowhere is not a folder"):
            TensorFlow("train.py", source_dir=self.folder / "nowhere").fit()
        with self.assertRaisesRegex(cohort.SourceError, "source_dir: .*train.py is a file; give the folder"):
            TensorFlow("train.py", source_dir=code / "train.py").fit()
        self.assertEqual(server.requests, [])

    def test_a_submission_whose_answer_was_lost_is_repeated_with_the_same_request_id(self):
        lost = []

        def script(handler, method, path):
            if (method, path) == ("POST", "/v1/jobs") and not lost:
                lost.append(path)
                raise Break
            usual(handler, method, path)

        server = self.serve(script)
        quietly(Generic(program="ls").fit)
        ids = [json.loads(body)["request_id"] for method, path, body, _ in server.requests if path == "/v1/jobs"]
        self.assertEqual((len(ids), len(set(ids))), (2, 1))

    def test_a_service_that_has_too_much_to_do_is_asked_again(self):
        refused = []

        def script(handler, method, path):
            if method == "POST" and len(refused) < 2:
                refused.append(path)
                return handler.refuse(429, "too many requests")
            usual(handler, method, path)

        self.serve(script)
        quietly(Generic(program="ls").fit)
        self.assertEqual(len(refused), 2)

    def test_notes_are_printed_and_a_refusal_is_an_exception_with_advice(self):
        server = self.serve()
        server.job["notes"] = ["TensorFlow 1.14.0 was asked for; 2.15.1 is here"]
        _, printed, said = quietly(Generic(program="ls").fit)
        self.assertIn("cohort: TensorFlow 1.14.0 was asked for; 2.15.1 is here\n", said)
        self.assertEqual(printed, "worker:0 one line\n")
        server.script = lambda handler, *_: handler.refuse(400, "instance_count: 0 is not from 1 to 1000.", "Give it.")
        reason = r"instance_count: 0 is not from 1 to 1000\. Give it\."
        with self.assertRaisesRegex(cohort.ServiceError, reason) as refusal:
            Generic(program="ls").fit()
        self.assertEqual(refusal.exception.status, 400)
        again = pickle.loads(pickle.dumps(refusal.exception))
        self.assertEqual((again.status, str(again)), (400, str(refusal.exception)))

    def test_packages_that_are_not_installed_are_said(self):
        self.serve()
        code = self.code(train_py="", requirements_txt="numpy")
        _, _, said = quietly(TensorFlow("train.py", source_dir=code).fit)
        self.assertIn("cohort: requirements.txt of source_dir is not installed", said)

    def test_a_token_travels_and_only_to_loopback_without_tls(self):
        server = self.serve(tcp=True)
        os.environ["COHORT_TOKEN"] = "secret-word"
        quietly(Generic(program="ls").fit)
        self.assertTrue(all(headers["Authorization"] == "Bearer secret-word" for *_, headers in server.requests))
        with self.assertRaisesRegex(cohort.CohortError, "would send the token unencrypted"):
            cohort.Client("http://trainer:80")
        with self.assertRaisesRegex(cohort.CohortError, "'trainer' is not the address of a service"):
            cohort.Client("trainer")


class Following(SdkTest):
    def test_events_are_parsed_as_the_standard_says(self):
        text = (b": comment\n\nretry: 1000\nid: 1\nevent: log\ndata: a\ndata: b\n\n"
                b"data:c\r\n\r\nid: 2\nevent: end\ndata: cut")  # fmt: skip
        self.assertEqual(list(parse_events(io.BytesIO(text))), [Event("log", "a\nb", "1"), Event("message", "c", "1")])
        self.assertEqual(list(parse_events(io.BytesIO("data: ä\n\n".encode()))), [Event("message", "ä")])

    def test_a_log_goes_on_behind_the_last_id_when_the_connection_breaks(self):
        lines = [f"line {number}\n" for number in range(6)]

        def script(handler, method, path):
            if not path.endswith("/logs/stream"):
                return usual(handler, method, path)
            start = int((handler.headers.get("Last-Event-ID") or "c0")[1:])
            for number in range(start, min(start + 2, len(lines))):
                handler.stream(log_event(number + 1, lines[number]))
            if start + 2 < len(lines):
                handler.stream("event: log\nid: c99\ndata: {\"tas")  # cut off in the middle
                raise Break
            handler.stream(end_event(handler.server.job))

        self.serve(script)
        _, printed, _ = quietly(Generic(program="ls").fit)
        self.assertEqual(printed, "".join(f"worker:0 {line}" for line in lines))

    def test_a_failure_raises_the_root_cause(self):
        server = self.serve()
        server.job.update(state="failed", exit_code=3, reason="worker:1 exited with 3: no such file: data.csv")
        estimator = Generic(program="ls")
        with self.assertRaises(cohort.JobFailed) as failure:
            quietly(estimator.fit)
        self.assertEqual(str(failure.exception), "worker:1 exited with 3: no such file: data.csv")
        self.assertEqual(failure.exception.exit_code, 3)
        self.assertIs(failure.exception.job, estimator.latest_training_job)
        with self.assertRaises(cohort.JobFailed):
            quietly(estimator.fit, logs="None")
        again = pickle.loads(pickle.dumps(failure.exception))  # as from a process of a pool
        self.assertEqual((str(again), again.exit_code, again.job.id), (server.job["reason"], 3, server.job["id"]))
        server.job.update(state="stopped", reason="")
        with self.assertRaisesRegex(cohort.JobStopped, "was stopped"):
            quietly(estimator.fit, logs=False)

    def test_why_a_job_waits_is_said_once(self):
        states = ["queued", "queued", "queued", "running"]

        def script(handler, method, path):
            job = handler.server.job
            if path == f"/v1/jobs/{job['id']}" and states:
                return handler.answer(200, {**job, "state": states.pop(0), "reason": "2 cores are free, 4 are needed"})
            usual(handler, method, path)

        self.serve(script)
        _, printed, said = quietly(Generic(program="ls").fit)
        self.assertEqual(said.count(f"job {sdk_fake.JOB['id']}: 2 cores are free, 4 are needed"), 1)
        self.assertEqual(printed, "worker:0 one line\n")

    def test_lines_of_several_tasks_never_mix_and_redrawn_ones_are_printed_once(self):
        printer = LogPrinter()
        pieces = [("worker:0", 1, "half "), ("worker:1", 1, "10%\r50%\r100%\r\n"), ("worker:0", 1, "line\nlast"),
                  ("worker:0", 2, "again\n")]  # fmt: skip
        _, printed, _ = quietly(lambda: [printer.print({"task": t, "attempt": a, "text": s}) for t, a, s in pieces])
        self.assertEqual(printed.splitlines(), ["worker:1 100%", "worker:0 half line", "worker:0 last",
                                                "-- attempt 2 --", "worker:0 again"])  # fmt: skip

    def test_lines_are_printed_to_whatever_stands_for_standard_output(self):
        class Plain:  # without isatty()
            def __init__(self):
                self.written = []

            def write(self, text):
                self.written.append(text)

            def flush(self):
                pass

        plain, ascii_only = Plain(), io.TextIOWrapper(io.BytesIO(), encoding="ascii")
        for stream in (plain, ascii_only):
            with contextlib.redirect_stdout(stream):
                LogPrinter().print({"task": "worker:0", "attempt": 1, "text": "gr\u00fcn\nrot\n"})
        whole = [text for text in plain.written if text]  # at once: a line of another thread cannot come in between
        self.assertEqual(whole, ["worker:0 gr\u00fcn\nworker:0 rot\n"])
        self.assertEqual(ascii_only.buffer.getvalue(), b"worker:0 gr\\xfcn\nworker:0 rot\n")

    def test_only_the_tasks_that_were_named_are_asked_for(self):
        server = self.serve()
        quietly(Generic(program="ls").fit, logs=["worker:0", "ps:1"])
        [path] = [path for _, path, *_ in server.requests if "/logs/stream" in path]
        self.assertEqual(urllib.parse.parse_qs(urllib.parse.urlsplit(path).query), {"task": ["worker:0,ps:1"]})


    def test_logs_that_are_no_tasks_are_refused_before_anything_is_submitted(self):
        server = self.serve()
        for wrong in ("Everything", ["Training", "Rules"]):
            with self.assertRaisesRegex(ValueError, "logs is .*; give 'All', 'None', or tasks, as in 'worker:0'"):
                Generic(program="ls").fit(logs=wrong)
        self.assertEqual(server.requests, [])


class Afterwards(SdkTest):
    def attached(self, script):
        self.server = self.serve(script)
        self.server.job["spec"] = {"hyperparameters": {"epochs": 3}}
        return TensorFlow.attach(self.server.job["id"])

    def test_metrics_are_a_list_of_rows_and_print_as_a_table(self):
        rows = [{"id": at + 1, "name": "loss", "step": at, "value": 1 / (at + 1), "time": "2026-11-16T19:00:00Z"}
                for at in range(3)]  # fmt: skip

        def script(handler, method, path):
            if not path.endswith("/metrics"):
                return usual(handler, method, path)
            after = int(urllib.parse.parse_qs(urllib.parse.urlsplit(handler.path).query)["after"][0])
            if handler.headers["Accept"] == "application/json":
                page = rows[after:after + 2]
                return handler.answer(200, {"metrics": page, "names": ["loss"], "next": after + len(page)})
            for row in rows:
                handler.stream(f"event: metric\nid: {row['id']}\ndata: {json.dumps(row)}\n\n")
            handler.stream(end_event(handler.server.job))

        estimator = self.attached(script)
        self.server.job["state"] = "running"
        so_far = estimator.metrics()
        self.server.job["state"] = "succeeded"
        metrics = estimator.metrics()
        self.assertEqual(so_far, metrics)
        self.assertEqual([row["value"] for row in metrics], [1, 0.5, 1 / 3])
        self.assertEqual(str(metrics).splitlines()[0].split(), ["name", "step", "value", "time"])
        self.assertEqual(str(metrics).splitlines()[3].split()[:3], ["loss", "2", "0.333333"])
        self.assertIn("<td>0.333333</td>", metrics._repr_html_())
        self.assertEqual(metrics.last("loss"), 1 / 3)
        with self.assertRaisesRegex(KeyError, "has not reported 'accuracy', only: loss"):
            metrics.last("accuracy")

    def test_a_model_is_a_folder_of_this_machine_or_an_address(self):
        archive = archive_of({"model/weights": b"123", "model/a/b": "../weights"})

        def script(handler, method, path):
            if path.endswith("/archive"):
                return handler.answer(200, archive, "application/x-tar")
            usual(handler, method, path)

        estimator = self.attached(script)
        self.assertEqual(estimator.model_data, f"/somewhere/jobs/{sdk_fake.JOB['id']}/model")
        target = estimator.model_data.download(self.folder / "fetched")
        self.assertEqual((target / "model/weights").read_bytes(), b"123")
        self.assertEqual((target / "model/a/b").read_bytes(), b"123")
        self.assertEqual(estimator.hyperparameters(), {"epochs": 3})

    def test_an_archive_cannot_write_anywhere_else(self):
        outside = {"../evil": b"1"}, {str(self.folder / "evil"): b"1"}, {"model/up": "../.."}, {"model/up": "/tmp"}, \
            {"model/here": "..", "model/here/up": "..", "model/here/up/evil": b"1"}  # fmt: skip
        archives = [archive_of(files) for files in outside]
        estimator = self.attached(lambda handler, method, path: handler.answer(200, archives[0])
                                  if path.endswith("/archive") else usual(handler, method, path))  # fmt: skip
        while archives:
            with self.assertRaisesRegex(cohort.CohortError, "which would leave"):
                estimator.download(self.folder / "fetched")
            archives.pop(0)
        self.assertFalse((self.folder / "evil").exists())

    def test_the_last_lines_are_as_many_as_were_asked_for(self):
        text = b"one\n1%\r2%\r3%\nthree"

        def script(handler, method, path):
            if path.endswith("/tasks"):
                return handler.answer(200, {"tasks": handler.server.job["tasks"]})
            if path.endswith("/logs"):
                begin = int(urllib.parse.parse_qs(urllib.parse.urlsplit(handler.path).query).get("offset", [0])[0])
                return handler.answer(200, text[begin:], "text/plain", Cohort_Next_Offset=str(len(text)))
            usual(handler, method, path)

        estimator = self.attached(script)
        lines = ["worker:0 one\n", "worker:0 3%\n", "worker:0 three\n"]
        for tail, expected in ((None, lines), (9, lines), (2, lines[1:]), (0, [])):
            _, printed, _ = quietly(estimator.logs, follow=False, tail=tail)
            self.assertEqual(printed, "".join(expected), tail)

    def test_a_job_that_ended_is_not_stopped_again(self):
        def script(handler, method, path):
            if path.endswith("/stop"):
                return handler.refuse(400, "job has ended already (succeeded)")
            usual(handler, method, path)

        estimator = self.attached(script)
        estimator.stop()
        self.server.job["state"] = "running"
        with self.assertRaisesRegex(cohort.ServiceError, "has ended already"):
            estimator.stop()

    def test_an_attached_estimator_submits_the_source_of_its_job_again(self):
        server = self.serve()
        server.job["spec"] = {"entry_point": "deep/train.py", "source": "ab" * 32, "hyperparameters": {"epochs": 3}}
        estimator = TensorFlow.attach(server.job["id"])
        estimator.set_hyperparameters(epochs=5)
        quietly(estimator.fit)
        self.assertEqual((server.spec["entry_point"], server.spec["source"]), ("deep/train.py", "ab" * 32))
        self.assertEqual(server.spec["hyperparameters"], {"epochs": 5})

    def test_a_job_is_named_by_text(self):
        for wrong in (None, "", 7):
            with self.assertRaisesRegex(TypeError, "a job is named by its id, or its name, not by"):
                TensorFlow.attach(wrong)

    def test_files_go_below_the_home_folder_where_the_path_says_so(self):
        os.environ["HOME"] = str(self.folder)
        archive = archive_of({"model/weights": b"123"})
        estimator = self.attached(lambda handler, method, path: handler.answer(200, archive)
                                  if path.endswith("/archive") else usual(handler, method, path))  # fmt: skip
        self.assertEqual(estimator.download("~/fetched"), self.folder / "fetched")
        self.assertEqual((self.folder / "fetched/model/weights").read_bytes(), b"123")

    def test_without_a_job_the_answer_says_what_to_do(self):
        with self.assertRaisesRegex(cohort.CohortError, r"Generic has no job yet: call fit\(\)"):
            Generic(program="ls").status()

    def test_a_service_that_is_gone_is_an_exception_and_not_a_hang(self):
        client = cohort.Client(f"unix:{self.folder}/nothing.sock", patience=0.2)
        with self.assertRaisesRegex(cohort.ServiceUnavailable, "nothing.sock does not answer"):
            client.service()


class Interrupts(unittest.TestCase):
    def setUp(self):
        before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a background process ignores it
        self.addCleanup(signal.signal, signal.SIGINT, before)

    def test_an_interrupt_comes_after_the_block_whichever_thread_takes_the_signal(self):
        def take_signal():
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            signal.pthread_kill(threading.get_ident(), signal.SIGINT)

        done = []
        with self.assertRaises(KeyboardInterrupt):
            with uninterrupted():
                other = threading.Thread(target=take_signal)
                other.start()
                other.join()
                done.append("the block")
        self.assertEqual(done, ["the block"])
        self.assertIs(signal.getsignal(signal.SIGINT), signal.default_int_handler)

    def test_a_notebook_without_a_person_leaves_the_job_running(self):
        class Notebook:
            @staticmethod
            def get_ipython():
                return object()

        with unittest.mock.patch.dict(sys.modules, IPython=Notebook), \
                unittest.mock.patch("builtins.input", side_effect=NotImplementedError("no input here")):  # fmt: skip
            answer, _, said = quietly(ask_about, "7")
        self.assertIs(answer, Answer.LEAVE)
        self.assertIn("cohort: job 7 goes on. Stop it with: cohort stop 7", said)


def empty_program(place):
    """An empty program at this place."""
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("")
    place.chmod(0o755)
    return place


class Program(SdkTest):
    """Which `cohort` is started."""

    def found(self, **environment):
        run = subprocess.run([sys.executable, "-c", "import cohort.service as s; print(s.find_program())"], text=True,
                             env={"PATH": "/usr/bin:/bin", **environment}, capture_output=True)  # fmt: skip
        return run.stdout.strip() or run.stderr.splitlines()[-1]

    def test_the_one_of_the_variable_then_of_the_tree_then_of_the_path(self):
        package = self.folder / "tree/python/cohort"
        shutil.copytree(sdk_fake.SOURCE / "python/cohort", package, ignore=shutil.ignore_patterns("__pycache__"))
        search = {"PYTHONPATH": str(package.parent), "PYTHONDONTWRITEBYTECODE": "1"}
        empty_program(self.folder / "bin/cohort")  # beside the tree, where another user may write
        empty_program(self.folder / "build/bin/cohort")
        self.assertIn("the cohort program was not found", self.found(**search))
        places = [self.folder / "path/cohort", self.folder / "tree/bin/cohort", self.folder / "tree/build/bin/cohort",
                  self.folder / "named"]  # fmt: skip
        for place in places:
            empty_program(place)
            path = {"PATH": f"{self.folder}/path:/usr/bin:/bin"}
            named = {"COHORT_PROGRAM": str(place)} if place.name == "named" else {}
            self.assertEqual(self.found(**search, **path, **named), str(place))
        self.assertIn("is not a program", self.found(**search, COHORT_PROGRAM="/nothing"))

    def test_an_installed_one_is_beside_share(self):
        package = self.folder / "prefix/share/cohort/python/cohort"
        shutil.copytree(sdk_fake.SOURCE / "python/cohort", package, ignore=shutil.ignore_patterns("__pycache__"))
        place = empty_program(self.folder / "prefix/bin/cohort")
        self.assertEqual(self.found(PYTHONPATH=str(package.parent), PYTHONDONTWRITEBYTECODE="1"), str(place))

    def test_a_service_that_does_not_start_is_told_with_its_last_words(self):
        program = self.folder / "cohort"
        program.write_text("#!/bin/sh\necho \"$@: the disk is full\" >&2\nexit 1\n")
        program.chmod(0o755)
        os.environ["COHORT_PROGRAM"] = str(program)
        with self.assertRaisesRegex(cohort.ServiceUnavailable, "did not start: serve --on-demand: the disk is full"):
            cohort.Client().service()
        self.assertEqual((self.folder / "home").stat().st_mode & 0o777, 0o700)

    def test_a_service_that_cannot_be_started_is_told_at_once(self):
        (self.folder / "file").write_text("")
        os.environ.update(COHORT_PROGRAM="/bin/true", COHORT_HOME=str(self.folder / "file/home"))
        with self.assertRaisesRegex(cohort.ServiceUnavailable, "cannot be started: .*Not a directory.*COHORT_HOME"):
            cohort.Client(patience=20).service()

    def test_a_user_without_a_home_folder_is_told_what_to_set(self):
        del os.environ["COHORT_HOME"]
        os.environ.pop("XDG_STATE_HOME", None)
        with unittest.mock.patch("pathlib.Path.home", side_effect=RuntimeError("Could not determine home directory.")):
            with self.assertRaisesRegex(cohort.ServiceUnavailable, "no home folder .*; set COHORT_HOME"):
                cohort.Client().service()

    def test_a_service_of_another_version_is_said_once(self):
        self.serve()
        (self.folder / "home").mkdir()
        record = {"socket": os.environ.pop("COHORT_SERVICE").partition(":")[2], "pid": 77, "version": "0.0.1"}
        (self.folder / "home/service.json").write_text(json.dumps(record))
        _, _, said = quietly(lambda: [cohort.Client().service() for _ in range(2)])
        self.assertEqual(said.count("your own service (pid 77) is of version 0.0.1, this package of "), 1, said)

    def test_a_token_file_that_is_not_there_is_named(self):
        os.environ.update(COHORT_SERVICE="https://trainer:8443", COHORT_TOKEN_FILE="/no/such/token")
        with self.assertRaisesRegex(cohort.CohortError, "COHORT_TOKEN_FILE=/no/such/token cannot be read"):
            cohort.Client()


if __name__ == "__main__":
    unittest.main()
