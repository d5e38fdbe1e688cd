"""tests/retry_alone.py behind tests/run-ctest, and tests/frameworks/runner.py: which failed tests get a second
try, and what is said of them.

    retry_alone_test.py SOURCE_DIR
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(sys.argv.pop(1)).resolve()
ONCE = "test -e {name} || {{ touch {name}; echo {words}; exit 1; }}"
PRESETS = {"version": 6,
           "configurePresets": [{"name": "release", "generator": "Ninja", "binaryDir": "${sourceDir}/build"}],
           "testPresets": [{"name": "release", "configurePreset": "release", "output": {"outputOnFailure": True}}]}


class SecondTry(unittest.TestCase):
    def run_tests(self, commands, retry="yes"):
        """Runs shell commands, by name, as the tests of a project; (exit code, output)."""
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="cohort-retry-")))
        (folder / "tests").mkdir()
        for name in ("run-ctest", "retry_alone.py"):
            shutil.copy(SOURCE / "tests" / name, folder / "tests")
        lines = ["cmake_minimum_required(VERSION 3.25)", "project(Small LANGUAGES NONE)", "enable_testing()"]
        for name, command in commands.items():
            (folder / f"{name}.sh").write_text(command)
            lines.append(f"add_test(NAME {name} COMMAND sh ${{CMAKE_SOURCE_DIR}}/{name}.sh)")
        (folder / "CMakeLists.txt").write_text("\n".join(lines))
        (folder / "CMakePresets.json").write_text(json.dumps(PRESETS))
        subprocess.run(["cmake", "--preset", "release"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        done = subprocess.run([folder / "tests/run-ctest", "release"], env=os.environ | {"RETRY_ALONE": retry},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return done.returncode, done.stdout

    def once(self, name, words="late"):
        return {name: ONCE.format(name=name, words=words)}

    def test_what_fails_once_passes_and_is_named(self):
        code, output = self.run_tests({"good": "true", **self.once("slow"), **self.once("other.1")})
        self.assertEqual(code, 0, output)
        self.assertIn("second try, one at a time: other.1, slow: passed", output)

    def test_what_fails_twice_fails(self):
        code, output = self.run_tests({"bad": "false", **self.once("slow")})
        self.assertEqual(code, 1, output)
        self.assertIn("second try, one at a time: bad, slow: FAILED", output)

    def test_a_report_of_a_sanitizer_is_not_tried_again(self):
        code, output = self.run_tests(self.once("race", "WARNING: ThreadSanitizer: data race"))
        self.assertEqual(code, 1, output)
        self.assertIn("not tried again: a sanitizer reported something in race", output)

    def test_many_failures_are_not_tried_again(self):
        code, output = self.run_tests({name: command for i in range(4) for name, command in self.once(f"t{i}").items()})
        self.assertEqual(code, 1, output)
        self.assertIn("not tried again: 4 tests failed", output)

    def test_only_where_it_is_asked_for(self):
        code, output = self.run_tests(self.once("slow"), retry="")
        self.assertNotEqual(code, 0, output)
        self.assertNotIn("second try", output)


class SecondTryOfFrameworks(unittest.TestCase):
    CASES = """
import pathlib, unittest
class Case(unittest.TestCase):
    def test_once(self):
        flag = pathlib.Path(__file__).with_name("flag")
        with self.subTest("part"):
            if not flag.exists():
                flag.touch()
                self.fail("late")
    def test_good(self):
        pass
    def test_bad(self):
        self.fail("always")
"""

    def run_cases(self, pattern, retry="yes"):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="cohort-retry-")))
        (folder / "small_test.py").write_text(self.CASES)
        done = subprocess.run([sys.executable, SOURCE / "tests/frameworks/runner.py", "-s", folder, *pattern],
                              env=os.environ | {"RETRY_ALONE": retry, "PYTHONDONTWRITEBYTECODE": "1"},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return done.returncode, done.stdout

    def test_what_fails_once_passes_and_is_named(self):
        code, output = self.run_cases(["-k", "once", "-k", "good"])
        self.assertEqual(code, 0, output)
        self.assertIn("second try: small_test.Case.test_once: passed", output)

    def test_what_fails_twice_fails(self):
        code, output = self.run_cases([])
        self.assertEqual(code, 1, output)
        self.assertIn("small_test.Case.test_bad", output)
        self.assertIn(": FAILED", output)

    def test_only_where_it_is_asked_for(self):
        code, output = self.run_cases(["-k", "once"], retry="")
        self.assertEqual(code, 1, output)
        self.assertNotIn("second try", output)


unittest.main(verbosity=2)
