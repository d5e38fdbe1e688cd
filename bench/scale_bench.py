"""One submitted job of 1,000 tasks on the local engine: how long until all run, what their logs cost the launcher and the
service, how long until all have ended.

Each task is a shell, so that what is measured is Cohort's: the task says that it runs, waits, writes its lines as fast as
it can, and waits to be ended. Verified: one follower gets every line of every task, the logs hold the same lines, and no
process is left.
"""

import argparse
import os
import pathlib
import signal
import sys
import tempfile
import time

from service_bench import LIMIT, Follower, Service, cpu_seconds, end_service, fail, wait
from targets import Targets

LINE = 64  # bytes
# `read` from a pipe without a writer waits, at no cost.
TASK = """
echo @
read x < "$1"
i=0
while [ $i -lt $2 ]; do echo "@{rest}"; i=$((i+1)); done
read x < "$3"
""".format(rest="x" * (LINE - 2))


class Usage:
    """Processor time since it was made, and the most memory, of a process."""

    def __init__(self, pid):
        self.pid, self.begin = pid, cpu_seconds(pid)

    def seconds(self):
        return cpu_seconds(self.pid) - self.begin

    def peak_mib(self):
        status = pathlib.Path(f"/proc/{self.pid}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")) / 1024


def release(pipe):
    """Lets those go on that wait for this pipe now."""
    try:
        os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
    except OSError:  # none waits
        pass


def processes_with(mark):
    found = 0
    for entry in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found += mark in entry.read_bytes()
        except OSError:
            pass
    return found


def measure(tasks, lines, targets):
    with tempfile.TemporaryDirectory(prefix="cohort-scale-") as name:
        folder = pathlib.Path(name)
        pipes = [folder / "go", folder / "end"]
        for pipe in pipes:
            os.mkfifo(pipe)
        service = Service(folder / "home", "--cores", tasks)
        try:
            run(service, folder, pipes, tasks, lines, targets)
        finally:  # the tasks, too: they do not end with the service
            end_service(service)


def run(service, folder, pipes, tasks, lines, targets):
    of_service = Usage(service.process.pid)
    begin = time.monotonic()
    job = service.submit(["sh", "-c", TASK, "task", str(pipes[0]), str(lines), str(pipes[1])], name="scale", cores=1,
                         instance_count=tasks)  # fmt: skip
    submitted = time.monotonic() - begin
    claim = service.root / "jobs" / job / "attempts/1/claim"
    wait(claim.exists, "the launcher")
    of_launcher = Usage(int(claim.read_text().split()[2]))
    follower = Follower(service, job, task=None)
    follower.start()
    wait(lambda: follower.lines >= tasks, f"{tasks} tasks that run")
    started = time.monotonic() - begin
    start_cpu = of_launcher.seconds(), of_service.seconds()

    begin = time.monotonic()
    expected = tasks * (lines + 1)

    def all_came():
        release(pipes[0])
        return follower.lines >= expected

    wait(all_came, f"{expected} lines")
    logged = time.monotonic() - begin
    log_cpu = [usage.seconds() - before for usage, before in zip((of_launcher, of_service), start_cpu)]
    peaks = of_launcher.peak_mib(), of_service.peak_mib()

    begin = time.monotonic()
    service.call("POST", f"/v1/jobs/{job}/stop")
    wait(lambda: service.job(job)["state"] == "stopped", "the end")
    stopped = time.monotonic() - begin
    follower.join(LIMIT)
    left = processes_with(str(folder).encode())
    kept = sum(path.read_bytes().count(b"@") for path in (claim.parent / "run/logs").iterdir())
    if kept != expected or follower.lines != expected or not follower.ended:
        fail(f"{expected} lines were written, {kept} are in the logs, a follower got {follower.lines}, end {follower.ended}")
    if left > 1:  # the service itself
        fail(f"{left - 1} processes are left")

    bytes_logged = tasks * lines * LINE
    print(f"start: {tasks} tasks run {started:.2f} s after they were submitted (answer after {submitted * 1e3:.0f} ms); "
          f"launcher {start_cpu[0]:.2f} s, service {start_cpu[1]:.2f} s of processor time")
    print(f"logs: {bytes_logged / 1e6:.1f} MB in {tasks * lines} lines in {logged:.2f} s, followed by one, none lost; "
          f"launcher {log_cpu[0]:.2f} s, service {log_cpu[1]:.2f} s of processor time")
    print(f"stop: all ended after {stopped:.2f} s; at most launcher {peaks[0]:.0f} MiB, service {peaks[1]:.0f} MiB", flush=True)
    targets.record("start_s", [started])
    targets.record("stop_s", [stopped])
    targets.record("log_mb_per_s", [bytes_logged / 1e6 / logged])
    targets.record("log_service_cpu_s", [log_cpu[1]])
    targets.record("log_launcher_cpu_s", [log_cpu[0]])
    targets.record("launcher_mib", [peaks[0]])
    targets.record("service_mib", [peaks[1]])
    targets.expect("scale_start_s", started, "<", 10)
    targets.expect("scale_stop_s", stopped, "<", 10)
    targets.expect("scale_lost_lines", expected - kept, "<=", 0)
    targets.expect("scale_service_mib", peaks[1], "<", 256)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--lines", type=int, default=200, help="of each task")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("scale_bench.py: ended by SIGTERM"))  # not without ending the tasks
    targets = Targets("scale")
    measure(arguments.tasks, arguments.lines, targets)
    targets.finish()


if __name__ == "__main__":
    main()
