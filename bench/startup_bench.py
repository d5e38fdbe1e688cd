"""How long from Enter to the first line of every task's main: cohort run, mpirun, torchrun.

All three start the same program in the same run. The time is that of the last task to begin; each
round checks that every task was there exactly once. Of cohort run also the processor time that its
own process has taken by then, which other programs on the machine do not change: it has to grow no
faster than the number of tasks.
"""

import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from targets import Targets

ROOT = pathlib.Path(__file__).resolve().parent.parent
BIN = ROOT / "build" / "bin"
PROGRAM = str(BIN / "first_line")
SIZES = {2: 15, 64: 5, 1000: 3, 3000: 3}  # tasks: rounds
LARGEST_OF_OTHERS = 64  # tasks that the other launchers are asked for
TARGETS = {2: 0.050, 64: 1.0, 1000: 3.0}  # seconds
MOST_GROWTH = 3.6  # from 1,000 tasks to 3,000
LIMIT = 120  # seconds for one start


def launchers(output):
    found = {"cohort": lambda n: [str(BIN / "cohort"), "run", "-q", "-n", str(n), "--output",
                                  f"{output}/job", "--", PROGRAM]}
    if shutil.which("mpirun"):
        found["mpirun"] = lambda n: ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n",
                                     str(n), PROGRAM]
    torchrun = ROOT / ".venv" / "bin" / "torchrun"
    torchrun = str(torchrun) if torchrun.exists() else shutil.which("torchrun")
    if torchrun:
        found["torchrun"] = lambda n: [torchrun, "--nproc-per-node", str(n), "--no-python", PROGRAM]
    return found


def processor_seconds(pid):
    """What a process has used by itself so far, its children not counted."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def seconds_to_start(command, tasks):
    """Until the last task began, and the launcher's own processor time by then. Ends the launcher
    once every task has spoken: mpirun may hang with many short-lived tasks."""
    begin = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    limit = threading.Timer(LIMIT, process.terminate)
    limit.start()
    began, seen, processor = [], [], 0.0
    for line in process.stdout:
        seen.append(line)
        if match := re.search(r"main-began (\d+\.\d+)", line):
            began.append(float(match[1]))
        if len(began) == tasks:
            processor = processor_seconds(process.pid)
            break
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        process.terminate()
        process.wait()
    limit.cancel()
    process.stdout.close()
    if len(began) != tasks:
        sys.exit(f"startup_bench: {' '.join(command)}: {len(began)} of {tasks} tasks began within "
                 f"{LIMIT} s\n{''.join(seen)[-2000:]}")
    return max(began) - begin, processor


def main():
    targets = Targets("startup")
    print(f"{'launcher':<10} {'tasks':>5} {'rounds':>6} {'min ms':>9} {'median ms':>10} {'max ms':>9} "
          f"{'its CPU ms':>11}")
    walls, processors = {}, {}  # of cohort, by the number of tasks
    with tempfile.TemporaryDirectory() as output:
        known = launchers(output)
        for tasks, rounds in SIZES.items():
            medians = {}
            for name, command in known.items():
                if name != "cohort" and tasks > LARGEST_OF_OTHERS:
                    continue
                count = rounds if name == "cohort" else max(3, rounds // 3)
                starts = [seconds_to_start(command(tasks), tasks) for _ in range(count)]
                times = [wall for wall, _ in starts]
                processor = statistics.median(cpu for _, cpu in starts)
                medians[name] = statistics.median(times)
                targets.record(f"{name}_{tasks}_tasks_s", times)
                targets.record(f"{name}_{tasks}_tasks_cpu_s", [cpu for _, cpu in starts])
                print(f"{name:<10} {tasks:>5} {count:>6} {min(times) * 1e3:>9.1f} "
                      f"{medians[name] * 1e3:>10.1f} {max(times) * 1e3:>9.1f} "
                      f"{processor * 1e3:>11.1f}", flush=True)
                if name == "cohort":
                    walls[tasks], processors[tasks] = medians[name], processor
            for name, median in medians.items():
                if name != "cohort":
                    print(f"  cohort starts {tasks} tasks {median / medians['cohort']:.1f} times "
                          f"as fast as {name}")
            if tasks in TARGETS:
                targets.expect(f"start_{tasks}_tasks_s", medians["cohort"], "<", TARGETS[tasks])
    targets.expect("start_3000_over_1000", walls[3000] / walls[1000], "<=", MOST_GROWTH)
    targets.expect("start_3000_over_1000_cpu", processors[3000] / processors[1000], "<=",
                   MOST_GROWTH)
    for missing in {"mpirun", "torchrun"} - set(known):
        print(f"not measured: {missing} (not installed)")
    targets.finish()


if __name__ == "__main__":
    main()
