#!/usr/bin/env python3
"""Job files as a person uses them: `cohort job check`, `cohort run --config`, the schema.

The schema needs the package jsonschema; those tests are skipped where it is not there.
"""

import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("COHORT_BIN_DIR", ROOT / "build/bin")).resolve()
SCHEMA = ROOT / "src/cohort/jobspec/job.schema.json"
# Short: mpirun may cut the lines of two ranks into each other past 4 KiB.
PRINTER = """import json, os, sys
kept = {k: v for k, v in os.environ.items() if k.startswith(("SM_", "TM_", "NCCL_", "OMPI_COMM_WORLD_RANK"))}
os.write(1, (json.dumps([sys.argv[1:], kept]) + "\\n").encode())  # whole, also beside other ranks
"""

SERVERS = """
role = "me"
train_instance_count = 2
train_instance_type = "TI.SMALL2.1core2g"
py_version = "py3"
entry_point = "train.py"
source_dir = "code"
queue = "night"
priority = 3
tags = { team = "vision" }
inputs = "/data/mnist"
[distributions]
parameter_server = { enabled = true }
[hyperparameters]
lr = 0.1
layers = [64, 10]
amp = true
text = "a b'c\\"d $HOME"
nested = { "x y" = [1, { z = "'" }] }
"""


def job_files():
    """(name, text) of every job file of examples/ and of every block of docs/ that begins `# NAME.toml`."""
    for path in sorted(ROOT.glob("examples/**/*.toml")):
        if path.name != "pyproject.toml":
            yield str(path.relative_to(ROOT)), path.read_text()
    for page in sorted(ROOT.glob("docs/*.md")):
        text = page.read_text()
        for block in re.finditer(r"(?:^    # \w+\.toml\n(?:    .*\n|\n(?=    ))*)", text, re.MULTILINE):
            line = text.count("\n", 0, block.start()) + 1
            yield f"docs/{page.name}:{line}", re.sub("^    ", "", block[0], flags=re.MULTILINE)


class JobFileTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="cohort-job-file-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        (self.folder / "code").mkdir()
        (self.folder / "code" / "train.py").write_text(PRINTER)

    def write(self, text, name="job.toml"):
        (self.folder / name).write_text(text)
        return name

    def cohort(self, *words, **variables):
        environment = {**os.environ, "COHORT_HOME": str(self.folder / "home"), **variables}
        return subprocess.run([BIN / "cohort", *words], capture_output=True, text=True, cwd=self.folder,
                              env=environment, timeout=120)  # fmt: skip

    def check(self, text, *words, name="job.toml"):
        result = self.cohort("job", "check", self.write(text, name), *words)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def refused(self, text, *expected, words=(), name="job.toml"):
        result = self.cohort("job", "check", self.write(text, name), *words)
        self.assertEqual(result.returncode, 2, result.stdout)
        for part in expected:
            self.assertIn(part, result.stderr)


class Check(JobFileTest):
    def test_prints_a_job_file_that_means_the_same(self):
        first = self.check(SERVERS)
        self.assertIn("--workers 2 --layout colocated --chief-name master", first)
        self.assertEqual(self.check(first), first)
        self.assertEqual(tomllib.loads(first)["hyperparameters"], tomllib.loads(SERVERS)["hyperparameters"])

    def test_prints_json_that_means_the_same(self):
        resolved = json.loads(self.check(SERVERS, "--format", "json"))
        again = json.loads(self.check(json.dumps(resolved["spec"]), "--format", "json", name="job.json"))
        self.assertEqual(again, resolved)
        self.assertEqual(resolved["instances"], 2)
        self.assertEqual(resolved["program"][:4], ["python3", "train.py", "--lr", "0.1"])

    def test_settings_change_fields(self):
        resolved = json.loads(self.check(SERVERS, "--format", "json", "--set", "instance_count=1",
                                         "--set", "hyperparameters.lr=0.5"))
        self.assertEqual((resolved["instances"], resolved["program"][3]), (1, "0.5"))

    def test_mistakes_are_refused_with_their_place(self):
        self.refused("workers = 2\nwrokers = 3\n", "job.toml line 2", "unknown key 'wrokers'", "Did you mean 'workers'?")
        self.refused('program = "true"\ninstance_type = "999x1g"\n', "job.toml", "999 cores", "this machine has")
        self.refused('{"program": ["true"], "priority": 5000}', "priority is 5000", name="job.json")
        self.refused('program = "true"\n', "--set", words=("--set", "nonsense"))
        self.assertIn("cohort job cannot 'chekc'", self.cohort("job", "chekc", "x").stderr)
        self.assertIn("not found", self.cohort("job", "check", "gone.toml").stderr)

    def test_a_catalogue_names_instance_types_and_environments(self):
        catalogue = self.write('[instance_types]\n"my.small" = "1x64m"\n'
                               '[[environments]]\nframework = "tensorflow"\nvenv = "/opt/tf"\n', "catalogue.toml")
        text = 'program = "true"\ninstance_type = "my.small"\nframework = "tensorflow"\n'
        self.write(text)
        result = self.cohort("job", "check", "job.toml", "--format", "json", COHORT_CATALOGUE=catalogue)
        resolved = json.loads(result.stdout)
        self.assertEqual(resolved["instance"], {"cores": 1.0, "memory_bytes": 64 << 20, "gpus": 0})
        self.assertEqual(resolved["runtime"]["place"], "/opt/tf")


