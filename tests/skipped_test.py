"""tests/run-ctest and tests/skipped.py: what ctest ran is written down, and what was skipped is named.

    skipped_test.py SOURCE_DIR
"""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(sys.argv[1])
PROJECT = """cmake_minimum_required(VERSION 3.25)
project(Small LANGUAGES NONE)
enable_testing()
add_test(NAME runs COMMAND true)
add_test(NAME leaves COMMAND sh -c "echo no network namespaces here; exit 77")
set_tests_properties(leaves PROPERTIES SKIP_RETURN_CODE 77)
add_test(NAME cases COMMAND sh ${CMAKE_SOURCE_DIR}/cases.sh)
add_test(NAME python COMMAND sh -c "echo 'OK (skipped=2)'")
"""
CASES = """i=0
while [ $i -lt 200 ]; do echo "[       OK ] Things.number$i (0 ms)"; i=$((i + 1)); done
echo "[  PASSED  ] 200 tests."
echo "[  SKIPPED ] 1 test, listed below:"
echo "[  SKIPPED ] Things.need_a_gpu"
"""
WANTED = """3 of 4 tests were skipped, whole or in part:
  release: leaves: no network namespaces here
  release: cases, in part: Things.need_a_gpu
  release: python, in part: 2 of its cases
"""


def main():
    with tempfile.TemporaryDirectory(prefix="cohort-skipped-") as folder:
        root = pathlib.Path(folder)
        (root / "tests").mkdir()
        for name in ("run-ctest", "skipped.py"):
            shutil.copy(SOURCE / "tests" / name, root / "tests")
        (root / "CMakeLists.txt").write_text(PROJECT)
        (root / "cases.sh").write_text(CASES)
        (root / "CMakePresets.json").write_text(json.dumps({
            "version": 6,
            "configurePresets": [{"name": "release", "generator": "Ninja", "binaryDir": "${sourceDir}/build"}],
            "testPresets": [{"name": "release", "configurePreset": "release"}]}))
        subprocess.run(["cmake", "--preset", "release"], cwd=root, check=True, stdout=subprocess.DEVNULL)
        subprocess.run([root / "tests/run-ctest", "release"], check=True, stdout=subprocess.DEVNULL)
        said = subprocess.run([sys.executable, root / "tests/skipped.py", root / "build/junit/release.xml"],
                              check=True, stdout=subprocess.PIPE, text=True).stdout
        if said != WANTED:
            sys.exit(f"skipped_test: wanted\n{WANTED}\nbut it said\n{said}")


main()
