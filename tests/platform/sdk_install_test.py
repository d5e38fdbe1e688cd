"""`pip install ./python` into a clean virtual environment: the package works, is typed, and finds its program."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
COHORT = pathlib.Path(os.environ.get("COHORT_BIN_DIR", SOURCE / "build/bin")) / "cohort"
SKIP = 77
CHECK = """
import importlib.metadata, pathlib, cohort, cohort.estimator, cohort.service
print(pathlib.Path(cohort.__file__).parent.joinpath("py.typed").exists(), cohort.service.find_program())
print(importlib.metadata.version("cohort-sdk") == cohort.__version__, importlib.metadata.requires("cohort-sdk"))
"""


def run(*words, **options):
    return subprocess.run([str(word) for word in words], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=250, **options)  # fmt: skip


def main():
    with tempfile.TemporaryDirectory(prefix="cohort-install-") as folder:
        venv, tree = pathlib.Path(folder, "venv"), pathlib.Path(folder, "tree")
        left_out = shutil.ignore_patterns("build", "*.egg-info", "__pycache__", ".mypy_cache")
        shutil.copytree(SOURCE / "python", tree / "python", ignore=left_out)  # pip builds in the folder itself
        (tree / "build/bin").mkdir(parents=True)
        (tree / "build/bin/cohort").symlink_to(COHORT)
        made = run(sys.executable, "-m", "venv", venv)
        if made.returncode != 0:
            print(f"{made.stdout}\nskipped: {sys.executable} cannot make virtual environments (above)")
            return SKIP
        installed = run(venv / "bin/pip", "install", "--quiet", "--retries", 1, tree / "python")
        if installed.returncode != 0:
            print(installed.stdout)
            if "setuptools" not in installed.stdout or "No matching distribution" not in installed.stdout:
                return 1
            print("skipped: pip could not get setuptools (above)")
            return SKIP
        clean = {"PATH": "/usr/bin:/bin", "HOME": folder}
        found = run(venv / "bin/python", "-c", CHECK, cwd=folder, env=clean).stdout
        expected = f"True {tree.resolve()}/build/bin/cohort\nTrue None\n"
        if found != expected:
            print(f"expected:\n{expected}found:\n{found}")
            return 1
        print("pip install ./python: the package is complete and finds the program of its tree")
        return 0


if __name__ == "__main__":
    sys.exit(main())
