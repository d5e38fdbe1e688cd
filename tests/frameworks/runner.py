"""Runs the framework tests: unittest's discovery, with a second try where that is asked for.

usage: runner.py [UNITTEST_ARGUMENTS...]

RETRY_ALONE=yes: at most three tests that failed are run once more, and named (tests/retry_alone.py does the same
for ctest). Exit code: 0 when each passed.
"""

import os
import pathlib
import sys
import unittest

MOST = 3
FOLDER = pathlib.Path(__file__).resolve().parent


def failed_in(result):
    """The tests that failed, each once; None when something else did (an import, a set-up of a class)."""
    tests = {}
    for test, _ in [*result.failures, *result.errors, *((test, "") for test in result.unexpectedSuccesses)]:
        test = getattr(test, "test_case", test)  # of a subtest
        if not isinstance(test, unittest.TestCase) or type(test).__module__ == "unittest.loader":
            return None
        tests[test.id()] = test
    return tests


def main():
    arguments = ["runner", "discover", "-v", "-s", str(FOLDER), "-p", "*_test.py", *sys.argv[1:]]
    result = unittest.main(module=None, argv=arguments, exit=False).result
    if result.wasSuccessful():
        return 0
    failed = failed_in(result)
    if os.environ.get("RETRY_ALONE") != "yes" or not failed or len(failed) > MOST:
        return 1
    again = unittest.TestSuite(type(test)(test._testMethodName) for test in failed.values())
    passed = unittest.TextTestRunner(verbosity=2).run(again).wasSuccessful()
    print(f"second try: {', '.join(failed)}: {'passed' if passed else 'FAILED'}")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
