"""What Python costs: training with cohort.torch beside the C++ Trainer and torch's DDP on gloo, single calls beside
the same calls in C++, TensorFlow's gradient exchange beside MultiWorkerMirroredStrategy's, the import, idling.

Two ranks of one thread each. Rounds of all contestants take turns, so that a slow minute hits all of them; a ratio is
taken inside its round, the median over the rounds counts. Verified: every all-reduce's sums; ranks end with the same
weights; losses agree with the C++ Trainer's.
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
LIMIT = 300  # seconds for one job
CASES = {"mlp": {"batch": 64, "warmup": 4, "steps": 20}, "resnet20": {"batch": 128, "warmup": 2, "steps": 6}}
LARGE, SMALL = 64 << 20, 1 << 10
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "COHORT_BIN_DIR": str(BIN)}


def python_of(folder, packages):
    """The Python of a virtual environment of this tree that has these packages, or None."""
    program = ROOT / folder / "bin" / "python3"
    if program.exists() and not subprocess.run([program, "-c", f"import {packages}"], capture_output=True).returncode:
        return str(program)
    return None


def run_job(*program):
    """What two ranks print."""
    with tempfile.TemporaryDirectory() as folder:
        command = [str(BIN / "cohort"), "run", "-q", "-n", "2", "--output", folder + "/job", "--", *map(str, program)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, env=ENVIRONMENT)
    if done.returncode != 0:
        sys.exit(f"python_bench: {' '.join(command)}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout


def measured(*program):
    """Every rank's measurement, in rank order."""
    lines = [json.loads(line) for line in re.findall(r"measured ({.*})", run_job(*program))]
    if len(lines) != 2:
        sys.exit(f"python_bench: {program}: {len(lines)} of 2 ranks printed what they measured")
    return sorted(lines, key=lambda line: line["rank"])


def total(lines):
    return sum(line["samples_per_second"] for line in lines)


def check_training(model, contestants):
    """No contestant is fast by doing something else."""
    wanted = statistics.mean(line["loss"] for line in contestants["trainer"])
    for name, lines in contestants.items():
        if name != "gloo" and len({line["weights"] for line in lines}) != 1:
            sys.exit(f"python_bench: {model}: the ranks of '{name}' ended with different weights")
        loss = statistics.mean(line["loss"] for line in lines)
        if abs(loss - wanted) > 0.01 * abs(wanted):
            sys.exit(f"python_bench: {model}: the loss of '{name}' is {loss}, the Trainer's {wanted}")


def train(targets, python, model, rounds):
    sizes = [CASES[model][key] for key in ("batch", "warmup", "steps")]
    worker = ROOT / "bench/python/train_worker.py"
    programs = {
        "trainer": [BIN / "train_bench_worker", model, "trainer", *sizes],
        **{mode: [python, worker, model, mode, *sizes] for mode in ("optimizer", "ddp", "shards")},
        "gloo": [python, ROOT / "bench/train/ddp_worker.py", model, *sizes],
    }
    results = []
    for i in range(rounds):
        results.append({name: measured(*program) for name, program in programs.items()})
        check_training(model, results[-1])
        print(
            f"{model} round {i + 1}: "
            + ", ".join(f"{name} {total(lines):.0f}" for name, lines in results[-1].items())
            + " samples/s",
            flush=True,
        )

    def ratio(one, other):
        values = [total(result[one]) / total(result[other]) for result in results]
        targets.record(f"{model}_{one}_of_{other}", values)
        return statistics.median(values)

    for name in programs:
        targets.record(f"{model}_{name}_samples_per_second", [total(result[name]) for result in results])
        targets.record(
            f"{model}_{name}_peak_kib", [max(line["peak_kib"] for line in result[name]) for result in results]
        )
    for mode in ("optimizer", "ddp", "shards"):
        of_trainer, of_gloo = ratio(mode, "trainer"), ratio(mode, "gloo")
        if mode != "shards":
            targets.expect(f"{model}_{mode}_of_trainer", of_trainer, ">=", 0.95)
            if model == "mlp":
                targets.expect(f"mlp_{mode}_times_gloo", of_gloo, ">=", 1.3)


