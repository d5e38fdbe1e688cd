"""What elastic training costs: the time that a killed worker costs the others, the time that a newcomer with 80 MB of
parameters costs them, and what elasticity costs while nothing happens; and views of thousands of members, simulated.

Real processes on this machine, one computing thread each. Times are CLOCK_MONOTONIC's, written by the workers themselves
after each applied step. A recovery is measured from the SIGKILL to the first step that is applied in a view without the
victim. Beside it PyTorch's DistributedDataParallel, restarted by torchrun from a checkpoint of every tenth step: from the
SIGKILL to the first step that is applied by restarted workers, done again or not.
Verified: every job of Cohort ends with the very weights of one undisturbed process.
"""

import argparse
import json
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from targets import Targets

ROOT = pathlib.Path(__file__).resolve().parent.parent
BIN = ROOT / "build" / "bin"
os.environ.setdefault("COHORT_BIN_DIR", str(BIN))
sys.path.insert(0, str(ROOT / "tests" / "elastic"))
from elastic_job import COHORT, PROGRAM, Job, find_weights, read_steps  # noqa: E402

LIMIT = 180  # seconds for anything that is waited for
RUN_LIMIT = 1200  # seconds for a whole training
SECTIONS = ("recovery", "join", "cost", "simulated")
WORKERS = 4
# 784-WIDTH-WIDTH-10: 2.7 MB and 80 MB of parameters. `calm`: steps from a full view to the next kill.
SMALL = {"name": "small", "width": 512, "batch": 32, "steps": 4000, "calm": 20, "kills": 20, "peer_kills": 3}
LARGE = {"name": "large", "width": 4096, "batch": 32, "steps": 300, "calm": 6, "kills": 12, "peer_kills": 3}
COST = {"width": 1024, "batch": 128, "steps": 400, "warmup": 50}
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("COHORT_")}
ENVIRONMENT |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def fail(text):
    sys.exit(f"elastic_bench.py: {text}")


def program(case, steps, shards=8):
    return [PROGRAM, "--width", case["width"], "--batch", case["batch"], "--steps", steps, "--shards", shards,
            "--samples", case["batch"] * 400]


def wait(job, condition, what):
    limit = time.monotonic() + LIMIT
    while not (value := condition()):
        if not job.runs():
            return None
        if time.monotonic() > limit:
            fail(f"waited in vain for {what}\n{job.tell()}")
        time.sleep(0.005)
    return value


class Expected:
    """The weights of one undisturbed process, by command."""

    def __init__(self):
        self.weights = {}

    def check(self, job, words):
        try:
            code = job.process.wait(timeout=RUN_LIMIT)
        except subprocess.TimeoutExpired:
            job.process.kill()
            fail(f"a job hangs\n{job.tell()}")
        key = tuple(map(str, words))
        if key not in self.weights:
            done = subprocess.run(key, capture_output=True, text=True, timeout=RUN_LIMIT, env=ENVIRONMENT)
            self.weights[key] = find_weights(done.stdout)
        if code != 0 or len(self.weights[key]) != 1 or find_weights(job.stdout) != self.weights[key]:
            fail(f"exit code {code}, weights {find_weights(job.stdout)}, undisturbed {self.weights[key]}\n{job.tell()}")


# --- Recovery --------------------------------------------------------------------------------------------------------

def recovery(case, kills, expected, random_numbers):
    """(milliseconds, whether a step was done again) of each kill."""
    found = []
    while len(found) < kills:
        with tempfile.TemporaryDirectory() as folder:
            words = program(case, case["steps"])
            job = Job(pathlib.Path(folder), "", ["-q", "-n", f"2:{WORKERS}", "--elastic", "--max-restarts", 1000],
                      words, ENVIRONMENT)
            hits = []
            while len(found) + len(hits) < kills and (hit := kill_one(job, case["calm"], random_numbers)):
                hits.append(hit)
            expected.check(job, words)
            steps = read_steps(job.times)
        if not hits:
            fail("a job was over before a worker could be killed")
        for at, event, victim in hits:
            applied = next(when for step, when, _, _, pid in steps
                           if when > at and step >= event["step"] and pid != victim)
            found.append(((applied - at) / 1e6, event["redone"]))
    return found


def kill_one(job, calm, random_numbers):
    """Kills a random member of a full view, `calm` steps later; (nanoseconds, the event of the view that goes on, pid), or None when the
    job is over."""
    def full():
        return job.trains(WORKERS) and len(job.living_members()) == WORKERS
    if not wait(job, full, f"a view of {WORKERS} workers"):
        return None
    goal = job.step() + calm
    time.sleep(random_numbers.uniform(0, 0.1))  # not always at the same point of a step
    if not wait(job, lambda: job.step() >= goal, "steps"):
        return None
    view, victim = job.view()[0], random_numbers.choice(list(job.living_members().values()))
    at = time.monotonic_ns()
    if not job.kill_pid(victim):
        return None
    resumed = wait(job, lambda: job.events("resumed", view + 1), "the next view")
    return (at, resumed[0], victim) if resumed else None


