"""The Python SDK against a service of the tests: arguments, what is submitted, streams that break, failures."""

import contextlib
import inspect
import io
import json
import os
import shutil
import subprocess
import sys
import unittest
import unittest.mock
import urllib.parse

import sdk_fake
from sdk_fake import Break, SdkTest, archive_of, end_event, log_event, usual

import cohort
from cohort.arguments import OTHER_NAMES
from cohort.estimator import Cohort, Generic, PyTorch, TensorFlow
from cohort.events import Event, parse_events
from cohort.log_printer import LogPrinter


def quietly(call, *arguments, **named):
    """What the call returned, printed, and said on standard error."""
    printed, said = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(said):
        result = call(*arguments, **named)
    return result, printed.getvalue(), said.getvalue()


class Arguments(SdkTest):
    def setUp(self):
        super().setUp()
        outside = unittest.mock.patch.object(sys, "prefix", sys.base_prefix)  # of any virtual environment
        outside.start()
        self.addCleanup(outside.stop)

    def fields(self, **arguments):
        return TensorFlow("train.py", **arguments).job_description()

    def test_every_spelling_of_an_argument_is_the_same_field(self):
        values = {"instance_count": 2, "instance_type": "local", "distributions": {"mpi": {"enabled": True}},
                  "image": "tf:1", "env": {"A": "b"}, "max_run": "2h", "restarts": 3, "name": "mine",
                  "output": "/tmp/out"}  # fmt: skip
        self.assertEqual(set(OTHER_NAMES.values()), set(values))
        for other, field in OTHER_NAMES.items():
            self.assertEqual(self.fields(**{other: values[field]}), self.fields(**{field: values[field]}), other)
            self.assertEqual(self.fields(**{other: values[field], field: values[field]})[field], values[field])

    def test_two_spellings_with_different_values_are_refused_by_both_names(self):
        with self.assertRaisesRegex(ValueError, r"train_instance_count=2 and instance_count=3 .* different values"):
            TensorFlow("train.py", train_instance_count=2, instance_count=3)

    def test_an_unknown_argument_is_refused_with_the_nearest(self):
        nearest = "TensorFlow has no argument 'instance_cout'; did you mean 'instance_count'"
        with self.assertRaisesRegex(TypeError, nearest):
            TensorFlow("train.py", instance_cout=2)
        with self.assertRaisesRegex(TypeError, "PyTorch has no argument 'zzzz'$"):
            PyTorch("train.py", zzzz=2)

    def test_arguments_of_other_platforms_without_meaning_are_taken_and_named(self):
        _, _, said = quietly(TensorFlow, "train.py", train_volume_size=30, use_spot_instances=True)
        self.assertIn("cohort: train_volume_size has no meaning here", said)
        self.assertIn("cohort: use_spot_instances has no meaning here", said)

    def test_none_counts_as_left_out(self):
        self.assertEqual(self.fields(role=None, image=None), self.fields())

    def test_a_program_is_needed_and_only_one(self):
        with self.assertRaisesRegex(ValueError, "TensorFlow needs entry_point"):
            TensorFlow(role="x")
        with self.assertRaisesRegex(ValueError, "not both"):
            Generic("train.sh", program="ls")

    def test_values_travel_as_json(self):
        class Number:
            def item(self):
                return 0.5

        hyperparameters = {"layers": (64, 32), "rate": Number(), "data": self.folder, "nested": {"deep": [True, None]}}
        sent = self.fields(hyperparameters=hyperparameters, elastic=(2, 8), env={"N": 1, "ON": True, "T": "text"})
        self.assertEqual(sent["hyperparameters"], {"layers": [64, 32], "rate": 0.5, "data": str(self.folder),
                                                   "nested": {"deep": [True, None]}})  # fmt: skip
        self.assertEqual(sent["elastic"], {"min": 2, "max": 8})
        self.assertEqual(sent["env"], {"N": "1", "ON": "true", "T": "text"})
        with self.assertRaisesRegex(TypeError, r"hyperparameters\.model\[1\]: a object cannot be sent"):
            self.fields(hyperparameters={"model": [1, object()]})

    def test_a_job_gets_the_virtual_environment_of_this_process(self):
        with unittest.mock.patch.object(sys, "prefix", "/venv"):
            self.assertEqual(self.fields(env={"A": "b"})["env"], {"A": "b", "VIRTUAL_ENV": "/venv"})
            self.assertEqual(self.fields(env={"VIRTUAL_ENV": "/other"})["env"], {"VIRTUAL_ENV": "/other"})
            os.environ["COHORT_SERVICE"] = "https://trainer:8443"
            self.assertNotIn("env", self.fields())

    def test_inputs_are_a_path_a_uri_or_channels(self):
        os.chdir(self.folder)
        estimator = TensorFlow("train.py")
        self.assertEqual(estimator.job_description("data")["inputs"], {"training": str(self.folder / "data")})
        self.assertEqual(estimator.job_description("s3://bucket/x")["inputs"], {"training": "s3://bucket/x"})
        channels = estimator.job_description({"train": self.folder / "a", "test": "cos://b"})["inputs"]
        self.assertEqual(channels, {"train": str(self.folder / "a"), "test": "cos://b"})
        os.environ["COHORT_SERVICE"] = "https://trainer:8443"  # another machine: its paths are its own
        self.assertEqual(TensorFlow("train.py").job_description("/data")["inputs"], {"training": "/data"})

    def test_help_names_every_argument(self):
        names = list(inspect.signature(TensorFlow).parameters)
        self.assertEqual(names[0], "entry_point")
        self.assertLessEqual({"train_instance_count", "distributions", "image_uri", "workers"}, set(names))

    def test_the_two_calls_give_the_fields_that_they_name(self):
        parameter_server = TensorFlow(
            role="role", train_instance_count=2, train_instance_type="TI.SMALL2.1core2g", py_version="py3",
            framework_version="1.14.0", entry_point="train.py", source_dir="path/code",
            distributions={"parameter_server": {"enabled": True}}).job_description("/data")  # fmt: skip
        self.assertEqual(parameter_server, {
            "entry_point": "train.py", "role": "role", "instance_count": 2, "instance_type": "TI.SMALL2.1core2g",
            "py_version": "py3", "framework": "tensorflow", "framework_version": "1.14.0",
            "distributions": {"parameter_server": {"enabled": True}}, "inputs": {"training": "/data"}})  # fmt: skip

    def test_a_built_program_is_sent_by_its_whole_path(self):
        os.chdir(self.folder)
        (self.folder / "train").write_text("")
        self.assertEqual(Cohort(program=["./train", "--epochs", "3"]).job_description()["program"],
                         [str(self.folder / "train"), "--epochs", "3"])  # fmt: skip
        self.assertEqual(Generic(program="ls").job_description()["program"], ["ls"])


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
        self.assertEqual(said.count("waits: 2 cores are free, 4 are needed"), 1)
        self.assertEqual(printed, "worker:0 one line\n")

    def test_lines_of_several_tasks_never_mix_and_redrawn_ones_are_printed_once(self):
        printer = LogPrinter()
        pieces = [("worker:0", 1, "half "), ("worker:1", 1, "10%\r50%\r100%\r\n"), ("worker:0", 1, "line\nlast"),
                  ("worker:0", 2, "again\n")]  # fmt: skip
        _, printed, _ = quietly(lambda: [printer.print({"task": t, "attempt": a, "text": s}) for t, a, s in pieces])
        self.assertEqual(printed.splitlines(), ["worker:1 100%", "worker:0 half line", "worker:0 last",
                                                "-- attempt 2 --", "worker:0 again"])  # fmt: skip

    def test_only_the_tasks_that_were_named_are_asked_for(self):
        server = self.serve()
        quietly(Generic(program="ls").fit, logs=["worker:0", "ps:1"])
        [path] = [path for _, path, *_ in server.requests if "/logs/stream" in path]
        self.assertEqual(urllib.parse.parse_qs(urllib.parse.urlsplit(path).query), {"task": ["worker:0,ps:1"]})


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

    def test_without_a_job_the_answer_says_what_to_do(self):
        with self.assertRaisesRegex(cohort.CohortError, r"Generic has no job yet: call fit\(\)"):
            Generic(program="ls").status()

    def test_a_service_that_is_gone_is_an_exception_and_not_a_hang(self):
        client = cohort.Client(f"unix:{self.folder}/nothing.sock", patience=0.2)
        with self.assertRaisesRegex(cohort.ServiceUnavailable, "nothing.sock does not answer"):
            client.service()


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
        self.assertIn("the cohort program was not found", self.found(**search))
        places = [self.folder / "path/cohort", self.folder / "tree/bin/cohort", self.folder / "tree/build/bin/cohort",
                  self.folder / "named"]  # fmt: skip
        for place in places:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text("")
            place.chmod(0o755)
            path = {"PATH": f"{self.folder}/path:/usr/bin:/bin"}
            named = {"COHORT_PROGRAM": str(place)} if place.name == "named" else {}
            self.assertEqual(self.found(**search, **path, **named), str(place))
        self.assertIn("is not a program", self.found(**search, COHORT_PROGRAM="/nothing"))

    def test_a_service_that_does_not_start_is_told_with_its_last_words(self):
        program = self.folder / "cohort"
        program.write_text("#!/bin/sh\necho \"$@: the disk is full\" >&2\nexit 1\n")
        program.chmod(0o755)
        os.environ["COHORT_PROGRAM"] = str(program)
        with self.assertRaisesRegex(cohort.ServiceUnavailable, "did not start: serve --on-demand: the disk is full"):
            cohort.Client().service()
        self.assertEqual((self.folder / "home").stat().st_mode & 0o777, 0o700)


if __name__ == "__main__":
    unittest.main()
