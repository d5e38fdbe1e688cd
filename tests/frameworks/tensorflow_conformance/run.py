"""Runs all cases of this folder on this rank. The last line says how many there were; exit status 1: some failed."""

import os
import pathlib
import sys
import unittest
import warnings

HERE = pathlib.Path(__file__).resolve().parent
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("HOROVOD_DYNAMIC_PROCESS_SETS", "1")
sys.path.insert(0, str(HERE))
warnings.simplefilter("ignore")

import tensorflow as tf  # noqa: E402

import cohort.tensorflow as hvd  # noqa: E402


def main():
    patterns = sys.argv[1:] or ["test_*.py"]
    suite = unittest.TestSuite(unittest.defaultTestLoader.discover(str(HERE), pattern) for pattern in patterns)
    hvd.init()
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=0).run(suite)
    failed = len(result.failures) + len(result.errors)
    print(f"conformance rank={hvd.rank()} size={hvd.size()} tensorflow={tf.__version__} cases={result.testsRun} "
          f"skipped={len(result.skipped)} failed={failed}", flush=True)  # fmt: skip
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
