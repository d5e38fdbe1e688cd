"""horovodrun as people type it, and the package `horovod` that is `cohort` by another name."""

import contextlib
import importlib.util
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

TREE = pathlib.Path(__file__).resolve().parents[2]
COHORT = pathlib.Path(os.environ.get("COHORT_BIN_DIR", TREE / "build/bin")) / "cohort"
PATH = [str(TREE / "python"), str(TREE / "python/cohort-horovod")]
sys.path[:0] = PATH

import horovod  # noqa: E402

import cohort.runner.launch  # noqa: E402
from cohort.runner.launch import cohort_words, make_parser, remarks  # noqa: E402

PRINT = ("import os, sys\n"
         "print(*[os.environ['HOROVOD_' + name] for name in 'RANK SIZE CYCLE_TIME'.split()], sys.argv[1:])")


def horovodrun(*words, cwd=None, **env):
    environment = {**os.environ, "PYTHONPATH": ":".join(PATH), "COHORT_PROGRAM": str(COHORT), **env}
    return subprocess.run([sys.executable, "-m", "horovod.runner.launch", *map(str, words)], text=True, cwd=cwd,
                          timeout=60, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)  # fmt: skip


def words(line):
    return cohort_words(make_parser().parse_args(line.split()))


class Words(unittest.TestCase):
    def test_each_option_has_its_place(self):
        for line, expected in {
            "-np 2 python train.py": "run -n 2 -- python train.py",
            "-np 2 -- ./train -np 3 --verbose": "run -n 2 -- ./train -np 3 --verbose",
            "--num-proc 4 --output-filename logs ./train": "run -n 4 --output logs -- ./train",
            "-np 2 --gloo --disable-cache ./train": "run -n 2 -- ./train",
            "-np 2 --min-np 1 --max-np 4 ./train": "run -n 1:4 --elastic -- ./train",
            "-np 2 --max-np 4 --elastic-timeout 9 ./train": "run -n 2:4 --elastic --elastic-timeout 9 -- ./train",
            "-np 3 --min-num-proc 2 --reset-limit 5 ./train": "run -n 2:3 --elastic --max-restarts 5 -- ./train",
            "-np 2 --fusion-threshold-mb 2 --cycle-time-ms 3.5 ./train":
                "run -n 2 --env HOROVOD_FUSION_THRESHOLD=2097152 --env HOROVOD_CYCLE_TIME=3.5 -- ./train",
            "-np 1 --timeline-filename t.json --timeline-mark-cycles ./train":
                "run -n 1 --env HOROVOD_TIMELINE=t.json --env HOROVOD_TIMELINE_MARK_CYCLES=1 -- ./train",
            "-np 1 --no-stall-check --log-level debug ./train":
                "run -n 1 --env HOROVOD_LOG_LEVEL=DEBUG --env HOROVOD_STALL_CHECK_DISABLE=1 -- ./train",
            "-np 1 --stall-check --stall-check-warning-time-seconds 5 --stall-check-shutdown-time-seconds 9 ./train":
                "run -n 1 --env HOROVOD_STALL_CHECK_TIME_SECONDS=5 --env HOROVOD_STALL_SHUTDOWN_TIME_SECONDS=9 "
                "--env HOROVOD_STALL_CHECK_DISABLE=0 -- ./train",
        }.items():  # fmt: skip
            self.assertEqual(" ".join(words(line)), expected)

    def test_hosts_get_the_variables_that_matter_and_the_remote_shell(self):
        with unittest.mock.patch.dict(os.environ, {"NCCL_DEBUG": "INFO", "SECRET": "x", "PATH": "/p"}, clear=True):
            for option, value in (("-H", "a:2,b:2"), ("-hostfile", "hosts"), ("--host-discovery-script", "./find")):
                found = words(f"-np 4 {option} {value} -p 2222 -i key ./train")
                self.assertIn(value, found)
                self.assertIn("ssh -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=3 "
                              "-o ServerAliveCountMax=3 -p 2222 -i key", found)  # fmt: skip
                self.assertEqual([word for word in found if "=" in word and "ssh" not in word],
                                 ["NCCL_DEBUG=INFO", "PATH=/p"])  # fmt: skip

    def test_the_remote_shell_is_the_launchers_own(self):
        header = (TREE / "src/cohort/launch/remote/remote_shell.h").read_text()
        self.assertIn(f'"{" ".join(cohort.runner.launch._SSH)}"', header)

    def test_what_cannot_be_is_refused_by_name(self):
        for line, message in {"./train": "-np is missing", "-np 2": "no command", "-np 0 ./train": "-np is 0",
                              "-np 2 --jsrun ./train": "--jsrun",
                              "-np 2 --min-np 3 --max-np 2 ./train": "--min-np is 3"}.items():  # fmt: skip
            with self.assertRaisesRegex(ValueError, message):
                words(line)
        with contextlib.redirect_stderr(io.StringIO()) as said, self.assertRaises(SystemExit):
            words("-np 2 --log-level loud ./train")
        self.assertIn("'loud' is not one of TRACE", said.getvalue())

    def test_what_has_no_effect_is_said(self):
        line = "-np 2 --mpi --mpi-args=-x --autotune --network-interfaces eth0 ./train"
        options = make_parser().parse_args(line.split())
        self.assertEqual([line.split()[0] for line in remarks(options)],
                         ["--mpi", "--mpi-args", "--network-interfaces", "--autotune"])  # fmt: skip

    @unittest.skipUnless(importlib.util.find_spec("yaml"), "PyYAML is not there")
    def test_a_configuration_file(self):
        yaml = "params:\n  fusion_threshold_mb: 1\n  cycle_time_ms: 7\nstall_check:\n  enabled: false\n"
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "config.yaml")
            path.write_text(yaml)
            run = horovodrun("-np", 1, "--config-file", path, "--fusion-threshold-mb", 4, "env", cwd=folder)
            for line in ("FUSION_THRESHOLD=4194304", "CYCLE_TIME=7", "STALL_CHECK_DISABLE=1"):
                self.assertIn(f"HOROVOD_{line}\n", run.stdout, run.stderr)
            path.write_text("params:\n  speed: high\n")
            run = horovodrun("-np", 1, "--config-file", path, "env", cwd=folder)
            self.assertEqual((run.returncode, "'speed' in section 'params' is not known" in run.stderr), (2, True))