def call_times(text):
    """Median microseconds of the slower rank, by bytes."""
    times = {}
    for size, median in re.findall(r"case f32 (\d+) own \d+ \S+ (\S+) \S+", text):
        times[int(size)] = max(times.get(int(size), 0), float(median))
    return times


def calls(targets, python, rounds):
    ratios, overheads, idle, waiting = [], [], [], []
    for i in range(rounds):
        theirs = call_times(run_job(BIN / "python_bench_worker", LARGE, SMALL))
        text = run_job(python, ROOT / "bench/python/all_reduce_worker.py", LARGE, SMALL)
        ours = call_times(text)
        ratios.append(theirs[LARGE] / ours[LARGE])
        overheads.append(ours[SMALL] - theirs[SMALL])
        for sleeping, in_barrier in re.findall(r"idle \d (\S+) (\S+)", text):
            idle.append(float(sleeping))
            waiting.append(float(in_barrier))
        print(
            f"all-reduce round {i + 1}: 64 MB {theirs[LARGE]:.0f} us in C++, {ours[LARGE]:.0f} in Python; "
            f"1 kB {theirs[SMALL]:.1f} and {ours[SMALL]:.1f}; idle {max(idle):.4f} of a core",
            flush=True,
        )
    for name, values in (
        ("allreduce_64mb_of_cpp", ratios),
        ("allreduce_1kb_above_cpp_us", overheads),
        ("idle_cpu", idle),
        ("waiting_cpu", waiting),
    ):
        targets.record(name, values)
    targets.expect("allreduce_64mb_of_cpp", statistics.median(ratios), ">=", 0.9)
    targets.expect("allreduce_1kb_above_cpp_us", statistics.median(overheads), "<", 15)
    targets.expect("idle_cpu", max(idle), "<", 0.005)
    targets.expect("waiting_cpu", max(waiting), "<", 0.01)


def imports(targets, python, rounds):
    code = "import time; begin = time.perf_counter(); import cohort; print(time.perf_counter() - begin)"
    times = [
        float(
            subprocess.run([python, "-c", code], capture_output=True, text=True, check=True, env=ENVIRONMENT).stdout
        )
        for _ in range(2 * rounds + 1)
    ]
    targets.record("import_s", times)
    targets.expect("import_s", statistics.median(times), "<", 0.1)
    print(f"import cohort: {statistics.median(times) * 1e3:.1f} ms", flush=True)


def tensorflow(targets, rounds, steps):
    python = python_of(".venv-frameworks", "tensorflow")
    if python is None:
        print(
            "python_bench: no TensorFlow in .venv-frameworks (`make test-frameworks` installs it): it is not measured"
        )
        return
    ratios = []
    for i in range(rounds):
        speeds = {}
        for mode in ("cohort", "mirrored"):
            lines = measured(python, ROOT / "bench/python/tensorflow_worker.py", mode, 3, steps)
            speeds[mode] = min(line["exchanges_per_second"] for line in lines)
        ratios.append(speeds["cohort"] / speeds["mirrored"])
        print(
            f"TensorFlow round {i + 1}: {speeds['cohort']:.1f} exchanges/s, "
            f"MultiWorkerMirroredStrategy {speeds['mirrored']:.1f}",
            flush=True,
        )
    targets.record("tensorflow_times_mirrored", ratios)
    targets.expect("tensorflow_times_mirrored", statistics.median(ratios), ">=", 3)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one round, the MLP alone")
    parser.add_argument(
        "--part", choices=["import", "calls", "train", "tensorflow"], action="append", help="default: all"
    )
    parser.add_argument("--model", choices=CASES, action="append", help="default: all")
    arguments = parser.parse_args()
    python = python_of(".venv", "torch.distributed, numpy")
    if python is None:
        sys.exit("python_bench: .venv has no torch and numpy; scripts/setup installs them")
    rounds = 1 if arguments.quick else arguments.rounds
    parts = arguments.part or ["import", "calls", "train", "tensorflow"]
    targets = Targets("python")
    if "import" in parts:
        imports(targets, python, rounds)
    if "calls" in parts:
        calls(targets, python, rounds)
    if "train" in parts:
        for model in arguments.model or (["mlp"] if arguments.quick else CASES):
            train(targets, python, model, rounds)
    if "tensorflow" in parts:
        tensorflow(targets, rounds, 10 if arguments.quick else 20)
    targets.finish()


main()