def torch_python():
    """A Python with torch: this tree's, where there is one."""
    for candidate in (ROOT / ".venv" / "bin" / "python3", pathlib.Path(sys.executable)):
        if candidate.exists() and not subprocess.run([candidate, "-c", "import torch.distributed, numpy"],
                                                     capture_output=True).returncode:
            return str(candidate)
    return None


def torchrun_recovery(python, case, kills, random_numbers):
    """(milliseconds, steps lost) of each kill."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        times = pathlib.Path(folder) / "times"
        times.mkdir()
        command = [python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(WORKERS),
                   "--max-restarts", "1000", str(ROOT / "bench/elastic/ddp_worker.py"), str(case["width"]),
                   str(case["batch"]), "1000000", str(times), f"{folder}/checkpoint", "10"]
        with open(f"{folder}/log", "wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, env=ENVIRONMENT, start_new_session=True)
        try:
            dead = set()
            for _ in range(kills):
                def running():
                    steps = [step for step in read_steps(times) if step[4] not in dead]
                    pids = {step[4] for step in steps}
                    enough = len(pids) == WORKERS and steps[-1][0] - steps[0][0] > 25
                    return (pids, steps) if enough else None
                limit = time.monotonic() + LIMIT
                while not (now := running()):
                    if process.poll() is not None or time.monotonic() > limit:
                        fail(f"torchrun does not train\n{pathlib.Path(folder, 'log').read_text()[-3000:]}")
                    time.sleep(0.02)
                pids, steps = now
                at = time.monotonic_ns()
                os.kill(random_numbers.choice(sorted(pids)), signal.SIGKILL)
                dead |= pids  # torchrun starts all of them again
                def restarted():
                    return [step for step in read_steps(times) if step[4] not in dead]
                while not (again := restarted()):
                    if process.poll() is not None or time.monotonic() > limit:
                        fail(f"torchrun does not come back\n{pathlib.Path(folder, 'log').read_text()[-3000:]}")
                    time.sleep(0.02)
                last = max(step for step, _, _, _, pid in read_steps(times) if pid in pids)
                found.append(((again[0][1] - at) / 1e6, last + 1 - again[0][0]))
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    return found


def measure_recovery(arguments, targets, expected):
    python = torch_python()
    if python is None:
        print("no Python with torch and numpy: torchrun is not measured")
    numbers = random.Random(arguments.seed)
    for case in (SMALL, LARGE):
        quick = arguments.quick
        found = recovery(dict(case, steps=case["steps"] // 4) if quick else case, 3 if quick else case["kills"], expected,
                         numbers)
        times = [milliseconds for milliseconds, _ in found]
        targets.record(f"recovery_{case['name']}_ms", times)
        redone = sum(redone for _, redone in found)
        print(f"recovery, {case['name']} model: kill to next step median {statistics.median(times):.0f} ms, worst "
              f"{max(times):.0f} ms of {len(times)} kills; {redone} times a step was done again", flush=True)
        targets.expect(f"recovery_{case['name']}_median_ms", statistics.median(times), "<", 300)
        targets.expect(f"recovery_{case['name']}_worst_ms", max(times), "<", 1000)
        if python:
            theirs = torchrun_recovery(python, case, 1 if quick else case["peer_kills"], numbers)
            median = statistics.median(milliseconds for milliseconds, _ in theirs)
            targets.record(f"recovery_{case['name']}_torchrun_ms", [milliseconds for milliseconds, _ in theirs])
            targets.record(f"recovery_{case['name']}_torchrun_lost_steps", [lost for _, lost in theirs])
            targets.record(f"recovery_{case['name']}_times_torchrun", [median / statistics.median(times)])
            print(f"recovery, {case['name']} model: torchrun with DDP median {median:.0f} ms of {len(theirs)} kills, steps "
                  f"lost {[lost for _, lost in theirs]}; {median / statistics.median(times):.0f} times as long", flush=True)


# --- A newcomer ------------------------------------------------------------------------------------------------------

def scale(job, workers):
    done = subprocess.run([COHORT, "scale", str(job.output), str(workers), "--no-wait"], capture_output=True, text=True,
                          timeout=LIMIT, env=ENVIRONMENT)
    if done.returncode != 0:
        fail(f"cohort scale: {done.stderr}")


def lost_steps(steps, base, first, last):
    """By how much the steps [first, last] took longer than `base`, in units of it. `steps`: {step: nanoseconds}."""
    return sum(max(0, steps[step] - steps[step - 1] - base) for step in range(first, last + 1)
               if step in steps and step - 1 in steps) / base


def measure_join(arguments, targets, expected):
    """A worker trains alone; a second one comes, and goes again."""
    entering, starting = [], []
    rounds = 2 if arguments.quick else 8
    steps = 60 + 60 * rounds
    words = program(LARGE, steps)
    with tempfile.TemporaryDirectory() as folder:
        job = Job(pathlib.Path(folder), "", ["-q", "-n", "1:2", "--elastic"], words, ENVIRONMENT)
        def steps_more(count):
            goal = job.step() + count
            return wait(job, lambda: job.step() >= goal, "steps")
        wait(job, lambda: job.trains(2), "two workers")
        joins = []
        for _ in range(rounds):
            scale(job, 1)
            if not wait(job, lambda: job.trains(1), "one worker") or not steps_more(12):
                break
            begin = job.step()
            scale(job, 2)
            if not wait(job, lambda: job.trains(2), "two workers") or not steps_more(6):
                break
            joins.append(begin)
        expected.check(job, words)
        times = read_steps(job.times)
    for begin in joins:
        pids = {pid: min(step for step, _, _, _, other in times if other == pid) for _, _, _, _, pid in times}
        newcomer = min((pid for pid in pids if pids[pid] > begin), key=pids.get)
        member = next(pid for step, _, _, _, pid in times if step == begin)
        own = {step: when for step, when, _, _, pid in times if pid == member}
        base = statistics.median(own[step] - own[step - 1] for step in range(begin - 9, begin + 1))
        first = pids[newcomer]
        entering.append(lost_steps(own, base, first - 1, first + 1))
        starting.append(lost_steps(own, base, begin + 1, first - 2))
    if not entering:
        fail("no worker joined")
    targets.record("join_lost_steps", entering)
    targets.record("join_lost_steps_while_the_process_starts", starting)
    print(f"join, 80 MB: the other worker loses {statistics.median(entering):.2f} steps' time (worst "
          f"{max(entering):.2f} of {len(entering)}); before that, while the newcomer's process starts, "
          f"{statistics.median(starting):.2f}", flush=True)
    targets.expect("join_lost_steps", statistics.median(entering), "<", 1)


# --- While nothing happens -------------------------------------------------------------------------------------------

def rate(options, expected):
    """Steps a second."""
    words = program(COST, COST["steps"])
    with tempfile.TemporaryDirectory() as folder:
        job = Job(pathlib.Path(folder), "", ["-q", *options], words, ENVIRONMENT)
        expected.check(job, words)
        own = [when for step, when, _, worker, _ in read_steps(job.times) if worker == 0 and step > COST["warmup"]]
    return (len(own) - 1) / (own[-1] - own[0]) * 1e9


def measure_cost(arguments, targets, expected):
    ratios, plain, elastic = [], [], []
    for pair in range(2 if arguments.quick else arguments.pairs):
        def measure(rates, *options):
            rates.append(rate(["-n", *options], expected))
        measures = [lambda: measure(plain, "2"), lambda: measure(elastic, "1:2", "--elastic")]
        for one in measures if pair % 2 == 0 else reversed(measures):
            one()
        ratios.append(elastic[-1] / plain[-1])
    targets.record("steps_per_second_plain", plain)
    targets.record("steps_per_second_elastic", elastic)
    targets.record("elastic_of_plain", ratios)
    quarter = statistics.quantiles(ratios, n=4)
    print(f"cost: elastic {statistics.median(elastic):.1f}, plain {statistics.median(plain):.1f} steps/s; ratio of {len(ratios)} "
          f"pairs: median {statistics.median(ratios):.4f}, half of them within {quarter[0]:.4f} and {quarter[2]:.4f}", flush=True)
    targets.expect("elastic_throughput_loss", 1 - statistics.median(ratios), "<", 0.01)


# --- Thousands of members --------------------------------------------------------------------------------------------

def measure_simulated(arguments, targets, expected):
    """Its figures and targets become ours."""
    command = [str(BIN / "elastic_simulated")] + (["--quick"] if arguments.quick else [])
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=600)
    print("".join(line for line in done.stdout.splitlines(True) if not line.startswith("target ")), end="", flush=True)
    if done.returncode != 0:
        fail(f"{' '.join(command)}: exit code {done.returncode}")
    report = json.loads((ROOT / "build" / "bench" / "elastic_simulated.json").read_text())
    targets.figures |= report["figures"]
    targets.targets += report["targets"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small: does it work at all?")
    parser.add_argument("--only", action="append", choices=SECTIONS, help="default: all")
    parser.add_argument("--pairs", type=int, default=20, help="of runs with and without elasticity")
    parser.add_argument("--seed", type=int, default=1, help="of who is killed, and when")
    arguments = parser.parse_args()
    targets, expected = Targets("elastic"), Expected()
    if not pathlib.Path(PROGRAM).exists():
        print("elastic_bench.py: built without LibTorch or tests: only the simulation runs")
        arguments.only = ["simulated"]
    measures = {"recovery": measure_recovery, "join": measure_join, "cost": measure_cost, "simulated": measure_simulated}
    for name in arguments.only or SECTIONS:
        measures[name](arguments, targets, expected)
    targets.finish()


main()
