"""scripts/compile in a log file: it says how far it is while a step takes long, shows what a failed
step printed in full, builds the asked targets only, and configures only when something has changed.

    compile_test.py SOURCE_DIR
"""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(sys.argv[1])
LIMIT = 120  # seconds for one build

PROJECT = """cmake_minimum_required(VERSION 3.25)
project(Small LANGUAGES NONE)
file(APPEND ${CMAKE_SOURCE_DIR}/configured.txt "torch=${COHORT_TORCH}\\n")
add_custom_command(OUTPUT long.txt COMMAND sleep 3 COMMAND touch long.txt)
add_custom_target(long DEPENDS long.txt)
add_custom_command(OUTPUT other.txt COMMAND touch other.txt)
add_custom_target(other ALL DEPENDS other.txt)
add_custom_command(OUTPUT failing.txt COMMAND sh ${CMAKE_SOURCE_DIR}/failing.sh VERBATIM)
add_custom_target(failing DEPENDS failing.txt)
"""


class Compile(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory(prefix="cohort-compile-")
        self.addCleanup(self.scratch.cleanup)
        self.root = pathlib.Path(self.scratch.name).resolve()
        shutil.copytree(SOURCE / "scripts", self.root / "scripts")
        (self.root / "cmake").mkdir()
        shutil.copy(SOURCE / "cmake/find_torch.py", self.root / "cmake")
        (self.root / "CMakeLists.txt").write_text(PROJECT)
        (self.root / "failing.sh").write_text(
            'for i in $(seq 300); do echo "error line $i of the compiler"; done; exit 3\n')
        (self.root / "CMakePresets.json").write_text(json.dumps({
            "version": 6, "configurePresets": [{"name": "release", "generator": "Ninja",
                                                "binaryDir": "${sourceDir}/build"}]}))

    def compile(self, *arguments, torch="off"):
        return subprocess.run([self.root / "scripts/compile", *arguments], text=True, timeout=LIMIT,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env={"PATH": "/usr/local/bin:/usr/bin:/bin", "COHORT_TORCH": torch})

    def test_says_how_far_it_is_while_one_step_takes_long(self):
        done = self.compile("--every", "0.5", "long")
        self.assertEqual(done.returncode, 0, done.stdout)
        lines = done.stdout.splitlines()
        self.assertEqual(lines[0], "compile: 0/1", done.stdout)
        self.assertGreaterEqual(sum(line.startswith("compile: 0/1 after 0:0") for line in lines), 2,
                                done.stdout)
        self.assertRegex(lines[-1], r"compile: 1/1 after 0:\d\d")
        self.assertFalse((self.root / "build/other.txt").exists(), "built what was not asked for")

    def test_shows_all_that_a_failed_step_printed(self):
        done = self.compile("failing")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("FAILED", done.stdout)
        for number in (1, 150, 300):
            self.assertIn(f"error line {number} of the compiler\n", done.stdout)

    def test_configures_once_and_again_when_options_or_cmake_files_change(self):
        def configured():
            return (self.root / "configured.txt").read_text().split()

        for _ in range(2):
            done = self.compile()
            self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(configured(), ["torch=OFF"])
        self.assertEqual(done.stdout, "")
        self.assertEqual(self.compile(torch="").returncode, 0)
        self.assertEqual(configured(), ["torch=OFF", "torch=ON"])
        (self.root / "CMakeLists.txt").write_text(PROJECT + "# changed\n")
        self.assertEqual(self.compile(torch="").returncode, 0)
        self.assertEqual(configured(), ["torch=OFF", "torch=ON", "torch=ON"])

    def test_names_the_presets_that_there_are(self):
        done = self.compile("--preset", "relaese")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("no preset 'relaese' in CMakePresets.json; there are: release", done.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