class Jobs(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="cohort-horovodrun-")
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def test_as_people_type_it(self):
        (self.folder / "train.py").write_text(PRINT)
        run = horovodrun("-np", 2, "--cycle-time-ms", 2, sys.executable, "train.py", "--epochs", "3", cwd=self.folder)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(sorted(line.split(" ", 1)[1] for line in run.stdout.splitlines()),
                         [f"{rank} 2 2.0 ['--epochs', '3']" for rank in (0, 1)])  # fmt: skip

    def test_the_exit_code_and_the_root_cause_are_the_launchers(self):
        run = horovodrun("-np", 2, sys.executable, "-c", "import sys; sys.exit(3)", cwd=self.folder)
        self.assertEqual(run.returncode, 3)
        self.assertRegex(run.stderr.splitlines()[-1], r"^cohort: worker/\d on \S+ \(pid \d+\) failed with exit code 3")

    def test_the_table_of_what_is_built_is_truthful(self):
        run = horovodrun("--check-build")
        self.assertEqual(run.returncode, 0, run.stderr)
        for line in ("    [ ] MPI\n", "    [ ] NCCL\n", "    [ ] Gloo\n", "    [X] Cohort\n"):
            self.assertIn(line, run.stdout)

    def test_mistakes_end_with_2(self):
        run = horovodrun("-np", 2)
        self.assertEqual(run.returncode, 2)
        self.assertRegex(run.stderr, "^horovodrun: there is no command to run. As in: horovodrun -np 2 ")


