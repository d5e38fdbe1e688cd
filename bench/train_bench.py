"""How fast two workers train together: Cohort, two that do not talk at all, and Python's
DistributedDataParallel on gloo with the same LibTorch.

One thread a worker, synthetic data, the same weights to begin with. Rounds of all contestants take
turns, so that a slow minute hits all of them; a ratio is taken inside its round, the median over the
rounds counts. Verified: Cohort's workers end with the same weights; its loss agrees with DDP's.
"""

import argparse
import pathlib
import statistics
import subprocess
import sys

from jobs import BIN, ROOT, run_job
from targets import Targets

WORKER = str(BIN / "train_bench_worker")
ONE_THREAD = ["--threads", "1"]  # as a Trainer and DDP's side have, on machines with more cores too
CASES = {"resnet20": {"batch": 128, "warmup": 2, "steps": 6},
         "mlp": {"batch": 64, "warmup": 4, "steps": 20},
         "gpt": {"batch": 4, "warmup": 2, "steps": 12}}  # runs of 128 tokens
TARGETS = {"resnet20": {"of_not_talking": 0.97}, "mlp": {"of_not_talking": 0.90, "times_ddp": 1.2},
           "gpt": {"of_not_talking": 0.95, "times_ddp": 1.2}}
SHARDED = ("mlp", "gpt")
SHARDS = {"optimizer": 0.97, "parameters": 0.8}  # --shard: least speed of that without it


def python():
    """The Python whose torch the C++ side was built with, where it is this tree's."""
    for candidate in (ROOT / ".venv" / "bin" / "python3", pathlib.Path(sys.executable)):
        if candidate.exists() and not subprocess.run(
                [candidate, "-c", "import torch.distributed, numpy"], capture_output=True).returncode:
            return str(candidate)
    return None


def total(measured):
    return sum(line["samples_per_second"] for line in measured)


def check(model, contestants):
    """No contestant is fast by doing something else."""
    for name in ("loop", "trainer"):
        weights = {line["weights"] for line in contestants[name]}
        if len(weights) != 1:
            sys.exit(f"train_bench: {model}: the workers of '{name}' ended with different weights")
    for name in SHARDS:
        if name in contestants and {line["weights"] for line in contestants[name]} != {
                line["weights"] for line in contestants["trainer"]}:
            sys.exit(f"train_bench: {model}: other weights with --shard {name}")
    if "ddp" in contestants:
        ours = statistics.mean(line["loss"] for line in contestants["loop"])
        theirs = statistics.mean(line["loss"] for line in contestants["ddp"])
        if abs(ours - theirs) > 0.01 * abs(theirs):
            sys.exit(f"train_bench: {model}: Cohort's loss is {ours}, DDP's {theirs}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--model", choices=CASES, action="append", help="default: all")
    arguments = parser.parse_args()
    interpreter = python()
    if interpreter is None:
        print("train_bench: no Python with torch and numpy: DDP is not measured")
    targets = Targets("train")
    for model in arguments.model or CASES:
        case = CASES[model]
        sizes = [str(case[key]) for key in ("batch", "warmup", "steps")]
        contestants = {mode: (lambda n, mode=mode: run_job(n, [WORKER, model, mode, *sizes, *ONE_THREAD]))
                       for mode in ("silent", "loop", "trainer")}
        for shard in SHARDS if model in SHARDED else ():
            contestants[shard] = lambda n, shard=shard: run_job(
                n, [WORKER, model, "trainer", *sizes, *ONE_THREAD, "--shard", shard])
        if interpreter:
            contestants["ddp"] = lambda n: run_job(
                n, [interpreter, str(ROOT / "bench/train/ddp_worker.py"), model, *sizes])
        rounds = []
        for i in range(arguments.rounds):
            measured = {name: run(2) for name, run in contestants.items()}
            check(model, measured)
            alone = {mode: run_job(1, [WORKER, model, mode, *sizes, *ONE_THREAD])
                     for mode in ("silent", "trainer")}
            rounds.append((measured, alone))
            print(f"{model} round {i + 1}: " + ", ".join(
                f"{name} {total(lines):.0f}" for name, lines in measured.items()) + " samples/s; alone: "
                + ", ".join(f"{name} {total(lines):.0f}" for name, lines in alone.items()), flush=True)

        def ratio(one, other):
            values = [total(measured[one]) / total(measured[other]) for measured, _ in rounds]
            targets.record(f"{model}_{one}_of_{other}", values)
            return statistics.median(values)

        for name in contestants:
            targets.record(f"{model}_{name}_samples_per_second", [total(m[name]) for m, _ in rounds])
        ratio("loop", "silent")
        for shard, least in SHARDS.items() if model in SHARDED else ():
            targets.expect(f"{model}_shard_{shard}_of_trainer", ratio(shard, "trainer"), ">=", least)
            targets.record(f"{model}_job_memory_kib_shard_{shard}",
                           [sum(line["share_kib"] for line in m[shard]) for m, _ in rounds])
        targets.expect(f"{model}_of_not_talking", ratio("trainer", "silent"), ">=",
                       TARGETS[model]["of_not_talking"])
        overhead = [total(alone["silent"]) / total(alone["trainer"]) - 1 for _, alone in rounds]
        targets.record(f"{model}_trainer_overhead", overhead)
        targets.expect(f"{model}_trainer_overhead", statistics.median(overhead), "<", 0.01)
        if interpreter:
            faster = ratio("trainer", "ddp")
            if "times_ddp" in TARGETS[model]:
                targets.expect(f"{model}_times_ddp", faster, ">=", TARGETS[model]["times_ddp"])
            peak = {name: max(line["peak_kib"] for m, _ in rounds for line in m[name])
                    for name in ("trainer", "ddp")}
            targets.record(f"{model}_peak_kib_trainer", [peak["trainer"]])
            targets.record(f"{model}_peak_kib_ddp", [peak["ddp"]])
            for name in ("trainer", "ddp"):  # pages that the workers share counted once
                targets.record(f"{model}_job_memory_kib_{name}",
                               [sum(line["share_kib"] for line in m[name]) for m, _ in rounds])
            targets.expect(f"{model}_peak_memory_of_ddp", peak["trainer"] / peak["ddp"], "<=", 1.0)
    targets.finish()


main()
