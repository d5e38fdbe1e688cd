"""The figures of docs/failure-model.md: what strangers, forged handshakes, damaged inputs and kills do to a job.

usage: figures.py [--only strangers|handshakes|inputs|kills] [--count N] [--pairs N] [--seconds S] [--each N]

Prints a table for each part, as the document has it. Exits with 1 when anything came out otherwise than the document
promises: a forged handshake that was accepted, a program that crashed or hung, memory that grew past a limit, a killed
job with another result. Speeds are only printed: they mean something on a machine that has nothing else to do.
COHORT_BIN_DIR names the programs; what was not built (LibTorch, the fuzzers' compiler) is left out, and said so."""

import argparse
import collections
import hashlib
import hmac
import os
import pathlib
import random
import re
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time

from attack import BIN, COHORT, PYTHON, TESTS, allow_many_connections, connect, memory_of
from strangers import ManyConnections, Job, attacked_job, wait_for

PARTS = ("strangers", "handshakes", "inputs", "kills")
ROOT = pathlib.Path(__file__).parents[2]
MOST_GROWTH = 64e6  # bytes
ANSWER_TIME = 10  # seconds: a handshake may take 5
problems = []


def table(*heads):
    print("\n| " + " | ".join(heads) + " |\n|" + "---|" * len(heads), flush=True)


def row(*cells):
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def told(outcomes):
    return ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(outcomes.items()))


def expect(condition, text):
    if not condition:
        print(f"figures.py: not as promised: {text}", file=sys.stderr, flush=True)
        problems.append(text)


# --- Strangers -------------------------------------------------------------------------------------------------------

def strangers(options):
    table("at", "connections", "steps/s alone, beside", "median of the ratios", "memory of the attacked process")
    for where in ("store", "worker", "server", "rendezvous"):
        with attacked_job(where) as (_, speed_of, port, victim):
            speed_of(2)
            alone, beside, growth, made = [], [], 0, 0
            for pair in range(options.pairs):
                order = (True, False) if pair % 2 else (False, True)
                for crowded in order:
                    if not crowded:
                        alone.append(speed_of(options.seconds))
                        continue
                    before = memory_of(victim)
                    connections = ManyConnections(port, options.count)
                    try:
                        wait_for(lambda: connections.made >= options.count)
                        beside.append(speed_of(options.seconds))
                        growth = max(growth, memory_of(victim) - before)
                    finally:
                        connections.end()
                    made += connections.made
        ratio = statistics.median(b / a for a, b in zip(alone, beside))
        row(where, f"{made:,}", f"{statistics.median(alone):.1f}, {statistics.median(beside):.1f}", f"{ratio:.3f}",
            f"+ {growth / 1e6:.1f} MB")
        expect(growth < MOST_GROWTH, f"strangers at the {where}: {growth / 1e6:.0f} MB")


# --- Handshakes ------------------------------------------------------------------------------------------------------

