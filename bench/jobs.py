"""Jobs that benchmarks start, each worker of which prints one line `measured {JSON}`."""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BIN = ROOT / "build" / "bin"
LIMIT = 300  # seconds for one job


def run_job(workers, program):
    """Every worker's measurement, in rank order."""
    with tempfile.TemporaryDirectory() as folder:
        command = [str(BIN / "cohort"), "run", "-q", "-n", str(workers), "--output", folder + "/job",
                   "--", *program]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    lines = re.findall(r"measured ({.*})", done.stdout)
    if done.returncode != 0 or len(lines) != workers:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr}")
    return sorted(map(json.loads, lines), key=lambda line: line["rank"])
