"""What 10,000 strangers cost a job: its speed beside them, and the memory of the
processes that they connect to.

usage: strangers.py [--count N] [--seconds S]

Strangers connect and say nothing; of those that are dropped, 200 a second connect again. Each line: where they are, the
job's median speed without and with them, the ratio, by how much the attacked process grew, the cores that it used more
than before, and its processor time a step as a multiple of that before. Speeds mean something on a machine that has
nothing else to do; the processor time of a worker or a server does on any. COHORT_BIN_DIR names the programs."""

import argparse
import contextlib
import os
import pathlib
import select
import statistics
import subprocess
import tempfile
import threading
import time

from attack import COHORT, TESTS, allow_many_connections, connect, environment_of, memory_of

RANK, SERVED = str(TESTS / "collective_rank"), str(TESTS / "ps_program")


AGAIN = 200


class ManyConnections:
    """Connections to one port, kept at a number by a thread."""

    def __init__(self, port, count):
        self.port, self.count, self.made = port, count, 0
        self.poller, self.held, self.over = select.epoll(), {}, False
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.over:
            if len(self.held) < self.count:
                # All of them at first, then AGAIN a second.
                for _ in range(200 if self.made < self.count else AGAIN // 20):
                    try:
                        one = connect(self.port, 1)
                    except OSError:
                        break
                    self.held[one.fileno()] = one
                    self.poller.register(one.fileno(), select.EPOLLIN)
                    self.made += 1
            for number, _ in self.poller.poll(0, 1000):
                self.poller.unregister(number)
                self.held.pop(number).close()
            if self.made >= self.count:
                time.sleep(0.05)

    def end(self):
        self.over = True
        self.thread.join()
        for one in self.held.values():
            one.close()


def listening_port(pid):
    """The first TCP port that the process listens on."""
    inodes = set()
    for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            inodes.add(os.readlink(entry).removeprefix("socket:[").rstrip("]"))
        except OSError:
            pass
    for line in pathlib.Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
        words = line.split()
        if words[3] == "0A" and words[9] in inodes:
            return int(words[1].split(":")[1], 16)
    raise RuntimeError(f"process {pid} listens nowhere")


def wait_for(condition):
    limit = time.monotonic() + 60
    while not (value := condition()):
        if time.monotonic() > limit:
            raise RuntimeError("waited in vain")
        time.sleep(0.05)
    return value


class Job:
    def __init__(self, folder, *words):
        self.output = pathlib.Path(folder) / "out"
        self.text = pathlib.Path(folder) / "text"
        with open(self.text, "wb") as text:
            self.process = subprocess.Popen([COHORT, "run", "--output", str(self.output), *map(str, words)],
                                            stdout=text, stderr=subprocess.STDOUT)  # fmt: skip

    def tasks(self):
        """Process numbers by task, of all that the launcher has started."""
        found = {}
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        for pid in children:
            try:
                environment = environment_of(pid)
            except OSError:
                continue
            if "COHORT_TASK_TYPE" in environment and environment.get("COHORT_OUTPUT", "").endswith("out"):
                found[f"{environment['COHORT_TASK_TYPE']}/{environment['COHORT_TASK_INDEX']}"] = int(pid)
        return found

    def end(self):
        """Stops a job that runs on."""
        if self.process.poll() is not None:
            raise RuntimeError(f"the job ended: {self.text.read_text()[-2000:]}")
        self.process.terminate()
        self.process.wait(60)


def cpu_of(pid):
    """Seconds of processor time."""
    words = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def measure(speed_of, port, victim, seconds, count):
    """(speed without, speed with, growth of the victim, cores that it used without, with, connections made)"""
    speed_of(2)
    cpu, begin = cpu_of(victim), time.monotonic()
    before = speed_of(seconds)
    alone = (cpu_of(victim) - cpu) / (time.monotonic() - begin)
    memory = memory_of(victim)
    connections = ManyConnections(port, count)
    try:
        wait_for(lambda: connections.made >= count)
        cpu, begin = cpu_of(victim), time.monotonic()
        beside = speed_of(seconds)
        crowded = (cpu_of(victim) - cpu) / (time.monotonic() - begin)
        growth = memory_of(victim) - memory
    finally:
        connections.end()
    return before, beside, growth, alone, crowded, connections.made


def rates(job):
    """Median of the rates that rank 0 prints within so many seconds."""
    def speed_of(seconds):
        start = len(job.text.read_text())
        time.sleep(seconds)
        lines = job.text.read_text()[start:].splitlines()
        return statistics.median(float(line.split("rate ")[1]) for line in lines if "worker/0" in line and "rate " in line)
    return speed_of


def acknowledgements(folder):
    """Steps of worker 0 a second."""
    path = pathlib.Path(folder) / "worker-0"

    def speed_of(seconds):
        begin, count = time.monotonic(), path.read_text().count("\n")
        time.sleep(seconds)
        return (path.read_text().count("\n") - count) / (time.monotonic() - begin)
    return speed_of


@contextlib.contextmanager
def attacked_job(where, wrap=()):
    """A job that trains: (job, its speed, the port of `where`, the process behind it). `wrap`: words before the program."""
    with tempfile.TemporaryDirectory() as folder:
        if where == "server":
            acks = pathlib.Path(folder) / "acks"
            acks.mkdir()
            job = Job(folder, "-n", 2, "--ps", 1, "--", *wrap, SERVED, "--tcp", "--pause", 2, "--steps", 10_000_000,
                      "--acks", acks)  # fmt: skip
            wait_for(lambda: (acks / "worker-0").exists())
            victim = job.tasks()["ps/0"]
            speed_of, port = acknowledgements(acks), listening_port(victim)
        else:
            job = Job(folder, "-n", 2, "--horovod", "--", *wrap, RANK, "apart", 3600)
            wait_for(lambda: job.text.read_text().count("ready") == 2)
            worker = job.tasks()["worker/0"]
            environment = environment_of(worker)
            port = {"store": int(environment["COHORT_STORE"].rsplit(":", 1)[1]),
                    "rendezvous": int(environment["HOROVOD_GLOO_RENDEZVOUS_PORT"])}.get(where) or listening_port(worker)  # fmt: skip
            speed_of, victim = rates(job), worker if where == "worker" else job.process.pid
        try:
            yield job, speed_of, port, victim
        finally:
            job.end()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seconds", type=int, default=10)
    options = parser.parse_args()
    if allow_many_connections(options.count + 1000) < options.count + 100:
        raise SystemExit("strangers.py: the limit of open files is too low (ulimit -n)")
    print(f"{'at':12} {'alone':>9} {'beside':>9} {'ratio':>6} {'growth MB':>10} {'cores':>6} {'cost':>5} {'connections':>12}")
    for where in ("store", "worker", "server", "rendezvous"):
        with attacked_job(where) as (_, speed_of, port, victim):
            figures = measure(speed_of, port, victim, options.seconds, options.count)
        before, beside, growth, alone, crowded, made = figures
        cost = f"{crowded / beside / (alone / before):5.2f}" if where in ("worker", "server") else "    -"
        print(f"{where:12} {before:9.1f} {beside:9.1f} {beside / before:6.3f} {growth / 1e6:10.1f} {crowded - alone:6.2f} {cost} "
              f"{made:12}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
