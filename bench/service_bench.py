"""What `cohort serve` costs and withstands: submitting, 1,000 waiting jobs, a list of 10,000, 64 followers of one log,
decisions of the queue (simulated), and kills of the service at random instants (tests/platform/service_kill_test.py).

Real services on this machine, over their Unix sockets. Verified: every submitted job is there, every list is whole, each
follower got every line, each job of the kills ran exactly once.
"""

import argparse
import json
import os
import pathlib
import random
import signal
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from targets import Targets

ROOT = pathlib.Path(__file__).resolve().parent.parent
BIN = ROOT / "build" / "bin"
os.environ.setdefault("COHORT_BIN_DIR", str(BIN))
sys.path.insert(0, str(ROOT / "tests" / "platform"))
from api_service import Service  # noqa: E402

SECTIONS = ("queue", "submit", "idle", "list", "followers", "kills")
LIMIT = 300  # seconds for anything that is waited for
LINE = 100  # bytes of a line that is followed
WRITER = """
import os, sys, time
lines, rate, report = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
portion = 100  # lines
text = b"".join(b"@" + b"x" * {rest} + b"\\n" for _ in range(portion))
begin = time.monotonic()
for number in range(lines // portion):
    os.write(1, text)
    ahead = begin + (number + 1) * len(text) / rate - time.monotonic()
    if ahead > 0:
        time.sleep(ahead)
open(report, "w").write(str(time.monotonic() - begin))
""".format(rest=LINE - 2)


def fail(text):
    sys.exit(f"service_bench.py: {text}")


def wait(condition, what):
    limit = time.monotonic() + LIMIT
    while not (value := condition()):
        if time.monotonic() > limit:
            fail(f"waited in vain for {what}")
        time.sleep(0.02)
    return value


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure_queue(arguments, targets):
    if not (BIN / "queue_bench").exists():
        fail("build/bin/queue_bench is not there; build with COHORT_BENCH=ON")
    runs = [json.loads(subprocess.run([BIN / "queue_bench"], check=True, capture_output=True, text=True,
                                      timeout=LIMIT).stdout) for _ in range(1 if arguments.quick else 5)]
    seconds = [run["seconds"] for run in runs]
    targets.record("queue_simulation_s", seconds)
    print(f"queue: 10,000 jobs on 1,000 nodes, {runs[0]['decisions']} decisions, in {statistics.median(seconds):.2f} "
          f"processor seconds; "
          f"{runs[0]['used']:.0%} of the cores used", flush=True)
    targets.expect("queue_simulation_s", statistics.median(seconds), "<", 1)


def submit_jobs(service, count, seconds):
    """Jobs of which one runs at a time; the time that each request took, in milliseconds."""
    times = []
    connection = service.connection()
    for number in range(count):
        body = {"spec": {"name": f"job-{number}", "cores": 1, "program": ["sleep", str(seconds)]},
                "request_id": str(number)}
        begin = time.monotonic()
        service.send(connection, "POST", "/v1/jobs", body)
        answer = connection.getresponse()
        text = answer.read()
        times.append((time.monotonic() - begin) * 1e3)
        if answer.status == 429:
            time.sleep(float(answer.headers["Retry-After"]))
            continue
        if answer.status != 201:
            fail(f"submit: {answer.status} {text}")
        time.sleep(0.02)  # below the limit of requests a second
    connection.close()
    return times


def end_service(service):
    """At once: 1,000 waiting jobs need no orderly end. What runs is asked to stop, by its supervisor."""
    service.process.kill()
    service.process.wait()
    for claim in service.root.glob("jobs/*/attempts/*/claim"):
        try:
            os.kill(int(claim.read_text().split()[2]), signal.SIGTERM)
        except ProcessLookupError:
            pass


def measure_waiting(arguments, targets, sections):
    count = 100 if arguments.quick else 1000
    with tempfile.TemporaryDirectory() as folder:
        service = Service(pathlib.Path(folder) / "home", "--cores", 1)
        try:
            times = submit_jobs(service, count, 3600)
            if "submit" in sections:
                targets.record("submit_ms", times)
                print(f"submit: median {statistics.median(times):.2f} ms, worst {max(times):.1f} ms of {count}", flush=True)
                targets.expect("submit_median_ms", statistics.median(times), "<", 10)
            if "idle" in sections:
                waiting = service.call("GET", "/v1/service").json()["jobs"]["queued"]
                if waiting < count * 0.9:
                    fail(f"{waiting} jobs wait, not {count}")
                time.sleep(2)
                seconds = 5 if arguments.quick else 30
                before = cpu_seconds(service.process.pid)
                time.sleep(seconds)
                part = (cpu_seconds(service.process.pid) - before) / seconds * 100
                targets.record("idle_cpu_percent", [part])
                print(f"idle: {waiting} jobs wait, {part:.2f}% of a core", flush=True)
                targets.expect("idle_cpu_percent", part, "<", 5)
        finally:
            end_service(service)


