#!/usr/bin/env python3
"""The commands of the platform, as a person uses them: from nothing to a submitted job, every command, bad
input, a service that is killed, no service, a root of another user."""

import contextlib
import json
import os
import pathlib
import pty
import select
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import unittest

BIN = pathlib.Path(os.environ.get("COHORT_BIN_DIR", pathlib.Path(__file__).parents[2] / "build/bin")).resolve()
COHORT = str(BIN / "cohort")
SANITIZED = "san" in BIN.parent.name
PATIENCE = 180 if SANITIZED else 60  # seconds after which anything that a test waits for counts as hanging
PYTHON = sys.executable


class Platform(unittest.TestCase):
    """Gives each test a root, and a folder to be in, of its own; ends its service and jobs afterwards."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="cohort-cli-"))
        self.root = self.folder / "root"
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.addCleanup(self.end_everything)

    def environment(self, **extra):
        clean = {k: v for k, v in os.environ.items() if not k.startswith("COHORT_")}
        return {**clean, "COHORT_HOME": str(self.root), "CLI_TEST": self.folder.name, **extra}

    def cohort(self, *words, code=0, env=None, stdin=subprocess.DEVNULL):
        """Runs a command to its end, and returns what it printed."""
        done = subprocess.run([COHORT, *map(str, words)], cwd=self.folder, env=self.environment(**(env or {})),
                              stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=PATIENCE)  # fmt: skip
        self.said = done.stderr.decode(errors="replace")
        self.assertEqual(done.returncode, code, f"cohort {words}\n{done.stdout.decode()}\n{self.said}")
        return done.stdout.decode(errors="replace")

    def refused(self, *words, code=2, **options):
        self.cohort(*words, code=code, **options)
        return self.said

    def start(self, *words, **options):
        process = subprocess.Popen([COHORT, *map(str, words)], cwd=self.folder, env=self.environment(),
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   bufsize=0,  # readline() reads nothing ahead, which communicate() would forget
                                   **options)  # fmt: skip
        self.addCleanup(process.wait)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.kill)
        limit = threading.Timer(PATIENCE, process.kill)  # who reads from it then sees its end
        limit.start()
        self.addCleanup(limit.cancel)
        return process

    def python(self, text, name="train.py"):
        (self.folder / name).write_text(text)
        return ["--", PYTHON, name]

    def submit(self, text, *options):
        return self.cohort("submit", *options, *self.python(text)).strip()

    def job(self, job):
        return json.loads(self.cohort("status", job, "--json"))

    def wait_for(self, condition, what):
        limit = time.monotonic() + PATIENCE
        while True:
            value = condition()
            if value:
                return value
            self.assertLess(time.monotonic(), limit, f"waited in vain for {what}")
            time.sleep(0.02)

    def wait_for_state(self, job, state):
        return self.wait_for(lambda: self.job(job)["state"] == state, f"{job} to be {state}")

    def record(self):
        try:
            return json.loads((self.root / "service.json").read_text())
        except (OSError, ValueError):
            return None

    def own_processes(self):
        marker = f"CLI_TEST={self.folder.name}".encode()
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and marker in (entry / "environ").read_bytes().split(b"\0"):
                    yield int(entry.name)
            except OSError:
                continue

    def end_everything(self):
        limit = time.monotonic() + PATIENCE
        while pids := list(self.own_processes()):
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            if time.monotonic() > limit:
                raise AssertionError(f"processes that cannot be ended: {pids}")
            time.sleep(0.02)


class FromNothing(Platform):
    def test_a_job_is_submitted_watched_found_and_deleted(self):
        job = self.submit("import os, pathlib, sys\nprint('trained', sys.argv[1:])\n"
                          "pathlib.Path(os.environ['SM_MODEL_DIR'], 'weights').write_text('w' * 1000)\n",
                          "--name", "first", "--hyperparameter", "lr=0.5", "--tag", "team=vision")  # fmt: skip
        self.assertIn("starting one", self.said)
        self.assertIn("trained ['--lr', '0.5']", self.cohort("logs", "-f", "first"))
        self.assertEqual(self.job("first")["state"], "succeeded")
        self.assertIn("first", self.cohort("jobs", "--state", "succeeded", "--tag", "team=vision"))
        self.assertEqual(self.cohort("jobs", "--name", "other"), "no jobs\n")
        listed = json.loads(self.cohort("jobs", "--json"))
        self.assertEqual([entry["id"] for entry in listed], [job])
        self.assertIn("trained", self.cohort("logs", job[:-3], "--tail", "1"))
        self.assertIn("trained", self.cohort("logs", "latest", "--since", "10m", "--attempt", "1"))
        kinds = [json.loads(line)["kind"] for line in self.cohort("events", job, "--json").splitlines()]
        self.assertEqual((kinds[0], kinds[-1]), ("submitted", "ended"))
        self.assertIn("no job runs or waits", self.cohort("top"))
        self.cohort("download", job, "results", "--part", "model")
        self.assertEqual((self.folder / "results/model/weights").read_text(), "w" * 1000)
        self.assertIn("is kept", self.cohort("pin", job))
        self.assertTrue(self.job(job)["pinned"])
        self.cohort("unpin", job)
        self.assertFalse(self.job(job)["pinned"])
        self.assertIn("--yes", self.refused("delete", job))
        self.cohort("delete", job, "--yes")
        self.assertEqual(self.cohort("jobs"), "no jobs\n")

    def test_waiting_ends_with_the_jobs_exit_code_and_its_root_cause_last(self):
        self.cohort("submit", "--wait", *self.python("import sys\nprint('no data', file=sys.stderr)\nsys.exit(3)\n"),
                    code=3)  # fmt: skip
        last = self.said.rstrip().splitlines()[-1]
        self.assertRegex(last, r"cohort: error: job \S+ failed: .*(3|no data)")
        self.assertIn("fine", self.cohort("submit", "--follow", *self.python("print('fine')\n")))

    def test_a_job_file_and_options_say_the_same(self):
        (self.folder / "job.toml").write_text('name = "filed"\nprogram = ["/bin/true"]\ninstance_count = 1\n'
                                              '[hyperparameters]\nlr = 0.1\n')  # fmt: skip
        toml = self.cohort("submit", "--print", "toml", "job.toml", "--hyperparameter", "lr=0.5", "--priority", "3")
        self.assertIn("lr = 0.5", toml)
        self.assertIn("priority = 3", toml)
        spec = json.loads(self.cohort("submit", "--print", "json", "--name", "filed", "-n", "2", "--", "/bin/true"))
        self.assertEqual((spec["name"], spec["program"]), ("filed", ["/bin/true"]))
        self.assertIn("--workers 2", self.cohort("submit", "--print", "shell", "-n", "2", "--", "/bin/true"))
        words = self.cohort("submit", "--print", "mpirun", "--distribution", "mpi", "--instance-count", "2",
                            "--custom-mpi-options", "--NCCL_DEBUG INFO", "--", "/bin/true")  # fmt: skip
        self.assertRegex(words, r"mpirun .*-np 2.*-x NCCL_DEBUG=INFO.* /bin/true")
        self.assertIsNone(self.record(), "printing started a service")

    def test_a_source_folder_is_packed_and_found_by_the_job(self):
        source = self.folder / "code"
        source.mkdir()
        (source / "helper.py").write_text("WORD = 'packed'\n")
        (source / "main.py").write_text("import helper\nprint(helper.WORD)\n")
        printed = self.cohort("submit", "--follow", "--source-dir", "code", "--entry-point", "main.py")
        self.assertIn("packed", printed)

    @unittest.skipUnless(shutil.which("mpirun"), "no mpirun here")
    def test_the_ranks_of_mpi_are_tasks_with_lines_of_their_own(self):
        (self.folder / "train.py").write_text("import os\nprint('loss=0.' + os.environ['OMPI_COMM_WORLD_RANK'])\n")
        (self.folder / "job.toml").write_text(
            f'program = ["{PYTHON}", "train.py"]\n'
            'instance_count = 2\ndistribution = { mpi = { enabled = true } }\n'
            'metric_definitions = [{ name = "loss", regex = "^loss=([0-9.]+)$" }]\n')
        job = self.cohort("submit", "job.toml").strip()
        merged = self.cohort("logs", "-f", job)
        for rank in (0, 1):
            self.assertEqual(self.cohort("logs", job, "--task", f"rank:{rank}"), f"loss=0.{rank}\n")
            self.assertEqual(merged.count(f"loss=0.{rank}"), 1, merged)
            self.assertRegex(merged, rf"(?m)^.*rank:{rank}\W+loss=0.{rank}$")
        self.cohort("logs", job, "--task", "mpirun:0")
        status = self.job(job)
        self.assertEqual([task["name"] for task in status["tasks"]], ["rank:0", "rank:1", "mpirun:0"])
        self.assertEqual({task["state"] for task in status["tasks"]}, {"succeeded"})
        self.wait_for(lambda: self.loss_values() == [0.0, 0.1], "the metrics of both ranks")

    def loss_values(self):
        with contextlib.closing(sqlite3.connect(f"file:{self.root}/service.sqlite?mode=ro", uri=True)) as store:
            return sorted(value for (value,) in store.execute("SELECT value FROM metrics WHERE name = 'loss'"))

    def test_a_service_has_hosts_for_jobs_that_name_none(self):
        where = self.python("import os\nprint('task', os.environ['COHORT_RANK'])\n")
        self.assertIn("needs hosts", self.refused("submit", "--engine", "hosts", *where))
        first = self.record()["pid"]
        os.kill(first, signal.SIGTERM)
        self.wait_for(lambda: first not in self.own_processes(), "the first service to end")
        (self.folder / "hosts").write_text("localhost slots=2\n")
        service = self.start("serve", "--hostfile", "hosts")
        self.wait_for(lambda: (self.record() or {}).get("pid") == service.pid, "the service")
        self.assertIn("task 1", self.cohort("submit", "--follow", "--engine", "hosts", "-n", "2", *where))
        # A job's own hosts count, and only those.
        self.cohort("submit", "--wait", "--engine", "hosts", "--hosts", "localhost:1", "-n", "2", *where, code=1)
        self.assertIn("the hosts have 1 slots", self.said)

    def test_what_is_missing_is_named_before_anything_starts(self):
        source = self.folder / "code"
        source.mkdir()
        (source / "main.py").write_text("print(1)\n")
        for words in (["--entry-point", "train.py"], ["--", PYTHON, "-u", "train.py"], ["--", "sub/train.py"]):
            self.assertRegex(self.refused("submit", "--source-dir", "code", *words), r"holds no file '(sub/)?train\.py'")
        self.assertIn("'gone.py' not found", self.refused("submit", "--", PYTHON, "-u", "gone.py"))
        (self.folder / "file").touch()
        self.assertIn("file/out' cannot be written to", self.refused("submit", "--output", "file/out", "--", "/bin/true"))
        self.assertIn("metric 'loss'", self.refused("submit", "--metric", "loss=([0-9", "--", "/bin/true"))
        self.assertIn("metric 'loss'", self.refused("submit", "--metric", "loss=[0-9]+", "--", "/bin/true"))
        self.assertEqual(self.cohort("jobs"), "no jobs\n")
        (self.folder / "train.py").write_text("print('ran')\n")
        self.assertIn("ran", self.cohort("submit", "--follow", "--", "train.py"))

    def test_a_submit_that_follows_says_what_the_job_waits_for(self):
        first = self.submit("import time\ntime.sleep(600)\n", "--name", "first", "--instance-type", "local")
        self.wait_for_state(first, "running")
        process = self.start("submit", "--follow", "--instance-type", "local", "--", "/bin/true")
        self.assertIn(b"queued: waits for", process.stderr.readline())
        second = process.stdout.readline().decode().strip()
        follower = self.start("logs", "-f", second)
        self.assertIn(b"queued: waits for", follower.stderr.readline())
        self.cohort("stop", first)
        self.assertIn(b"succeeded", process.communicate(timeout=PATIENCE)[1])
        follower.communicate(timeout=PATIENCE)
        self.assertEqual(follower.returncode, 0)

    def test_a_running_job_is_stopped_and_resumed(self):
        job = self.submit("import os, time\nprint('resumed' if os.environ.get('COHORT_RESUME') else 'began', flush=True)\n"
                          "time.sleep(0 if os.environ.get('COHORT_RESUME') else 600)\n")  # fmt: skip
        self.wait_for(lambda: "began" in self.cohort("logs", job), "the first line")
        self.assertIn("running", self.cohort("status", job))
        self.assertIn(job, self.cohort("top"))
        self.assertIn("stopped", self.cohort("stop", job))
        self.assertEqual(self.job(job)["state"], "stopped")
        self.cohort("resume", job)
        self.cohort("logs", "-f", job)
        self.assertEqual(self.job(job)["state"], "succeeded")


class BadInput(Platform):
    def test_no_service_and_no_jobs_is_no_error(self):
        self.assertEqual(self.cohort("jobs"), "no jobs\n")
        self.assertEqual(self.cohort("jobs", "--json"), "[]\n")
        self.assertEqual(self.cohort("logs", "latest"), "no jobs\n")
        self.assertIn("no jobs yet", self.refused("stop", "x"))
        self.assertIn("no job 'x'", self.refused("status", "x"))
        self.assertFalse(self.root.exists(), "a question made a root folder")

    def test_mistakes_are_named_with_the_nearest_right_word(self):
        self.assertIn("Did you mean --hyperparameter?", self.refused("submit", "--hyperparametr", "a=1", "--", "x"))
        self.assertIn("Did you mean running?", self.refused("jobs", "--state", "runing"))
        self.assertIn("Did you mean: cohort token create?", self.refused("token", "creat"))
        self.assertIn("from 1 to 100000, got 0", self.refused("jobs", "--limit", "0"))
        self.assertIn("--since 'soon'", self.refused("logs", "x", "--since", "soon"))
        self.assertIn("not of the form NAME=VALUE", self.refused("submit", "--hyperparameter", "lr", "--", "x"))
        self.assertIn("error: instance_count is 0", self.refused("submit", "--instance-count", "0", "--", "x"))
        self.assertIn("no program", self.refused("submit"))
        self.assertIn("must be at least 1 MiB", self.refused("serve", "--retention-size", "200"))
        self.assertIn("not one of parameter_server, mpi", self.refused("submit", "--distribution", "ps", "--", "x"))
        self.assertIn("Write --input training=/data.", self.refused("submit", "--input", "/data", "--", "x"))
        self.assertIn("is not one of shell, mpirun, slurm, toml, json, kubernetes", self.refused("submit", "--print", "yaml", "--", "x"))
        (self.folder / "job.toml").write_text("program = '/bin/true'\ninstance_cuont = 2\n")
        said = self.refused("submit", "job.toml")
        self.assertIn("job.toml line 2", said)
        self.assertIn("instance_count", said)

    def test_habits_from_elsewhere_are_answered_with_the_word_here(self):
        (self.folder / "train.py").write_text("print(1)\n")
        self.assertIn("cohort submit -- python3 train.py", self.refused("submit", "train.py"))
        self.assertIn("Put the program behind --", self.refused("submit", "python3", "train.py"))
        self.assertIn("Put a program behind --", self.refused("submit", "trainer"))
        self.assertIn("--hyperparameter b=2", self.refused("submit", "--hyperparameter", "a=1", "b=2", "--", "x"))
        for option, ours in (("--nproc_per_node=2", "workers"), ("--ntasks=2", "workers"), ("--time=1:00", "max-run"),
                             ("--mem=4G", "memory"), ("-N", "instance-count")):  # fmt: skip
            self.assertIn(f"Did you mean --{ours}?", self.refused("submit", option, "--", "x"))
        self.assertNotIn("Did you mean", self.refused("submit", "-Q", "--", "x"))
        for command, ours in (("sbatch", "submit"), ("squeue", "jobs"), ("ps", "jobs"), ("kill", "stop"), ("rm", "delete")):
            self.assertIn(f"Did you mean: cohort {ours}?", self.refused(command))
        (self.folder / "job.json").write_text('{"program": ["/bin/true"], "name": "as-json"}')
        self.assertIn("as-json", self.cohort("submit", "--print", "toml", "job.json"))

    def test_a_folder_that_is_gone_is_said(self):
        gone = self.folder / "gone"
        gone.mkdir()
        script = f'cd {gone} && rmdir {gone} && exec {COHORT} submit -- /bin/true'
        done = subprocess.run(["/bin/sh", "-c", script], env=self.environment(), stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=PATIENCE)  # fmt: skip
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("is gone: go to another", done.stderr)
        self.assertNotIn("ulimit", done.stderr)

    def test_unknown_and_ambiguous_jobs(self):
        first = self.submit("print(1)\n", "--name", "twin", "--wait")
        second = self.submit("print(2)\n", "--name", "twin", "--wait")
        self.assertIn("nothing-here", self.refused("status", "nothing-here"))
        self.assertIn("nothing-here", self.refused("logs", "nothing-here"))
        common = os.path.commonprefix([first, second])
        for name in (common, "twin"):
            said = self.refused("stop", name)
            self.assertIn(first, said)
            self.assertIn(second, said)
        self.assertIn("worker:99", self.refused("logs", first, "--task", "worker:99"))
        self.assertEqual(self.cohort("logs", first, "--task", "worker/0"), "1\n")
        self.assertIn("nothing-here", self.refused("events", "nothing-here"))
        (self.folder / "file").touch()
        self.assertIn("to the folder 'file'", self.refused("download", first, "file", code=1))

    def test_a_root_that_is_not_ones_own_is_refused(self):
        self.root.mkdir()
        self.root.chmod(0o777)
        for words in (["jobs"], ["submit", "--", "/bin/true"]):
            self.assertIn(str(self.root), self.refused(*words))
        if os.geteuid() == 0:
            self.root.chmod(0o700)
            os.chown(self.root, 12345, 12345)
            self.assertIn("12345", self.refused("jobs"))

    def test_an_address_that_is_none_is_refused(self):
        self.assertIn("COHORT_SERVICE", self.refused("jobs", env={"COHORT_SERVICE": "trainer"}))
        said = self.refused("jobs", code=1, env={"COHORT_SERVICE": "unix:" + str(self.folder / "none.sock")})
        self.assertIn("none.sock", said)


class FullDisk(Platform):
    def test_jobs_can_be_deleted_to_make_room(self):
        inside = ["unshare", "--map-root-user", "--mount", "/bin/sh", "-c"]
        if subprocess.run([*inside, "mount -t tmpfs none /mnt"], capture_output=True).returncode != 0:
            self.skipTest("no mount namespaces here")
        self.python("import os\nopen(os.environ['SM_MODEL_DIR'] + '/m', 'wb').write(b'x' * 1000000)\n")
        self.root.mkdir()
        script = f"""set -e
            mount -t tmpfs -o size=3m,mode=700 none {self.root}
            {COHORT} submit --wait --name big -- {PYTHON} train.py
            dd if=/dev/zero of={self.root}/filling bs=1k || true
            {COHORT} submit -- /bin/true || echo refused $?
            {COHORT} delete big --yes
            {COHORT} jobs"""
        done = subprocess.run([*inside, script], cwd=self.folder, env=self.environment(), stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=PATIENCE)  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("No space left on device", done.stderr)
        self.assertIn("refused 1", done.stdout)
        self.assertTrue(done.stdout.endswith("no jobs\n"), done.stdout)


class Away(Platform):
    def test_a_followed_log_goes_on_when_the_service_is_back(self):
        go = self.folder / "go"
        job = self.submit(f"import os, time\nprint('one', flush=True)\nwhile not os.path.exists({str(go)!r}):\n"
                          "    time.sleep(0.02)\nprint('two', flush=True)\n")  # fmt: skip
        self.wait_for(lambda: "one" in self.cohort("logs", job), "the first line")
        follower = self.start("logs", "-f", job)
        self.assertIn(b"one", follower.stdout.readline())
        os.kill(self.record()["pid"], signal.SIGKILL)
        self.assertIn(b"waiting for the service", follower.stderr.readline())
        go.touch()
        self.cohort("jobs")  # starts it again
        rest, said = follower.communicate(timeout=PATIENCE)
        self.assertEqual(follower.returncode, 0, said)
        self.assertIn(b"two", rest)
        self.assertNotIn(b"one", rest)

    def test_ctrl_c_leaves_the_job_where_there_is_no_terminal(self):
        process = self.start("submit", "--wait", *self.python("import time\ntime.sleep(600)\n"))
        job = process.stdout.readline().decode().strip()
        self.wait_for_state(job, "running")
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 130)
        self.assertIn(f"cohort stop {job}", said.decode())
        self.assertEqual(self.job(job)["state"], "running")

    def test_ctrl_c_on_a_terminal_asks_and_stops(self):
        words = [COHORT, "submit", "--follow", *self.python("import time\nprint('began', flush=True)\ntime.sleep(600)\n")]
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(self.folder)
            os.execve(COHORT, words, self.environment(TERM="xterm"))
        self.addCleanup(os.close, terminal)
        seen = self.read_until(terminal, b"began")
        self.assertIn(b"\x1b[36mworker:0\x1b[0m", seen)
        os.write(terminal, b"\x03")
        self.read_until(terminal, b"(l)eave it running?")
        os.write(terminal, b"s\n")
        self.read_until(terminal, b"stopped")
        self.assertNotEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)

    def test_top_is_drawn_again_until_q(self):
        job = self.submit("import time\ntime.sleep(600)\n", "--name", "sleeper")
        self.wait_for_state(job, "running")
        pid, terminal = pty.fork()
        if pid == 0:
            os.execve(COHORT, [COHORT, "top", "--interval", "0.1"], self.environment(TERM="xterm"))
        self.addCleanup(os.close, terminal)
        self.read_until(terminal, b"sleeper")
        self.read_until(terminal, b"sleeper")
        os.write(terminal, b"q")
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)

    def read_until(self, terminal, text):
        seen, limit = b"", time.monotonic() + PATIENCE
        while text not in seen:
            self.assertLess(time.monotonic(), limit, f"{text} does not come; {seen[-2000:]}")
            if select.select([terminal], [], [], 1)[0]:
                seen += os.read(terminal, 65536)
        return seen


    def test_who_follows_starts_the_own_service_again(self):
        go = self.folder / "go"
        words = self.python(f"import os, time\nprint('one', flush=True)\nwhile not os.path.exists({str(go)!r}):\n"
                            "    time.sleep(0.02)\nprint('two', flush=True)\n")  # fmt: skip
        follower = self.start("submit", "--follow", *words)
        follower.stdout.readline()
        self.assertIn(b"one", follower.stdout.readline())
        os.kill(self.record()["pid"], signal.SIGKILL)
        go.touch()
        rest, said = follower.communicate(timeout=PATIENCE)
        self.assertEqual(follower.returncode, 0, said)
        self.assertIn(b"two", rest)
        self.assertIn(b"starting one", said.split(b"waiting for the service")[-1])


class Shared(Platform):
    def test_a_service_behind_tls_is_used_as_ones_own(self):
        made = subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                               "-nodes", "-keyout", "key.pem", "-out", "cert.pem", "-days", "2", "-subj", "/CN=localhost",
                               "-addext", "subjectAltName=DNS:localhost"],
                              cwd=self.folder, capture_output=True)  # fmt: skip
        self.assertEqual(made.returncode, 0, made.stderr)
        self.start("serve", "--listen", "localhost:0", "--tls-cert", "cert.pem", "--tls-key", "key.pem")
        address = self.wait_for(self.record, "the service")["listen"]
        tokens = {role: self.cohort("token", "create", role, "--role", role).strip() for role in ("viewer", "user", "admin")}
        elsewhere = {"COHORT_HOME": str(self.folder / "elsewhere"), "COHORT_SERVICE": address}
        trusting = {**elsewhere, "COHORT_CA_FILE": str(self.folder / "cert.pem")}
        as_role = {role: {**trusting, "COHORT_TOKEN": token} for role, token in tokens.items()}
        self.assertIn("COHORT_CA_FILE", self.refused("jobs", code=1, env={**elsewhere, "COHORT_TOKEN": "x"}))
        self.assertIn("No such file", self.refused("jobs", env={**elsewhere, "COHORT_CA_FILE": "/no/such/file"}))
        self.assertIn("COHORT_TOKEN", self.refused("jobs", code=1, env=trusting))
        (self.folder / "code").mkdir()
        (self.folder / "code/main.py").write_text(
            "import os, pathlib\nprint('over there')\npathlib.Path(os.environ['SM_MODEL_DIR'], 'm').write_text('mmm')\n")
        printed = self.cohort("submit", "--follow", "--name", "far", "--source-dir", "code", "--entry-point", "main.py",
                              env=as_role["user"])  # fmt: skip
        self.assertIn("over there", printed)
        self.assertIn("over there", self.cohort("logs", "far", env=as_role["viewer"]))
        self.cohort("download", "far", "results", "--part", "model", env=as_role["viewer"])
        self.assertEqual((self.folder / "results/model/m").read_text(), "mmm")
        for words in (["submit", "--", "/bin/true"], ["delete", "far", "--yes"], ["token", "create", "x"]):
            self.assertIn("has the role viewer", self.refused(*words, env=as_role["viewer"]))
        self.assertIn("has the role user", self.refused("token", "create", "x", env=as_role["user"]))
        self.cohort("delete", "far", "--yes", env=as_role["admin"])
        self.assertFalse((self.folder / "elsewhere").exists())

    def test_tokens_open_a_shared_service(self):
        service = self.start("serve", "--listen", "127.0.0.1:0")
        record = self.wait_for(self.record, "the service")
        address = {"COHORT_SERVICE": record["listen"]}
        token = self.cohort("token", "create", "ann", "--role", "user", "--days", "2").strip()
        ann = {**address, "COHORT_TOKEN": token}
        job = self.cohort("submit", "--wait", "--", "/bin/true", env=ann).splitlines()[0]
        self.assertEqual(json.loads(self.cohort("status", job, "--json", env=ann))["user"], "ann")
        self.assertIn("COHORT_TOKEN", self.refused("jobs", code=1, env=address))
        listed = self.cohort("token", "list")
        self.assertIn("ann", listed)
        self.assertNotIn(token, listed)
        self.assertIn(("ann", "user"), [(t["user"], t["role"]) for t in json.loads(self.cohort("token", "list", "--json"))])
        ident = next(line.split()[0] for line in listed.splitlines() if "ann" in line)
        second = self.cohort("token", "rotate", ident).strip()
        self.refused("jobs", code=1, env=ann)
        self.cohort("jobs", env={**address, "COHORT_TOKEN": second})
        self.cohort("token", "remove", ident)
        self.refused("jobs", code=1, env={**address, "COHORT_TOKEN": second})
        service.terminate()
        self.assertEqual(service.wait(PATIENCE), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
