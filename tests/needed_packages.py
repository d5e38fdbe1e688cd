"""For tests that need Python packages of tests/python-packages.txt."""

import importlib.util
import sys

SKIP = 77  # ctest shows the test as skipped


def need(*names):
    """Ends the test as skipped, with the reason, when a package is not there."""
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        print(f"skipped: {sys.executable} has no {', '.join(missing)}; scripts/setup installs the packages "
              "of tests/python-packages.txt into .venv")
        sys.exit(SKIP)