def measure_list(arguments, targets):
    """One job that ran, and 9,999 copies of its row."""
    count = 10000
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder) / "home"
        service = Service(root)
        job = service.submit(["true"], name="listed")
        wait(lambda: service.job(job)["state"] == "succeeded", "a job")
        service.stop()
        with sqlite3.connect(root / "service.sqlite") as database:
            for table, key in (("jobs", "id"), ("job_texts", "job")):
                names = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
                row = dict(zip(names, database.execute(f"SELECT * FROM {table}").fetchone()))
                database.executemany(
                    f"INSERT INTO {table} ({','.join(names)}) VALUES ({','.join('?' for _ in names)})",
                    [[{**row, key: f"20200101-000000-{number:06x}"}[name] for name in names] for number in range(1, count)])
        database.close()
        service = Service(root)
        try:
            pages, wholes = [], []
            for _ in range(3 if arguments.quick else 20):
                begin = time.monotonic()
                page = service.call("GET", "/v1/jobs?state=succeeded").json()
                pages.append((time.monotonic() - begin) * 1e3)
                if len(page["jobs"]) != 100:
                    fail(f"a page has {len(page['jobs'])} jobs")
            found, after, begin = 0, "", time.monotonic()
            while after is not None:
                page = service.call("GET", f"/v1/jobs?limit=1000&state=succeeded{after and '&before=' + after}").json()
                found, after = found + len(page["jobs"]), page["next"]
            wholes.append((time.monotonic() - begin) * 1e3)
            if found != count:
                fail(f"the list has {found} jobs")
            targets.record("list_page_ms", pages)
            targets.record("list_all_pages_ms", wholes)
            print(f"list: {count} jobs, a page of 100 in {statistics.median(pages):.1f} ms, all of them in pages of 1,000 in "
                  f"{wholes[0]:.0f} ms", flush=True)
            targets.expect("list_of_10000_ms", statistics.median(pages), "<", 50)
        finally:
            service.stop()


class Follower(threading.Thread):
    """Reads the events of a task's log, or of all (None), as they come; counts lines by their first character, which is nowhere else."""

    def __init__(self, service, job, task="worker:0"):
        super().__init__(daemon=True)
        self.lines, self.ended = 0, False
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(LIMIT)
        self.socket.connect(service.socket)
        self.socket.sendall(f"GET /v1/jobs/{job}/logs/stream{task and '?task=' + task or ''} HTTP/1.1\r\nHost: localhost\r\n"
                            "Accept: text/event-stream\r\n\r\n".encode())

    def run(self):
        tail = b""
        while not self.ended and (got := self.socket.recv(1 << 20)):
            self.lines += got.count(b"@")
            tail = (tail + got)[-4096:]
            self.ended = b"event: end" in tail
        self.socket.close()


def follow(service, folder, lines, followers):
    """Seconds that the task took."""
    report = folder / f"took-{followers}"
    program = folder / "writer.py"
    program.write_text(WRITER)
    job = service.submit([sys.executable, str(program), str(lines), "1e7", str(report)], cores=1)
    wait(lambda: service.job(job)["state"] == "running", "a task")
    threads = [Follower(service, job) for _ in range(followers)]
    for thread in threads:
        thread.start()
    wait(lambda: service.job(job)["state"] == "succeeded", "the end of a task")
    for thread in threads:
        thread.join(LIMIT)
        if not thread.ended or thread.lines != lines:
            fail(f"a follower has {thread.lines} lines of {lines}, end {thread.ended}")
    return float(report.read_text())


def measure_followers(arguments, targets):
    lines = 200_000 if arguments.quick else 1_000_000  # 20 MB, 100 MB
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        service = Service(folder / "home")
        try:
            alone = follow(service, folder, lines, 0)
            followed = follow(service, folder, lines, 64)
        finally:
            service.stop()
    cost = (followed / alone - 1) * 100
    targets.record("followers_cost_percent", [cost])
    print(f"followers: {lines * LINE / 1e6:.0f} MB at 10 MB/s, {alone:.2f} s alone, {followed:.2f} s with 64 followers, which "
          f"lost nothing: {cost:.2f}%", flush=True)
    targets.expect("followers_cost_percent", cost, "<", 2)
    targets.expect("followers_lost_lines", 0, "<=", 0)


def measure_kills(arguments, targets):
    kills, jobs = (10, 12) if arguments.quick else (100, 50)
    environment = dict(os.environ, COHORT_KILLS=str(kills), COHORT_KILL_JOBS=str(jobs), COHORT_KILL_SEED=str(arguments.seed))
    done = subprocess.run([sys.executable, ROOT / "tests/platform/service_kill_test.py"], env=environment, text=True,
                          capture_output=True, timeout=1800)
    if done.returncode != 0:
        print(done.stderr[-4000:])
    print(f"kills: {kills} of the service, {jobs} jobs, seed {arguments.seed}: "
          f"{'each ran exactly once' if done.returncode == 0 else 'failed'}", flush=True)
    targets.expect("kills_with_wrong_jobs", int(done.returncode != 0), "<=", 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer and smaller runs")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1000))
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"of {', '.join(SECTIONS)}; all unless given")
    arguments = parser.parse_args()
    sections = arguments.sections or list(SECTIONS)
    if unknown := set(sections) - set(SECTIONS):
        fail(f"no section {', '.join(sorted(unknown))}; there are: {', '.join(SECTIONS)}")
    targets = Targets("service")
    if "queue" in sections:
        measure_queue(arguments, targets)
    if {"submit", "idle"} & set(sections):
        measure_waiting(arguments, targets, sections)
    if "list" in sections:
        measure_list(arguments, targets)
    if "followers" in sections:
        measure_followers(arguments, targets)
    if "kills" in sections:
        measure_kills(arguments, targets)
    targets.finish()


if __name__ == "__main__":
    main()
