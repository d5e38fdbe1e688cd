"""The Python SDK against a real service: jobs that run, fail, are left, stopped and found again; a service that is
killed meanwhile; a shared one with two users."""

import contextlib
import importlib.util
import io
import os
import pathlib
import pty
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import sdk_service
from sdk_service import COHORT, PATIENCE, ServiceTest, end_service, record_of, wait_until

import cohort
from cohort.estimator import Generic

# Says `ready`, and goes on when the file of --go is there.
WAITING = """
import argparse, os, time
parser = argparse.ArgumentParser()
parser.add_argument("--go")
go = parser.parse_args().go
print("ready", flush=True)
while not os.path.exists(go):
    time.sleep(0.01)
for number in range(200):
    print(f"line {number}", flush=True)
"""

# Says which task it is, and what it was given. Workers wait until all four have; parameter servers stay.
WHO = """
import json, os, sys, time
data = min(os.listdir(os.environ["SM_CHANNEL_TRAINING"]), key=lambda name: name != "train.csv")
if "OMPI_COMM_WORLD_RANK" in os.environ:
    words = " ".join(sys.argv[1:]) + " and NCCL_DEBUG=" + os.environ["NCCL_DEBUG"]
    print("I am rank", os.environ["OMPI_COMM_WORLD_RANK"], "of", data, words, flush=True)
else:
    task = json.loads(os.environ["TF_CONFIG"])["task"]
    print("I am", task["type"], task["index"], "of", data, flush=True)
    place = os.environ["SM_MODEL_DIR"]
    open(f"{place}/{task['type']}-{task['index']}", "w").close()
    while task["type"] == "ps" or len(os.listdir(place)) < 4:
        time.sleep(0.01)
"""

FIT = """
import sys
sys.path.insert(0, {path!r})
from cohort.estimator import Generic
Generic("train.py", source_dir={source!r}, hyperparameters={{"go": {go!r}}}).fit(job_name={name!r})
print("fit returned")
"""


def quietly(call, *arguments, **named):
    printed, said = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(said):
        result = call(*arguments, **named)
    return result, printed.getvalue(), said.getvalue()


def read_until(stream, line):
    """The lines up to `line`."""
    seen = []
    for found in stream:
        seen.append(found)
        if found.rstrip("\n").endswith(line):
            return seen
    raise AssertionError(f"'{line}' never came, only: {seen}")


