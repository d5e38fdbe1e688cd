#!/usr/bin/env python3
"""Runs tests that failed beside others once more, one at a time, and names those that passed then.

usage: retry_alone.py JUNIT -- CTEST...

JUNIT is what ctest wrote of the first run; CTEST is a ctest command without a choice of tests. Tests
that wait for processes and deadlines can fail on a machine that other programs slow down; a fault of
the code fails alone, too. Nothing is tried again when a sanitizer reported something, when more than
three tests failed, or when ctest itself failed.
Exit code: 0 when each passed, else 1.
"""

import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree

MOST = 3
REPORT = re.compile(r"(Address|Leak|Thread|UndefinedBehavior)Sanitizer|: runtime error: ")


def failures(junit):
    """Name: output, of the tests that failed."""
    if not junit.exists():
        return {}
    cases = xml.etree.ElementTree.parse(junit).getroot().iter("testcase")
    return {case.get("name"): case.findtext("system-out") or "" for case in cases if case.get("status") == "fail"}


def reason_against(failed):
    """Why nothing is tried again; None: it is."""
    if not failed:
        return "ctest named no test that failed"
    if len(failed) > MOST:
        return f"{len(failed)} tests failed, and at most {MOST} are tried again"
    if reported := [name for name, output in failed.items() if REPORT.search(output)]:
        return f"a sanitizer reported something in {', '.join(reported)}"
    return None


def main():
    if len(sys.argv) < 4 or sys.argv[2] != "--":
        sys.exit(__doc__.split("\n\n")[1])
    failed = failures(pathlib.Path(sys.argv[1]))
    if reason := reason_against(failed):
        print(f"not tried again: {reason}")
        return 1
    names = sorted(failed)
    choice = "^(" + "|".join(map(re.escape, names)) + ")$"
    done = subprocess.run([*sys.argv[3:], "-j", "1", "-R", choice, "--no-tests=error"])
    outcome = "passed" if done.returncode == 0 else "FAILED"
    print(f"second try, one at a time: {', '.join(names)}: {outcome}")
    return 0 if done.returncode == 0 else 1


sys.exit(main())
