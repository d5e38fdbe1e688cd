#!/usr/bin/env python3
"""Names the tests that were skipped, whole or in part, in JUnit files that ctest has written.

usage: skipped.py FILE...

A whole test is skipped by its exit code. Parts of one are found in what it printed at its end: the
list of GoogleTest, the count of unittest.
"""

import pathlib
import re
import sys
import xml.etree.ElementTree


def skipped_parts(output):
    """What a test that ran says of its skipped cases; None when it skipped none."""
    names = dict.fromkeys(re.findall(r"^\[  SKIPPED \] ([\w./-]+)$", output, re.MULTILINE))
    if names:
        return ", ".join(names)
    if counted := re.search(r"^OK \(skipped=(\d+)\)", output, re.MULTILINE):
        reasons = dict.fromkeys(re.findall(r"\.\.\. skipped ['\"](.*)['\"]$", output, re.MULTILINE))
        return f"{counted[1]} of its cases" + "".join(f"; {reason}" for reason in reasons)
    return None


def main():
    total, skipped = 0, []
    for path in map(pathlib.Path, sys.argv[1:]):
        if not path.exists():
            skipped.append(f"{path.stem}: no results: {path} is not there")
            continue
        for case in xml.etree.ElementTree.parse(path).getroot().iter("testcase"):
            total += 1
            output = case.findtext("system-out") or ""
            if case.find("skipped") is not None:
                last = (output.strip().splitlines() or ["it gave no reason"])[-1]
                skipped.append(f"{path.stem}: {case.get('name')}: {last}")
            elif parts := skipped_parts(output):
                skipped.append(f"{path.stem}: {case.get('name')}, in part: {parts}")
    print(f"{len(skipped)} of {total} tests were skipped, whole or in part" + (":" if skipped else ""))
    for line in skipped:
        print(f"  {line}")


main()
