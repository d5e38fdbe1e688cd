"""Runs all cases of this folder on this rank; with arguments, the classes or cases named, as unittest names them.

    cohort run -n 2 -- python run.py [-v] [test_allreduce.Allreduce ...]

Every rank prints `conformance: N cases, S skipped, F failed`.
"""

import pathlib
import sys
import unittest


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "-v"]
    folder = str(pathlib.Path(__file__).resolve().parent)
    sys.path.insert(0, folder)
    loader = unittest.TestLoader()
    suite = loader.loadTestsFromNames(arguments) if arguments else loader.discover(folder, pattern="test_*.py")
    result = unittest.TextTestRunner(verbosity=2 if "-v" in sys.argv else 0).run(suite)
    failed = len(result.failures) + len(result.errors)
    print(f"conformance: {result.testsRun} cases, {len(result.skipped)} skipped, {failed} failed", flush=True)
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
