"""`pip install ./python` into a clean virtual environment: the package works, is typed, has its own program, and
nothing was written into the folder that it was installed from. What is compiled comes from the build tree."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("COHORT_BIN_DIR", SOURCE / "build/bin")).parent
SKIP = 77
CHECK = """
import importlib.metadata, pathlib, cohort, cohort.estimator, cohort.service
print(pathlib.Path(cohort.__file__).parent.joinpath("py.typed").exists(), cohort.service.find_program())
print(importlib.metadata.version("cohort-sdk") == cohort.__version__,
      [line for line in importlib.metadata.requires("cohort-sdk") if "extra ==" not in line])
"""


def run(*words, **options):
    return subprocess.run([str(word) for word in words], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=250, **options)  # fmt: skip


def main():
    with tempfile.TemporaryDirectory(prefix="cohort-install-") as folder:
        venv, tree = pathlib.Path(folder, "venv"), pathlib.Path(folder, "tree")
        left_out = shutil.ignore_patterns("build", "*.egg-info", "__pycache__", ".mypy_cache")
        shutil.copytree(SOURCE / "python", tree / "python", ignore=left_out)
        before = sorted(tree.rglob("*"))
        made = run(sys.executable, "-m", "venv", venv)
        if made.returncode != 0:
            print(f"{made.stdout}\nskipped: {sys.executable} cannot make virtual environments (above)")
            return SKIP
        installed = run(venv / "bin/pip", "install", "--quiet", "--retries", 1,
                        f"--config-settings=cmake.define.COHORT_BUILT={BUILD}", tree / "python")  # fmt: skip
        if installed.returncode != 0:
            print(installed.stdout)
            if "scikit-build-core" not in installed.stdout or "No matching distribution" not in installed.stdout:
                return 1
            print("skipped: pip could not get scikit-build-core (above)")
            return SKIP
        if sorted(tree.rglob("*")) != before:
            print(f"pip wrote into the folder that it installs, which may be another user's: "
                  f"{sorted(set(tree.rglob('*')) - set(before))}")  # fmt: skip
            return 1
        clean = {"PATH": "/usr/bin:/bin", "HOME": folder}
        found = run(venv / "bin/python", "-c", CHECK, cwd=folder, env=clean).stdout
        program = next(venv.resolve().glob("lib/python3*/site-packages/cohort/bin/cohort"), None)
        expected = f"True {program}\nTrue []\n"
        if found != expected:
            print(f"expected:\n{expected}found:\n{found}")
            return 1
        said = [run(path, "--version", env=clean).stdout for path in (venv / "bin/cohort", program)]
        if "cohort" not in said[0] or said[0] != said[1]:
            print(f"the command and the program that it starts say: {said}")
            return 1
        print("pip install ./python: the package is complete and has its program")
        return 0


if __name__ == "__main__":
    sys.exit(main())
