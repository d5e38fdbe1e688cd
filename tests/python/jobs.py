"""Jobs of Python programs, as a person starts them: `cohort run -n N -- python SCRIPT`."""

import os
import pathlib
import subprocess
import sys
import tempfile
import threading

TESTS = pathlib.Path(__file__).resolve().parent
SOURCE = TESTS.parents[1]
BIN = pathlib.Path(os.environ.get("COHORT_BIN_DIR", SOURCE / "build/bin"))
RANKS = TESTS / "ranks"  # programs that every rank runs
LAUNCHER_VARIABLES = ("COHORT_", "HOROVOD_", "OMPI_", "PMI", "SLURM_", "TF_CONFIG", "RANK", "WORLD_SIZE", "MASTER_")


def environment(**more):
    """This one, without a launcher's variables, with the package and the library of this build."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHER_VARIABLES)}
    return {**kept, "COHORT_BIN_DIR": str(BIN), "PYTHONPATH": f"{SOURCE / 'python'}:{TESTS}",
            "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1", **more}  # fmt: skip


def start(command, **options):
    """A process whose output can be read; its group is its own."""
    env = options.pop("env", None) or environment()
    return subprocess.Popen([str(word) for word in command], text=True, env=env, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, start_new_session=True, **options)  # fmt: skip


def finish(process, timeout=60):
    """(exit status, output). Kills the process's group when the time is over."""
    late = threading.Event()

    def end():
        late.set()
        os.killpg(process.pid, 9)

    limit = threading.Timer(timeout, end)
    limit.start()
    try:
        output = process.stdout.read()  # communicate() forgets what readline() has read ahead
        process.wait()
    finally:
        limit.cancel()
    process.stdout.close()
    return process.returncode, output + (f"\n(killed after {timeout} s)\n" if late.is_set() else "")


def job_command(ranks, *program, options=(), python=sys.executable):
    folder = tempfile.mkdtemp(prefix="cohort-python-", dir=os.environ.get("TEST_TMPDIR"))
    return [BIN / "cohort", "run", "-n", ranks, "--output", pathlib.Path(folder, "out"), *options, "--", python,
            *program]  # fmt: skip


def run_job(ranks, *program, timeout=60, env=None, options=()):
    """Runs `python PROGRAM...` on so many ranks. (exit status, output)."""
    return finish(start(job_command(ranks, *program, options=options), env=env), timeout)
