"""What parameter servers cost: build/bin/ps_bench (steps, latency, durability, many workers,
growth), then training of the 20 M-parameter MLP with Cohort's parameter servers, asynchronous and
synchronous, beside TensorFlow's ParameterServerStrategy, Cohort's own all-reduce, and workers that
do not talk at all.

One computing thread a process on both sides, the same weights to begin with, the same data, plain
SGD. Contestants take turns; a ratio is taken inside its round, the median over the rounds counts.
Verified: the loss falls, the servers have applied as many updates as are counted as steps, and
synchronous servers end with the very weights of all-reduce.
TensorFlow runs from .venv-frameworks (tests/frameworks/install makes it), or from the environment
that COHORT_FRAMEWORKS names.
"""

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

from targets import Targets

ROOT = pathlib.Path(__file__).resolve().parent.parent
BIN = ROOT / "build" / "bin"
WORKER = BIN / "train_bench_worker"
SECTIONS = ("steps", "latency", "durability", "many_workers", "growth")
LIMIT = 600  # seconds for one job
RATE = "0.05"
MODEL_BYTES = 4 * (784 * 4096 + 4096 + 4096 * 4096 + 4096 + 4096 * 10 + 10)
WARMUP = 4
STEPS = {64: 20, 8: 40}  # by batch size a worker
LAYOUTS = [(workers, servers) for workers in (1, 2) for servers in (1, 2)]
ENVIRONMENT = dict(os.environ, OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")


def measure_servers(arguments, targets):
    """Runs ps_bench, whose figures and targets become ours."""
    sections = [name for name in SECTIONS if name in arguments.only]
    if not sections:
        return
    command = [str(BIN / "ps_bench"), "--rounds", str(arguments.rounds)]
    command += ["--quick"] if arguments.quick else []
    for name in sections:
        command += ["--only", name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            if not line.startswith("target "):
                print(line, end="", flush=True)
    if process.returncode != 0:
        sys.exit(f"ps_bench.py: {' '.join(command)}: exit code {process.returncode}")
    report = json.loads((ROOT / "build" / "bench" / "ps_servers.json").read_text())
    targets.figures |= report["figures"]
    targets.targets += report["targets"]


def frameworks():
    """The Python that has TensorFlow; None where it cannot be installed."""
    folder = os.environ.get("COHORT_FRAMEWORKS")
    if folder is None:
        folder = ROOT / ".venv-frameworks"
        if subprocess.run([ROOT / "tests/frameworks/install"]).returncode != 0:
            return None
    return str(pathlib.Path(folder) / "bin" / "python")


def run_job(options, program):
    """What the tasks of a job measured, and the job's folder's statistics of its servers."""
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder) / "job"
        command = [str(BIN / "cohort"), "run", "-q", *options, "--output", str(output), "--",
                   *map(str, program)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT,
                              env=ENVIRONMENT)
        measured = [json.loads(line) for line in re.findall(r"measured ({.*})", done.stdout)]
        if done.returncode != 0 or not measured:
            sys.exit(f"ps_bench.py: {' '.join(command)}: exit code {done.returncode}\n"
                     f"{done.stdout[-2000:]}{done.stderr[-2000:]}")
        stats = output / "ps-stats.json"
        return measured, json.loads(stats.read_text()) if stats.exists() else None


def check_loss(name, measured):
    for line in measured:
        if not line["loss"] < 0.99 * line["first_loss"]:
            sys.exit(f"ps_bench.py: {name}: the loss went from {line['first_loss']} to {line['loss']}")


def run_tensorflow(python, workers, servers, batch, steps):
    [measured], _ = run_job(["-n", str(workers), "--ps", str(servers), "--coordinator"],
                            [python, ROOT / "bench/train/tf_ps.py", batch, WARMUP, steps, RATE])
    check_loss("TensorFlow", [measured])
    if measured["updates"] != measured["wanted_updates"]:
        sys.exit(f"ps_bench.py: TensorFlow made {measured['updates']} updates, not "
                 f"{measured['wanted_updates']}")
    return measured["samples_per_second"]


def run_cohort(workers, servers, batch, steps, mode, *flags):
    """Samples per second, the workers' fingerprints of the weights, the servers' statistics."""
    options = ["-n", str(workers)] + (["--ps", str(servers)] if servers else [])
    measured, stats = run_job(options, [WORKER, "mlp", mode, batch, WARMUP, steps, RATE, "0", *flags])
    if len(measured) != workers:
        sys.exit(f"ps_bench.py: {len(measured)} of {workers} workers of Cohort spoke")
    check_loss(f"Cohort, {mode} {' '.join(flags)}", measured)
    rate = workers * min(line["samples_per_second"] for line in measured)
    return rate, {line["weights"] for line in measured}, stats


def check_updates(stats, workers, steps, sync):
    """The servers have taken, and used, what the workers say they pushed: all of it, once."""
    total = {key: sum(server[key] for server in stats["servers"])
             for key in ("pushes", "applied", "updates", "bytes_in")}
    models = total["bytes_in"] / MODEL_BYTES  # blocks have a little padding
    if stats["dropped"] or total["applied"] != total["pushes"] or \
            total["applied"] != total["updates"] * (workers if sync else 1) or \
            round(models) != workers * steps:
        sys.exit(f"ps_bench.py: {workers} workers made {steps} steps, the servers count {total}")


def contestants(python, workers, servers, batch, steps):
    """By name, functions that return samples per second. In a round they are called in order."""
    weights = {}

    def cohort(name, mode, *flags):
        has_servers = mode == "trainer" and name != "all_reduce"
        rate, weights[name], stats = run_cohort(workers, servers if has_servers else 0, batch, steps,
                                                mode, *flags)
        if has_servers:
            check_updates(stats, workers, WARMUP + steps, name == "sync")
        if name == "all_reduce" and weights[name] != weights["sync"]:
            sys.exit("ps_bench.py: all-reduce and synchronous servers end with different weights")
        return rate

    strategy = ["--distribution_strategy", "parameter_server"]
    runs = {"async": lambda: cohort("async", "trainer", *strategy, "--sync_replicas=false"),
            "sync": lambda: cohort("sync", "trainer", *strategy, "--sync_replicas=true"),
            "all_reduce": lambda: cohort("all_reduce", "trainer"),
            "silent": lambda: cohort("silent", "silent")}
    if python:
        runs["tensorflow"] = lambda: run_tensorflow(python, workers, servers, batch, steps)
    return runs


def measure_training(arguments, targets):
    python = frameworks()
    if python is None:
        print("ps_bench.py: no TensorFlow: its parameter servers are not measured")
    print("\ntraining MLP 784-4096-4096-10, samples/s of all workers together")
    for batch, steps in STEPS.items():
        for workers, servers in LAYOUTS[-1:] if arguments.quick else LAYOUTS:
            runs = contestants(python, workers, servers, batch, 4 if arguments.quick else steps)
            rounds = [{name: run() for name, run in runs.items()} for _ in range(arguments.rounds)]
            name = f"{workers}_workers_{servers}_servers_batch_{batch}"
            report(name, rounds, targets)


def report(name, rounds, targets):
    def median_ratio(one, other):
        values = [measured[one] / measured[other] for measured in rounds]
        targets.record(f"{name}_{one}_of_{other}", values)
        return statistics.median(values)

    for contestant in rounds[0]:
        targets.record(f"{name}_{contestant}_samples_per_second",
                       [measured[contestant] for measured in rounds])
    shares = {contestant: median_ratio(contestant, "silent")
              for contestant in rounds[0] if contestant != "silent"}
    print(f"{name}: " + ", ".join(
        f"{contestant} {statistics.median(measured[contestant] for measured in rounds):.0f}"
        + (f" ({shares[contestant]:.2f} of silent)" if contestant in shares else "")
        for contestant in rounds[0]), flush=True)
    median_ratio("sync", "all_reduce")
    if "tensorflow" in rounds[0]:
        median_ratio("sync", "tensorflow")
        targets.expect(f"ps_{name}_times_tensorflow", median_ratio("async", "tensorflow"), ">=", 3)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="small: does it work at all?")
    parser.add_argument("--only", action="append", choices=(*SECTIONS, "training"),
                        help="default: all")
    arguments = parser.parse_args()
    arguments.only = arguments.only or [*SECTIONS, "training"]
    targets = Targets("ps")
    measure_servers(arguments, targets)
    if "training" in arguments.only:
        if WORKER.exists():
            measure_training(arguments, targets)
        else:
            print("ps_bench.py: built without LibTorch: training is not measured")
    targets.finish()


main()