class Jobs(ServiceTest):
    def fit_waiting(self, name, **options):
        """A process in whose fit() a job waits for the file that is returned with it."""
        source, go = self.program("waiting", WAITING), self.folder / f"go-{name}"
        script = FIT.format(path=str(sdk_service.SOURCE / "python"), source=str(source), go=str(go), name=name)
        process = self.start(script, **options)
        self.addCleanup(go.touch)
        read_until(process.stdout, "worker:0 ready")
        return process, go

    def test_a_job_leaves_its_log_metrics_and_model(self):
        code = self.program("leaves", "import os, sys\n"
                            "print('loss=0.25', sys.argv[1:], os.environ['SM_CHANNEL_TRAINING'])\n"
                            "open(os.environ['SM_MODEL_DIR'] + '/weights', 'w').write('42')\n")  # fmt: skip
        estimator = Generic("train.py", source_dir=code, hyperparameters={"layers": [64, 32], "name": "a b"},
                            metric_definitions=[{"Name": "loss", "Regex": "loss=([0-9.]+)"}])  # fmt: skip
        (self.folder / "data").mkdir(exist_ok=True)
        job, printed, _ = quietly(estimator.fit, "data")
        words = r"\['--layers', '\[64, ?32\]', '--name', 'a b'\]"
        self.assertRegex(printed, rf"(?m)^worker:0 loss=0.25 {words} .*/data$")
        self.assertEqual(estimator.status(), "succeeded")
        self.assertEqual((pathlib.Path(estimator.model_data) / "weights").read_text(), "42")
        fetched = estimator.download(self.folder / "fetched")
        self.assertEqual([path.read_text() for path in fetched.rglob("weights")], ["42"])
        self.assertEqual(estimator.metrics().last("loss"), 0.25)
        _, again, _ = quietly(estimator.logs, follow=False)
        self.assertEqual(again, printed)
        attached = Generic.attach(job.id)
        attached.set_hyperparameters(name="c d")
        _, printed, _ = quietly(attached.fit, logs="worker:0")
        self.assertIn("'--name', 'c d'] ", printed)
        self.assertIn("weights", "".join(file["path"] for file in job.files()))

    def test_a_failure_is_an_exception_with_the_root_cause(self):
        code = self.program("fails", "import no_such_module\n")
        with self.assertRaises(cohort.JobFailed) as failure:
            quietly(Generic("train.py", source_dir=code).fit)
        self.assertIn("No module named 'no_such_module'", str(failure.exception))
        self.assertEqual(failure.exception.exit_code, 1)
        self.assertEqual(failure.exception.job.status(), "failed")

    @unittest.skipIf(importlib.util.find_spec("tensorflow"), "TensorFlow is here: tests/frameworks runs the examples")
    def test_the_examples_without_tensorflow_fail_with_that_as_the_root_cause(self):
        example = sdk_service.SOURCE / "examples/estimator/ps.py"
        done = subprocess.run([sys.executable, example], cwd=example.parent, env=self.environment, text=True,
                              timeout=PATIENCE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)  # fmt: skip
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr.splitlines()[-1], r"^cohort\.errors\.JobFailed: .* No module named 'tensorflow'$")

    def example(self, name):
        """What NAME of examples/estimator prints where its program only says who it is."""
        folder = self.folder / "example"
        shutil.copytree(sdk_service.SOURCE / "examples/estimator", folder, dirs_exist_ok=True)
        (folder / "path/code/train.py").write_text(WHO)
        done = subprocess.run([sys.executable, name], cwd=folder, env=self.environment, text=True, timeout=PATIENCE,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)
        return sorted(line.partition("I am ")[2] for line in done.stdout.splitlines() if "I am " in line), done.stderr

    def test_the_example_with_parameter_servers_starts_two_of_each(self):
        told, _ = self.example("ps.py")
        self.assertEqual(told, ["master 0 of train.csv", "ps 0 of train.csv", "ps 1 of train.csv",
                                "worker 0 of train.csv"])  # fmt: skip

    @unittest.skipUnless(shutil.which("mpirun"), "no mpirun")
    def test_the_example_with_mpi_starts_two_ranks_with_its_hyperparameters(self):
        told, said = self.example("mpi.py")
        words = "--steps 600 --learning-rate 0.02 and NCCL_DEBUG=INFO"
        self.assertEqual(told, [f"rank 0 of train.csv {words}", f"rank 1 of train.csv {words}"])
        self.assertIn("2 instances of TI.GN10X.2XLARGE40.1xV100", said)

    def test_a_job_that_the_service_refuses_is_not_made(self):
        with self.assertRaisesRegex(cohort.ServiceError, "instance_count"):
            Generic(program="true", instance_count=0).fit()
        for regex in ("loss=(", "loss=[0-9]+"):
            with self.assertRaisesRegex(cohort.ServiceError, "metric_definitions: metric 'loss': .*Write RE2"):
                Generic(program="true", metric_definitions=[{"Name": "loss", "Regex": regex}]).fit()
        with self.assertRaisesRegex(cohort.ServiceError, "no-such-job"):
            cohort.attach("no-such-job")

    def test_interrupted_without_a_person_the_job_is_left_and_found_again(self):
        process, go = self.fit_waiting("left", stdin=subprocess.DEVNULL)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=PATIENCE)
        self.assertNotEqual(process.returncode, 0)
        self.assertRegex(said, r"cohort: job \S+ goes on\. Stop it with: cohort stop \S+\n")
        self.assertNotIn("socket.py", said)  # the way to where it waited
        attached = Generic.attach("left")
        self.assertIn(attached.status(), ("starting", "running"))
        self.assertEqual(attached.hyperparameters(), {"go": str(go)})
        go.touch()
        _, printed, _ = quietly(attached.wait)
        self.assertEqual(printed.splitlines()[-1], "worker:0 line 199")

    def answered(self, name, answer):
        """A fit() in a terminal that is interrupted, and whose question gets this answer."""
        terminal, other_end = pty.openpty()
        self.addCleanup(os.close, terminal)
        process, go = self.fit_waiting(name, stdin=other_end, stderr=other_end)
        os.close(other_end)
        process.send_signal(signal.SIGINT)
        self.shown_until(terminal, b"(l)eave it running?")
        os.write(terminal, answer)
        return process, go, terminal

    def shown_until(self, terminal, text):
        """Reads what the terminal shows until `text` has come."""
        shown = b""
        while text not in shown:
            more = os.read(terminal, 4096)
            self.assertTrue(more, f"{text} never came, only: {shown}")
            shown += more

    def test_interrupted_in_a_terminal_the_job_is_stopped_if_the_person_says_so(self):
        process, _, terminal = self.answered("stopped", b"s\n")
        self.shown_until(terminal, b" is stopped")
        process.communicate(timeout=PATIENCE)
        self.assertEqual(cohort.attach("stopped").status(), "stopped")

    def test_interrupted_in_a_terminal_it_goes_on_where_it_was_if_the_person_says_so(self):
        process, go, _ = self.answered("going-on", b"w\n")
        go.touch()
        printed, _ = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 0)
        lines = [line for line in printed.splitlines() if line.startswith("worker:0 ")]
        self.assertEqual(lines, [f"worker:0 line {number}" for number in range(200)])

    def test_a_service_that_is_killed_while_fit_waits_is_started_again_and_the_log_is_whole(self):
        process, go = self.fit_waiting("survivor", stdin=subprocess.DEVNULL)
        before = record_of(self.folder)["pid"]
        end_service(self.folder, signal.SIGKILL)
        go.touch()
        printed, said = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 0, said)
        self.assertNotEqual(record_of(self.folder)["pid"], before)
        lines = [line for line in printed.splitlines() if line.startswith("worker:0 ")]
        self.assertEqual(lines, [f"worker:0 line {number}" for number in range(200)])
        self.assertEqual(printed.splitlines()[-1], "fit returned")
        self.assertEqual(len(cohort.attach("survivor").describe()["attempts"]), 1)

    def test_a_stopped_job_says_so_to_those_that_wait(self):
        process, _ = self.fit_waiting("ended-elsewhere", stdin=subprocess.DEVNULL)
        cohort.attach("ended-elsewhere").stop()
        _, said = process.communicate(timeout=PATIENCE)
        self.assertIn("cohort.errors.JobStopped: ", said)

    def test_jobs_are_listed_and_deleted(self):
        job, _, _ = quietly(Generic(program="true", tags={"kind": "listed"}).fit)
        client = cohort.Client()
        self.assertEqual([entry["id"] for entry in client.jobs(tag="kind=listed")], [job.id])
        self.assertIn("submitted", [event["kind"] for event in client.events(job.id)])
        job.delete()
        self.assertEqual(list(client.jobs(tag="kind=listed")), [])