class Alias(unittest.TestCase):
    def test_modules_are_the_very_same(self):
        import horovod.common.exceptions as exceptions
        import horovod.runner
        from horovod.common import basics
        from horovod.runner import launch

        self.assertIs(exceptions, sys.modules["cohort.common.exceptions"])
        self.assertIs(basics, sys.modules["cohort.common.basics"])
        self.assertIs(launch, cohort.runner.launch)
        self.assertIs(horovod.runner, cohort.runner)
        self.assertIs(horovod.run, cohort.runner.run)
        self.assertEqual(horovod.runner.__spec__.name, "cohort.runner", "reloading and pickling go by it")
        self.assertEqual(horovod.runner.__name__, "cohort.runner")

    def test_the_other_order_gives_the_same(self):
        code = "import horovod.common.exceptions as a, cohort.common.exceptions as b; print(a is b, a.__spec__.name)"
        said = subprocess.run([sys.executable, "-c", code], text=True, stdout=subprocess.PIPE,
                              env={**os.environ, "PYTHONPATH": ":".join(PATH)}).stdout  # fmt: skip
        self.assertEqual(said, "True cohort.common.exceptions\n")

    def test_threads(self):
        from horovod.runner.util.threads import in_thread

        seen = []
        in_thread(seen.append, (1,), name="one").join()
        self.assertEqual(seen, [1])
        with self.assertRaisesRegex(ValueError, "args must be a tuple, not int"):
            in_thread(seen.append, 1)

    def test_rank_and_size_of_the_environment(self):
        from horovod.runner.common.util.env import get_env_rank_and_size

        own = {name: value for name, value in os.environ.items() if not name.startswith(("HOROVOD_", "OMPI_", "PMI"))}
        for variables, expected in (
            ({}, (0, 1)),
            ({"HOROVOD_RANK": "2", "HOROVOD_SIZE": "5", "OMPI_COMM_WORLD_RANK": "1"}, (2, 5)),
            ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "3"}, (1, 3)),
            ({"PMI_RANK": "0", "PMI_SIZE": "2"}, (0, 2)),
        ):
            with self.subTest(variables), unittest.mock.patch.dict(os.environ, {**own, **variables}, clear=True):
                self.assertEqual(get_env_rank_and_size(), expected)
        with unittest.mock.patch.dict(os.environ, {**own, "HOROVOD_SIZE": "2"}, clear=True):
            with self.assertRaisesRegex(RuntimeError, "has HOROVOD_SIZE, but not HOROVOD_RANK"):
                get_env_rank_and_size()

    def test_versions_are_compared_by_their_numbers(self):
        from horovod.common.util import is_version_greater_equal_than

        for version, target, expected in (
            ("2.6.0", "2.6.0", True),
            ("2.5.9", "2.6.0", False),
            ("2.12.0-rc1", "2.6.0", True),
            ("2.13.0+cpu", "2.13.1", False),
        ):
            self.assertEqual(is_version_greater_equal_than(version, target), expected, version)
        with self.assertRaisesRegex(ValueError, "version '2.6' must begin with three numbers"):
            is_version_greater_equal_than("2.6", "2.6.0")

    def test_the_version_names_the_interface_and_cohort(self):
        self.assertEqual(horovod.__version__, f"0.28.1+cohort.{cohort.__version__}")

    def test_what_is_not_there_is_said(self):
        messages = {"spark": "does not run inside Spark", "mxnet": "no MXNet", "nothing": "No module named"}
        for name, message in messages.items():
            with self.assertRaisesRegex(ModuleNotFoundError, message):
                __import__(f"horovod.{name}")
        with self.assertRaisesRegex(ModuleNotFoundError, "horovod.common.nothing"):
            import horovod.common.nothing  # noqa: F401


if __name__ == "__main__":
    unittest.main()
