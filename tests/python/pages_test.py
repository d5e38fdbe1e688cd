"""Does what a page of docs/ says: writes its files and runs its commands, as a person with the package does.

usage: pages_test.py PAGE.md

A file is a ```python block behind a line "`name.py`:"; a command is a line "$ ..." of a ```console block. `python` is
the one that runs this test; `cohort`, the package and the alias `horovod` are those of this tree.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

import jobs
from needed_packages import need

need("numpy", "torch")
PAGE = jobs.SOURCE / "docs" / sys.argv[1]
LIMIT = 120  # seconds for one command
FENCE = re.compile(r"(?:^`([\w.]+)`[^`\n]*:\n\n)?^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def parts(text):
    """The page's files, as (name, content), and commands, as (None, command), in their order."""
    for name, kind, content in FENCE.findall(text):
        if kind == "python" and not name:
            raise SystemExit(f"{PAGE}: a Python block without a name is run by nothing:\n{content}")
        if kind == "python":
            yield name, content
        elif kind == "console":
            yield from ((None, line[2:]) for line in content.splitlines() if line.startswith("$ "))


def commands_folder(folder):
    """A folder for PATH with what the package installs."""
    tools = folder / "tools"
    tools.mkdir()
    (tools / "cohort").symlink_to(jobs.BIN / "cohort")
    (tools / "horovodrun").write_text(f"#!/bin/sh\nexec {sys.executable} -c "
                                      "'from cohort.runner.launch import run_commandline; run_commandline()' \"$@\"\n")
    (tools / "horovodrun").chmod(0o755)
    return tools


def main():
    with tempfile.TemporaryDirectory(prefix="cohort-page-") as name:
        folder = pathlib.Path(name)
        packages = f"{jobs.SOURCE / 'python'}:{jobs.SOURCE / 'python/cohort-horovod'}"
        path = f"{commands_folder(folder)}:{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
        env = jobs.environment(PATH=path, PYTHONPATH=packages)
        printed = {}
        for file, content in parts(PAGE.read_text()):
            if file:
                (folder / file).write_text(content)
                continue
            status, output = jobs.finish(jobs.start(["sh", "-c", content], env=env, cwd=folder), LIMIT)
            print(f"$ {content}\n{output}", flush=True)
            if status != 0:
                print(f"{PAGE.name}: '{content}' ended with {status}")
                return 1
            printed[content] = output
        lines = [line for output in printed.values() for line in output.splitlines()]
        bits = {line.split()[-1] for line in lines if " weights " in f" {line}"}
        if len(bits) > 1:
            print(f"{PAGE.name} promises the same bits, and there are {bits}")
            return 1
        print(f"{PAGE.name}: {len(printed)} commands did what it says")
        return 0 if printed else 1


if __name__ == "__main__":
    sys.exit(main())