class Run(JobFileTest):
    def printed(self, *words):
        """What each task's program got: its words and its environment, by task."""
        result = self.cohort("run", "--output", "out", *words)
        self.assertEqual(result.returncode, 0, result.stderr)
        logs = sorted((self.folder / "out" / "logs").glob("*.log"))
        return {log.name.split(".")[0]: json.loads(log.read_text().splitlines()[-1]) for log in logs}

    def test_the_same_file_serves_run(self):
        tasks = self.printed("--config", self.write(SERVERS))
        self.assertEqual(sorted(tasks), ["master-0", "ps-0", "ps-1", "worker-0"])
        for words, environment in tasks.values():
            self.assertEqual(words, ["--lr", "0.1", "--layers", "[64,10]", "--amp", "true", "--text",
                                     "a b'c\"d $HOME", "--nested", '{"x y":[1,{"z":"\'"}]}'])
            self.assertEqual(environment["SM_CHANNEL_TRAINING"], "/data/mnist")
            self.assertEqual(json.loads(environment["SM_HPS"])["layers"], [64, 10])
            self.assertEqual(json.loads(environment["SM_USER_ARGS"]), words)

    def test_the_command_line_and_its_program_win(self):
        tasks = self.printed("--config", self.write(SERVERS), "-n", "1", "--", sys.executable, "code/train.py", "x")
        self.assertEqual(sorted(tasks), ["master-0", "ps-0"])
        self.assertEqual(tasks["master-0"][0][:3], ["x", "--lr", "0.1"])

    def test_a_job_that_runs_for_too_long_is_ended(self):
        job = self.write('program = ["sleep", "100"]\nmax_run = "1s"\n')
        result = self.cohort("run", "--output", "out", "--grace", "1", "--config", job)
        self.assertEqual(result.returncode, 124, result.stderr)

    def test_options_alone_add_nothing_to_the_environment(self):
        tasks = self.printed("--config", self.write(f'program = ["{sys.executable}", "code/train.py"]\nworkers = 2\n'))
        for _, environment in tasks.values():
            self.assertEqual([name for name in environment if name.startswith(("SM_", "TM_"))], [])

    @unittest.skipUnless(shutil.which("mpirun"), "no mpirun here")
    def test_mpi_is_a_real_mpirun(self):
        job = self.write('entry_point = "code/train.py"\ninstance_count = 2\n[distributions.mpi]\nenabled = true\n'
                         'custom_mpi_options = "--NCCL_DEBUG INFO --oversubscribe"\n[hyperparameters]\nlr = 1\n')
        result = self.cohort("run", "--output", "out", "--config", job)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("NCCL_DEBUG=INFO", result.stderr)
        lines = (self.folder / "out" / "logs" / "worker-0.attempt1.log").read_text().splitlines()
        ranks = [json.loads(line) for line in lines if line.startswith("[[")]
        self.assertEqual(sorted(environment["OMPI_COMM_WORLD_RANK"] for _, environment in ranks), ["0", "1"])
        for words, environment in ranks:
            self.assertEqual((words, environment["NCCL_DEBUG"]), (["--lr", "1"], "INFO"))


class Schema(JobFileTest):
    def test_there_are_files_to_check(self):
        names = [name for name, _ in job_files()]
        self.assertTrue(any(name.startswith("examples/") for name in names), names)
        self.assertTrue(any(name.startswith("docs/jobfile.md") for name in names), names)

    def test_every_job_file_of_examples_and_docs_is_right(self):
        for name, text in job_files():
            with self.subTest(name):
                self.check(text)

    @unittest.skipUnless(importlib.util.find_spec("jsonschema"), "no package jsonschema")
    def test_every_job_file_matches_the_schema(self):
        import jsonschema

        schema = json.loads(SCHEMA.read_text())
        jsonschema.Draft202012Validator.check_schema(schema)
        validator = jsonschema.Draft202012Validator(schema)
        underscored = lambda document: {key.replace("-", "_"): value for key, value in document.items()}
        for name, text in [*job_files(), ("this test", SERVERS)]:
            with self.subTest(name):
                self.assertEqual([e.message for e in validator.iter_errors(underscored(tomllib.loads(text)))], [])
                spec = json.loads(self.check(text, "--format", "json"))["spec"]
                self.assertEqual([e.message for e in validator.iter_errors(spec)], [])

    @unittest.skipUnless(importlib.util.find_spec("jsonschema"), "no package jsonschema")
    def test_schema_and_program_refuse_the_same(self):
        import jsonschema

        validator = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text()))
        for field in ({"priority": 2000}, {"instance_count": 0}, {"name": "a b"}, {"wrokers": 1}, {"cores": 0},
                      {"memory": "lots"}, {"max_run": "2x"}, {"engine": "lokal"}, {"source": "abc"},
                      {"hyperparameters": {"a": None}}, {"hyperparameters": {"-a": 1}}, {"inputs": {"a": ""}},
                      {"elastic": {"min": 0, "max": 2}}, {"env": ["A"]}, {"strict_resources": 1},
                      {"distributions": {"mpi": {"enable": True}}}, {"metric_definitions": [{"name": "a"}]},
                      {"tags": [{"Key": "a"}]}, {"workers": None}):  # fmt: skip
            with self.subTest(field):
                description = {"program": ["true"], **field}
                self.assertFalse(validator.is_valid(description))
                self.refused(json.dumps(description), name="job.json")


if __name__ == "__main__":
    unittest.main()
