"""How much memory a worker needs that divides a deep model with the others (--shard), beside what
the formulas of docs/large-models.md say for Adam.

Bytes a parameter, of the worker that took the most: everything the training added to the process,
after its first step, activations, buffers and messages included; memory that workers share is
counted in parts. Verified: the weights of divided trainings are those of the undivided one.
"""

import argparse

from jobs import BIN, run_job
from targets import Targets

FORMULAS = {"none": lambda k: 16, "optimizer": lambda k: 8 + 8 / k, "gradients": lambda k: 4 + 12 / k,
            "parameters": lambda k: 16 / k}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=128)
    parser.add_argument("--width", type=int, default=1024, help="a layer has WIDTH times WIDTH parameters")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--workers", type=int, action="append", help="default: 2 and 4")
    arguments = parser.parse_args()
    program = [str(BIN / "memory_bench_worker"), str(arguments.layers), str(arguments.width),
               str(arguments.steps), "--threads", "1"]
    targets = Targets("memory")
    for workers in arguments.workers or (2, 4):
        weights = None
        for shard, formula in FORMULAS.items():
            measured = run_job(workers, [*program, "--shard", shard])
            found = {line["weights"] for line in measured}
            weights = weights or found
            if len(found) != 1 or found != weights:
                raise SystemExit(f"memory_bench: {workers} workers: other weights with --shard {shard}")
            most = max(line["bytes"] for line in measured) / measured[0]["parameters"]
            of_formula = most / formula(workers)
            print(f"{workers} workers, --shard {shard}: {most:.2f} bytes a parameter, "
                  f"{of_formula:.3f} of {formula(workers):g}", flush=True)
            name = f"{shard}_{workers}_workers"
            targets.record(f"{name}_bytes_a_parameter", [most])
            if shard != "none":
                targets.expect(f"{name}_of_formula", of_formula, "<=", 1.1)
    targets.finish()


main()
