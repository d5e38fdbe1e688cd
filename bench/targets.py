"""bench/targets.h for benchmarks in Python: the same closing lines, the same JSON."""

import datetime
import json
import operator
import pathlib
import statistics

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "build" / "bench"
OPERATORS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


class Targets:
    def __init__(self, benchmark):
        self.benchmark, self.figures, self.targets = benchmark, {}, []

    def record(self, name, values):
        self.figures[name] = {"min": min(values), "median": statistics.median(values),
                              "max": max(values)}

    def expect(self, name, measured, op, wanted):
        met = OPERATORS[op](measured, wanted)
        self.targets.append({"name": name, "measured": measured,
                             "wanted": {"op": op, "value": wanted}, "met": met})

    def finish(self):
        FOLDER.mkdir(parents=True, exist_ok=True)
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        report = {"benchmark": self.benchmark, "time": now, "figures": self.figures,
                  "targets": self.targets}
        (FOLDER / f"{self.benchmark}.json").write_text(json.dumps(report, indent=2) + "\n")
        for target in self.targets:
            print(f"target {target['name']} measured {target['measured']:.4g} wanted "
                  f"{target['wanted']['op']} {target['wanted']['value']:.4g} "
                  f"{'met' if target['met'] else 'missed'}")