class Users(unittest.TestCase):
    """A shared service on loopback, and two users of it."""

    def test_users_see_to_their_own_jobs(self):
        with tempfile.TemporaryDirectory(prefix="cohort-users-", ignore_cleanup_errors=True) as name:
            folder = pathlib.Path(name)
            service = subprocess.Popen([COHORT, "serve", "--listen", "127.0.0.1:0"], stdout=subprocess.DEVNULL,
                                       env=sdk_service.clean_environment(folder))  # fmt: skip
            try:
                wait_until(lambda: (record_of(folder) or {}).get("listen") or service.poll() is not None, "the service")
                self.check(record_of(folder)["listen"], (folder / "home/admin-token").read_text().strip())
            finally:
                service.terminate()
                service.wait()

    def check(self, address, admin_token):
        admin = cohort.Client(address, token=admin_token)
        ann, ben, viewer = (cohort.Client(address, token=admin.create_token(user, role)["token"])
                            for user, role in (("ann", "user"), ("ben", "user"), ("eve", "viewer")))  # fmt: skip
        self.assertEqual((ann.service()["user"], ann.service()["role"]), ("ann", "user"))
        job, printed, _ = quietly(Generic(program=["echo", "hello"], client=ann).fit)
        self.assertEqual(printed, "worker:0 hello\n")
        self.assertTrue(str(job.model_data).startswith(address + "/v1/jobs/"))
        for client in (ben, viewer):
            with self.assertRaises(cohort.ServiceError) as refusal:
                client.delete(job.id)
            self.assertIn(refusal.exception.status, (403, 404))
        with self.assertRaises(cohort.ServiceError) as refusal:
            Generic(program="true", client=viewer).fit()
        self.assertEqual(refusal.exception.status, 403)
        with self.assertRaises(cohort.ServiceError) as refusal:
            cohort.Client(address, token="wrong").service()
        self.assertEqual(refusal.exception.status, 401)
        admin.delete(job.id)


if __name__ == "__main__":
    unittest.main()