class Forger:
    """The client's side of src/cohort/base/net/handshake.h, with mistakes on purpose."""

    HELLO, PROOF = 176, 32

    def __init__(self, protocol, secret):
        self.protocol, self.secret, self.recorded = protocol, secret, None

    def hello(self, mode=1, protocol=None):
        identity = b"worker/0"
        head = struct.pack("<8sHBB4s32sH", b"COHORT\r\n", 1, mode, 0, protocol or self.protocol, os.urandom(32),
                           len(identity))
        return head + identity.ljust(126, b"\0")

    def proof(self, key, hello, answer):
        return hmac.digest(key, b"cohort handshake 1: client" + hello + answer, hashlib.sha256)

    def attempt(self, port, kind):
        """"refused": the connection was closed upon; "accepted": it was not."""
        with connect(port, ANSWER_TIME) as one:
            try:
                if kind == "bytes of no protocol":
                    one.sendall(os.urandom(300))
                    return self.ending(one)
                hello = self.hello(mode=0 if kind == "no secret" else 1,
                                   protocol=b"XXXX" if kind == "another service of the job" else None)
                if kind == "a recorded handshake":
                    hello, proof = self.recorded or self.record(port)
                one.sendall(hello)
                answer = self.read(one, self.HELLO + self.PROOF)
                if len(answer) < self.HELLO + self.PROOF:
                    return "refused"
                if kind == "no secret":
                    proof = self.proof(bytes(32), hello, answer)
                elif kind == "another secret":
                    proof = self.proof(os.urandom(32), hello, answer)
                elif kind == "the server's own proof":
                    proof = answer[self.HELLO:]
                elif kind == "one bit of the proof":
                    proof = bytearray(self.proof(self.secret, hello, answer))
                    bit = random.randrange(256)
                    proof[bit // 8] ^= 1 << bit % 8
                elif kind != "a recorded handshake":
                    proof = self.proof(self.secret, hello, answer)
                one.sendall(bytes(proof))
                return self.ending(one, 1 if kind == "none: the right secret" else ANSWER_TIME)
            except (ConnectionResetError, BrokenPipeError):
                return "refused"

    def record(self, port):
        with connect(port, ANSWER_TIME) as one:
            hello = self.hello()
            one.sendall(hello)
            proof = self.proof(self.secret, hello, self.read(one, self.HELLO + self.PROOF))
            one.sendall(proof)
            self.recorded = hello, proof
        return self.recorded

    @staticmethod
    def read(one, count):
        data = b""
        while len(data) < count and (more := one.recv(count - len(data))):
            data += more
        return data

    @staticmethod
    def ending(one, seconds=ANSWER_TIME):
        one.settimeout(seconds)
        try:
            while one.recv(4096):
                pass
            return "refused"
        except socket.timeout:
            return "accepted"


FORGED = ("no secret", "another secret", "one bit of the proof", "the server's own proof", "a recorded handshake",
          "another service of the job", "bytes of no protocol")  # fmt: skip


def handshakes(options):
    table("forged", "at the store", "at a worker", "at a parameter server")
    outcomes = {kind: [] for kind in FORGED}
    for where, protocol in (("store", b"STOR"), ("worker", b"MSGR"), ("server", b"PSRV")):
        with tempfile.TemporaryDirectory() as folder:
            # The tasks' secret, which a stranger has not: some forgeries are all but right.
            secret = pathlib.Path(folder) / "secret"
            wrap = ["sh", "-c", f"umask 077; cat /proc/self/fd/$COHORT_SECRET_FD > {secret}; exec \"$@\"", "sh"]
            with attacked_job(where, wrap) as (_, _, port, _):
                forger = Forger(protocol, bytes.fromhex(secret.read_text()))
                if where == "store" and forger.attempt(port, "none: the right secret") != "accepted":
                    raise RuntimeError("the right secret was refused: the forgeries prove nothing")
                for kind in FORGED:
                    count = collections.Counter(forger.attempt(port, kind) for _ in range(options.each))
                    outcomes[kind].append(told(count))
                    expect(set(count) == {"refused"}, f"{kind} at the {where}: {told(count)}")
    for kind in FORGED:
        row(kind, *outcomes[kind])


# --- Inputs ----------------------------------------------------------------------------------------------------------

def damaged(data, numbers):
    """The same with a flipped bit, a cut end, a piece twice, or a piece of something else."""
    data, kind, at = bytearray(data), numbers.randrange(4), numbers.randrange(len(data))
    if kind == 0:
        data[at] ^= 1 << numbers.randrange(8)
    elif kind == 1:
        del data[at:]
    elif kind == 2:
        data[at:at] = data[at:at + 1 + numbers.randrange(64)]
    else:
        data[at:at + 8] = numbers.randbytes(8)
    return bytes(data)


def outcome_of(command, **options):
    try:
        code = subprocess.run(command, capture_output=True, timeout=20, **options).returncode
    except subprocess.TimeoutExpired:
        return "hung"
    return "crashed" if code < 0 or code >= 128 else "read" if code == 0 else "refused by name"


def damaged_files(what, path, command, options, numbers):
    """Reads a damaged copy of the file, time after time."""
    whole = path.read_bytes()
    count = collections.Counter()
    for _ in range(options.each * 5):
        path.write_bytes(damaged(whole, numbers))
        count[outcome_of(command)] += 1
    path.write_bytes(whole)
    row(what, f"{sum(count.values()):,}", told(count))
    expect(not count["crashed"] and not count["hung"], f"{what}: {told(count)}")


def inputs(options):
    numbers = random.Random(1)
    table("input", "damaged copies", "outcomes")
    with tempfile.TemporaryDirectory() as folder:
        job = Job(folder, "-n", 1, "--", "true")
        job.process.wait(60)
        damaged_files("a job's record (`cohort status`)", job.output / "job.json", [COHORT, "status", job.output],
                      options, numbers)
    program = TESTS / "elastic_program"
    with tempfile.TemporaryDirectory() as folder:
        if program.exists():
            job = Job(folder, "-q", "-n", "1:2", "--elastic", "--", program, "--steps", 40)
            job.process.wait(120)
            damaged_files("a ledger (`cohort ledger verify`)", job.output / "ledger",
                          [COHORT, "ledger", "verify", job.output], options, numbers)
        else:
            row("a ledger", 0, "left out: built without LibTorch")
    damaged_requests(options, numbers)
    for test, what in (("frame_fuzz_clean", "frames between hosts (libFuzzer)"), ("safetensors_fuzz", "tensor files (libFuzzer)")):
        done = subprocess.run(["ctest", "--test-dir", BIN.parent, "-V", "-R", f"^{test}_test$"], capture_output=True,
                              text=True, env=os.environ | {"COHORT_FUZZ_SECONDS": str(options.seconds)})  # fmt: skip
        runs = re.search(r"number_of_executed_units:\s+(\d+)", done.stdout)
        row(what, f"{int(runs[1]):,}" if runs else 0,
            "none found anything" if runs and done.returncode == 0 else "left out: no clang with libFuzzer"
            if "skipped: " in done.stdout else "FOUND SOMETHING")  # fmt: skip
        expect(runs or "skipped: " in done.stdout, f"{test} found something:\n{done.stdout[-2000:]}")


def damaged_requests(options, numbers):
    """From a process of the same user, whom the rendezvous lets in."""
    whole = b"PUT /global/0 HTTP/1.1\r\nHost: here\r\nContent-Length: 5\r\n\r\nvalue"
    count = collections.Counter()
    with attacked_job("rendezvous") as (_, speed_of, port, victim):
        before = memory_of(victim)
        for _ in range(options.each * 5):
            with connect(port, ANSWER_TIME) as one:
                try:
                    one.sendall(damaged(whole, numbers))
                    one.shutdown(socket.SHUT_WR)
                    answer = one.recv(4096)
                    count["answered with " + answer.split()[1].decode() if answer else "closed upon"] += 1
                except ConnectionResetError:
                    count["closed upon"] += 1
                except socket.timeout:
                    count["hung"] += 1
        expect(speed_of(2) > 0, "the job stands still after damaged requests")
        growth = memory_of(victim) - before
    row("requests to Horovod's rendezvous", f"{sum(count.values()):,}", f"{told(count)}; + {growth / 1e6:.1f} MB")
    expect(not count["hung"] and growth < MOST_GROWTH, f"rendezvous: {told(count)}")


# --- Kills -----------------------------------------------------------------------------------------------------------

def kills(options):
    table("killed", "how often", "outcome")
    ps = "tests/ps/fault_test.py FaultTest.test_killed_tasks_change_no_bit_"
    rows = [("workers of an elastic job, one at a time", "tests/elastic/kill_test.py KillTest.test_one_at_a_time", 2),
            ("its chief", "tests/elastic/kill_test.py KillTest.test_the_chief", 5),
            ("all but the least of its workers at once", "tests/elastic/kill_test.py KillTest.test_all_but_the_least_at_once", 3),
            ("servers and workers of a parameter-server job", ps + "of_a_synchronous_training", 1),
            ("the same over TCP", ps + "over_tcp", 4),
            ("the same with replicas", ps + "with_replicas", 1)]  # fmt: skip
    for what, words, share in rows:
        if "elastic" in words and not (BIN / "mnist").exists():
            row(what, 0, "left out: built without LibTorch")
            continue
        path, test = words.split()
        done = subprocess.run([PYTHON, ROOT / path, test], capture_output=True, text=True, timeout=1200,
                              env=os.environ | {"COHORT_KILLS": str(options.each * share), "COHORT_BIN_DIR": str(BIN)})
        text = done.stdout + done.stderr
        count = sum(map(int, re.findall(r"(\d+) killed", text))) or options.each
        row(what, count, "the bits of the undisturbed job" if done.returncode == 0 else "SOMETHING ELSE")
        expect(done.returncode == 0, f"{what}:\n{text[-3000:]}")
    left = collections.Counter(launcher_kill() for _ in range(options.each))
    row("the launcher, with its 4 tasks", options.each, told(left))
    expect(set(left) == {"left no process"}, f"killed launchers: {told(left)}")


def launcher_kill():
    with tempfile.TemporaryDirectory() as folder:
        job = Job(folder, "-n", 3, "--ps", 1, "--", "sleep", 600)
        wait_for(lambda: len(job.tasks()) == 4)
        tasks = job.tasks().values()
        time.sleep(random.uniform(0, 0.1))  # not always at the same instant of its life
        job.process.kill()
        job.process.wait()
        limit = time.monotonic() + 5
        while any(pathlib.Path(f"/proc/{pid}").exists() for pid in tasks):
            if time.monotonic() > limit:
                return "left processes"
            time.sleep(0.02)
        return "left no process"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", action="append", choices=PARTS)
    parser.add_argument("--count", type=int, default=10_000, help="strangers at a time")
    parser.add_argument("--pairs", type=int, default=5, help="of measurements without and with them")
    parser.add_argument("--seconds", type=int, default=10, help="of each, and of each fuzzer")
    parser.add_argument("--each", type=int, default=40, help="forgeries and kills of a kind; damaged copies: 5 times as many")
    options = parser.parse_args()
    if allow_many_connections(options.count + 1000) < options.count + 100:
        sys.exit("figures.py: the limit of open files is too low (ulimit -n)")
    for part in options.only or PARTS:
        globals()[part](options)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
