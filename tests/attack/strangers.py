"""What 10,000 strangers cost a job: its speed beside them, and the memory of whom they crowd.

usage: strangers.py [--count N] [--seconds S]

Strangers connect, say nothing, and connect again when they are dropped. Each line: where they are, the job's median
speed without and with them, the ratio, and by how much the attacked process grew. COHORT_BIN_DIR names the programs."""

import argparse
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


class Crowd:
    """Connections to one port, kept at a number by a thread."""

    def __init__(self, port, count):
        self.port, self.count, self.made = port, count, 0
        self.poller, self.held, self.over = select.epoll(), {}, False
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.over:
            if len(self.held) < self.count:
                for _ in range(min(200, self.count - len(self.held))):
                    try:
                        one = connect(self.port, 1)
                    except OSError:
                        break
                    self.held[one.fileno()] = one
                    self.poller.register(one.fileno(), select.EPOLLIN)
                    self.made += 1
            for number, _ in self.poller.poll(0.05, 1000):
                self.poller.unregister(number)
                self.held.pop(number).close()
            time.sleep(0.02)

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
        code = self.process.wait(120)
        if code != 0:
            raise RuntimeError(f"the job ended with {code}: {self.text.read_text()[-2000:]}")


def measure(job, speed_of, port, victim, seconds, count):
    """(speed without, speed with, growth of the victim, connections made)"""
    speed_of(2)
    before = speed_of(seconds)
    memory = memory_of(victim)
    crowd = Crowd(port, count)
    wait_for(lambda: crowd.made >= count)
    beside = speed_of(seconds)
    growth = memory_of(victim) - memory
    crowd.end()
    job.end()
    return before, beside, growth, crowd.made


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


def at_all_reduce(where, seconds, count):
    with tempfile.TemporaryDirectory() as folder:
        job = Job(folder, "-n", 2, "--horovod", "--", RANK, "apart", 2 * seconds + 20)
        wait_for(lambda: job.text.read_text().count("ready") == 2)
        worker = job.tasks()["worker/0"]
        environment = environment_of(worker)
        port = {"store": int(environment["COHORT_STORE"].rsplit(":", 1)[1]),
                "rendezvous": int(environment["HOROVOD_GLOO_RENDEZVOUS_PORT"])}.get(where) or listening_port(worker)  # fmt: skip
        victim = worker if where == "worker" else job.process.pid
        return measure(job, rates(job), port, victim, seconds, count)


def at_server(seconds, count):
    with tempfile.TemporaryDirectory() as folder:
        acks = pathlib.Path(folder) / "acks"
        acks.mkdir()
        job = Job(folder, "-n", 2, "--ps", 1, "--", SERVED, "--tcp", "--pause", 2, "--steps", 400 * (2 * seconds + 20) // 2,
                  "--acks", acks)  # fmt: skip
        wait_for(lambda: (acks / "worker-0").exists())
        server = job.tasks()["ps/0"]
        try:
            return measure(job, acknowledgements(acks), listening_port(server), server, seconds, count)
        finally:
            job.process.terminate()
            job.process.wait(30)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seconds", type=int, default=10)
    options = parser.parse_args()
    if allow_many_connections(options.count + 1000) < options.count + 100:
        raise SystemExit("strangers.py: the limit of open files is too low (ulimit -n)")
    print(f"{'at':12} {'alone':>9} {'beside':>9} {'ratio':>6} {'growth MB':>10} {'connections':>12}")
    for where in ("store", "worker", "server", "rendezvous"):
        before, beside, growth, made = (at_server(options.seconds, options.count) if where == "server" else
                                        at_all_reduce(where, options.seconds, options.count))  # fmt: skip
        print(f"{where:12} {before:9.1f} {beside:9.1f} {beside / before:6.3f} {growth / 1e6:10.1f} {made:12}", flush=True)


if __name__ == "__main__":
    main()
