"""A worker of `mnist` is killed every few seconds for as long as asked; loss and throughput over time are recorded.

    python3 tests/elastic/soak.py [--seconds 600] [--every 3] [--folder build/soak]

Checks at the end: weights and losses are those of an undisturbed job, bit for bit; the ledger is exact; nothing is left
running; launcher and a worker that was never killed have grown neither in memory nor in open files.
Writes FOLDER/elastic.json and FOLDER/elastic.svg. Exit code 1 when a check fails."""

import argparse
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

from elastic_job import BIN, COHORT, MNIST, Job, find_weights
from soak_picture import draw

WORKERS = 4
SPARED = WORKERS - 1  # this worker is never killed: it must not grow
BATCH, SHARDS = 64, 8
GROWTH = 32 << 20  # bytes that a process may gain between a fifth of the time and the end
LIMIT = 3600  # seconds


def environment(marker):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("COHORT_")}
    return kept | {"OMP_NUM_THREADS": "1", "LAUNCHER_TEST": marker}


def words(steps):
    return [MNIST, "--batch_size", BATCH, "--virtual_shards", SHARDS, "--train_epochs", 1000, "--max_steps", steps,
            "--learning_rate", 0.01]


def resources(pid):
    """(bytes of memory, open files) of a process; None when it is gone."""
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        memory = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:")) * 1024
        return memory, len(os.listdir(f"/proc/{pid}/fd"))
    except (OSError, StopIteration):
        return None


def left_behind(marker):
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and f"LAUNCHER_TEST={marker}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def undisturbed(folder, steps):
    """(weights, losses by step, seconds) of a job in which nothing happens."""
    output = folder / f"calm{steps}"
    begin = time.monotonic()
    done = subprocess.run([COHORT, "run", "-q", "-n", "2", "--output", str(output), "--", *map(str, words(steps))],
                          capture_output=True, text=True, timeout=LIMIT, env=environment("calm"))
    if done.returncode != 0:
        sys.exit(f"soak.py: the undisturbed job failed\n{done.stderr}")
    return find_weights(done.stdout), losses(output, 0), time.monotonic() - begin


def steps_of(folder, seconds):
    """How many steps last so long or a little longer, with the kills. The start of a job is not counted."""
    few, more = 200, 1000
    start_and_few, start_and_more = undisturbed(folder, few)[2], undisturbed(folder, more)[2]
    rate = (more - few) / max(start_and_more - start_and_few, 0.1)
    return max(few, int(rate * seconds * 0.8))  # four workers that die on two cores are slower than two


def losses(output, worker):
    lines = (output / "logs" / f"worker-{worker}.jsonl").read_text().splitlines()
    return {row["step"]: row["loss"] for row in map(json.loads, lines) if row.get("event") == "step"}


def current_step(job):
    done = subprocess.run([COHORT, "status", str(job.output), "--json"], capture_output=True, text=True, timeout=60)
    try:
        members = json.loads(done.stdout)["elastic"]["members"]
        return max(member.get("step", 0) for member in members)
    except (ValueError, KeyError, TypeError):
        return None


def disturb(job, arguments, numbers):
    """Kills until the job ends. Returns samples over time: {seconds, step, members, spared, launcher}."""
    begin, samples, next_kill = time.monotonic(), [], arguments.every
    while job.runs():
        now = time.monotonic() - begin
        if now > 4 * arguments.seconds + 300:
            job.process.kill()
            sys.exit(f"soak.py: the job does not end\n{job.tell()}")
        members = job.living_members()
        if now >= next_kill:
            victims = sorted(set(members) - {SPARED})
            # Two keep the state, and the job its least number.
            if len(members) > 2 and victims:
                job.kill_pid(members[numbers.choice(victims)])
            next_kill += arguments.every
        step = current_step(job)
        if step is not None:
            samples.append({"seconds": now, "step": step, "members": len(members),
                            "spared": resources(members[SPARED]) if SPARED in members else None,
                            "launcher": resources(job.process.pid)})
        time.sleep(0.5)
    return samples


def growth(samples, who):
    known = [sample[who] for sample in samples if sample[who]]
    early, late = known[len(known) // 5], known[-1]
    return {"bytes": late[0] - early[0], "files": late[1] - early[1]}


def check(report, job, calm_weights, calm_losses, marker):
    problems = []
    if job.process.returncode != 0:
        problems.append(f"exit code {job.process.returncode}")
    if find_weights(job.stdout) != calm_weights:
        problems.append("the weights are not those of the undisturbed job")
    own = losses(job.output, SPARED)
    wrong = [step for step in own if calm_losses.get(step) != own[step]]
    if not own or wrong:
        problems.append(f"losses differ from those of the undisturbed job at the steps {wrong[:10]}")
    verified = subprocess.run([COHORT, "ledger", "verify", str(job.output)], capture_output=True, text=True, timeout=LIMIT)
    report["ledger"] = verified.stdout
    if verified.returncode != 0:
        problems.append(f"the ledger is not exact: {verified.stdout}{verified.stderr}")
    if left := left_behind(marker):
        problems.append(f"processes are left: {left}")
    for who, grown in report["growth"].items():
        if grown["bytes"] > GROWTH or grown["files"] > 8:
            problems.append(f"the {who} has grown by {grown['bytes']} bytes and {grown['files']} open files")
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--every", type=float, default=3, help="seconds from kill to kill")
    parser.add_argument("--folder", type=pathlib.Path, default=BIN.parent / "soak")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    arguments = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="cohort-soak-"))
    arguments.folder.mkdir(parents=True, exist_ok=True)
    steps = steps_of(folder, arguments.seconds)
    print(f"soak: seed {arguments.seed}, {steps} steps, a kill every {arguments.every:g} s", flush=True)

    begin = time.monotonic()
    job = Job(folder, "", ["-q", "-n", f"2:{WORKERS}", "--elastic", "--max-restarts", 100000], words(steps),
              environment(folder.name))
    samples = disturb(job, arguments, random.Random(arguments.seed))
    seconds = time.monotonic() - begin
    calm_weights, calm_losses, calm_seconds = undisturbed(folder, steps)

    resumed = job.events("resumed")[1:]
    report = {"seed": arguments.seed, "steps": steps, "seconds": seconds, "undisturbed_seconds": calm_seconds,
              "kills": job.killed, "views": job.view()[0],
              "stood_still_ms": [event["stood_still_ms"] for event in resumed],
              "steps_done_again": sum(event["redone"] for event in resumed),
              "growth": {who: growth(samples, who) for who in ("spared", "launcher")},
              "samples": samples, "losses": losses(job.output, SPARED)}
    problems = report["problems"] = check(report, job, calm_weights, calm_losses, folder.name)
    (arguments.folder / "elastic.json").write_text(json.dumps(report) + "\n")
    (arguments.folder / "elastic.svg").write_text(draw(report))
    stood = sorted(report["stood_still_ms"]) or [0]
    print(f"soak: {job.killed} kills in {seconds:.0f} s, {report['views']} views, stood still {stood[len(stood) // 2]:.0f} ms "
          f"(median), {stood[-1]:.0f} ms (worst); the undisturbed job took {calm_seconds:.0f} s\n{report['ledger'].strip()}\n"
          f"soak: {arguments.folder}/elastic.json and elastic.svg")
    if problems:
        sys.exit("soak.py: " + "; ".join(problems) + f"\n{job.tell()}")
    shutil.rmtree(folder)


main()
