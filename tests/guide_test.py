"""Does what docs/guide.md says: writes its files, runs its commands against an installed Cohort.

    guide_test.py SOURCE_DIR BUILD_DIR
"""

import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

SOURCE, BUILD = map(pathlib.Path, sys.argv[1:3])
LIMIT = 600  # seconds for one command


def parts(text):
    """The guide's files, as (name, content), and commands, as (None, command), in their order."""
    fence = re.compile(r"(?:^`([\w.]+)`:\n\n)?^```(\w+)\n(.*?)^```$", re.M | re.S)
    for name, kind, content in fence.findall(text):
        if name:
            yield name, content
        elif kind == "console":
            yield from ((None, line[2:]) for line in content.splitlines() if line.startswith("$ "))


def main():
    with tempfile.TemporaryDirectory(prefix="cohort-guide-") as folder:
        home, work = pathlib.Path(folder, "home"), pathlib.Path(folder, "work")
        work.mkdir()
        subprocess.run(["cmake", "--install", BUILD, "--prefix", home / "cohort"], check=True,
                       stdout=subprocess.DEVNULL)
        # The LibTorch that Cohort was built with, as a person who follows the guide has it.
        path = f"{SOURCE / '.venv' / 'bin'}:{os.environ['PATH']}"
        environment = {k: v for k, v in os.environ.items() if not k.startswith("COHORT_")}
        environment |= {"HOME": str(home), "PATH": path}
        weights, commands = [], 0
        for name, content in parts((SOURCE / "docs" / "guide.md").read_text()):
            if name:
                (work / name).write_text(content)
                continue
            commands += 1
            done = subprocess.run(["bash", "-ec", content], cwd=work, env=environment, text=True,
                                  timeout=LIMIT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            print(f"$ {content}\n{done.stdout[-3000:]}", flush=True)
            if done.returncode != 0:
                sys.exit(f"guide_test: {shlex.quote(content)} ended with {done.returncode}")
            weights += re.findall(r"weights ([0-9a-f]{64})", done.stdout)
        if commands < 8 or len(weights) < 4:
            sys.exit(f"guide_test: only {commands} commands and {len(weights)} fingerprints were seen")
        if len(set(weights)) != 1:
            sys.exit(f"guide_test: the guide promises the same weights, but they are {set(weights)}")


main()
