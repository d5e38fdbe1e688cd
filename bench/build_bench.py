"""What building this tree takes: processor seconds from cold, and the wait after a change.

usage: build_bench.py [--quick] [--jobs N] [--folder FOLDER]

Builds in a temporary folder (or in FOLDER, which must be empty and stays) with the compiler cache off.
Processor seconds, not time: they hardly depend on the number of cores, and less than time does on what
else the machine does.
  demo   configure, then what `make demo` builds
  touch  the same again after touching one LibTorch source, one after the other of TOUCHED: seconds
         of waiting, the longest; and processor seconds after touching COMMON, which nearly all include
  all    everything that `make build` builds, from cold, that of the demo included; not with --quick
"""

import argparse
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

from targets import Targets

ROOT = pathlib.Path(__file__).resolve().parent.parent
DEMO = "demo_programs"
# LibTorch sources that a person may change; each belongs to another batch.
TOUCHED = ["src/cohort/parallel/gradients/gradient_sync.cpp", "src/cohort/parallel/tensors/ops.cpp",
           "src/cohort/train/checkpoint/checkpoint.cpp", "src/cohort/train/trainer.cpp"]
COMMON = "src/cohort/base/error.h"


def run(*command):
    """(seconds, processor seconds) of a command that must succeed."""
    begin, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env=os.environ | {"CCACHE_DISABLE": "1"})
    if done.returncode != 0:
        sys.exit(f"build_bench: {' '.join(map(str, command))} ended with {done.returncode}:\n"
                 f"{done.stdout[-4000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (time.monotonic() - begin,
            after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


class Tree:
    """A build tree in a temporary folder."""

    def __init__(self, folder, jobs):
        self.folder, self.jobs = folder, jobs

    def configure(self):
        return run("cmake", "-S", ROOT, "-B", self.folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release")

    def build(self, *targets):
        return run("cmake", "--build", self.folder, "-j", str(self.jobs),
                   *(["--target", *targets] if targets else []))

    def rebuild_after_touching(self, source):
        """(seconds, processor seconds); the source gets its time back, so that build/ notices nothing."""
        path = ROOT / source
        before = path.stat()
        os.utime(path)
        try:
            return self.build(DEMO)
        finally:
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def report(targets, name, seconds, cpu):
    print(f"{name:<55} {seconds:>8.1f} {cpu:>8.1f}", flush=True)
    targets.record(name.replace(" ", "_") + "_s", [seconds])
    targets.record(name.replace(" ", "_") + "_cpu_s", [cpu])


def measure(tree, quick, targets):
    print(f"{'':<55} {'s':>8} {'cpu s':>8}")
    seconds, cpu = map(sum, zip(tree.configure(), tree.build(DEMO)))
    report(targets, "demo", seconds, cpu)
    targets.expect("build_demo_cpu_s", cpu, "<=", 500)
    waits = []
    for source in TOUCHED:
        wait = tree.rebuild_after_touching(source)
        report(targets, f"touched {source}", *wait)
        waits.append(wait[0])
    targets.expect("build_touch_one_s", max(waits), "<=", 30)
    wait = tree.rebuild_after_touching(COMMON)
    report(targets, f"touched {COMMON}", *wait)
    targets.expect("build_touch_common_cpu_s", wait[1], "<=", 480)
    if not quick:
        rest = tree.build()
        report(targets, "all", seconds + rest[0], cpu + rest[1])
        targets.expect("build_all_cpu_s", cpu + rest[1], "<=", 2700)


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--folder", type=pathlib.Path)
    arguments = parser.parse_args()
    if subprocess.run([ROOT / "scripts/find-torch"], stdout=subprocess.DEVNULL).returncode != 0:
        sys.exit("build_bench: there is no LibTorch here, and the figures are those of a build with it. "
                 "Run scripts/setup.")
    for source in [*TOUCHED, COMMON]:
        if not (ROOT / source).exists():
            sys.exit(f"build_bench: {source} is not there; name another file in TOUCHED or COMMON.")
    targets = Targets("build")
    if arguments.folder:
        if arguments.folder.exists() and any(arguments.folder.iterdir()):
            sys.exit(f"build_bench: --folder {arguments.folder} must be empty, as a cold build is measured.")
        measure(Tree(arguments.folder.resolve(), arguments.jobs), arguments.quick, targets)
    else:
        with tempfile.TemporaryDirectory(prefix="cohort-build-") as folder:
            measure(Tree(folder, arguments.jobs), arguments.quick, targets)
    targets.finish()


main()
