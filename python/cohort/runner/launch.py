"""horovodrun: its words become those of `cohort run`, which takes the place of this process."""

from __future__ import annotations

import argparse
import importlib.util
import os
import shlex
import sys
from typing import Any, Dict, List, NoReturn, Optional, Sequence

import cohort
from cohort.errors import CohortError
from cohort.program import become
from cohort.runner import INTERFACE, config_file, knobs

# As `cohort run` calls it without --remote-shell.
_SSH = ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=3", "-o",
        "ServerAliveCountMax=3"]  # fmt: skip
# What tasks on other hosts get of this process's environment; those on this machine get all of it.
_SENT = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "OMP_NUM_THREADS", "COHORT_LOG")
_SENT_BEGINNINGS = ("HOROVOD_", "NCCL_")


def run_commandline(arguments: Optional[Sequence[str]] = None) -> NoReturn:
    """The command horovodrun."""
    parser = make_parser()
    try:
        options = parser.parse_args(arguments)
        if options.check_build:
            print(build_table())
            sys.exit(0)
        if options.config_file:
            config_file.fill_in(options, options.config_file)
        words = cohort_words(options)
        for remark in remarks(options):
            print(f"horovodrun: {remark}", file=sys.stderr)
        become(words)
    except (ValueError, CohortError, OSError) as error:
        print(f"horovodrun: {error}", file=sys.stderr)
        sys.exit(2)


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="horovodrun", usage="horovodrun -np N [options] command...", allow_abbrev=False,
        description="Starts a training program on N ranks with `cohort run`, in Horovod's words.")  # fmt: skip
    version = f"{INTERFACE}+cohort.{cohort.__version__}"
    parser.add_argument("-v", "--version", action="version", version=version)
    parser.add_argument("-np", "--num-proc", type=int, dest="num_proc", metavar="N", help="ranks")
    parser.add_argument("-cb", "--check-build", action="store_true", help="print what is there, and end")
    parser.add_argument("--output-filename", metavar="DIR", help="folder for logs and records [cohort-output/<job>]")
    parser.add_argument("--verbose", action="store_true", help="say more")
    parser.add_argument("--config-file", metavar="FILE", help="a YAML file with options; the command line wins")
    parser.add_argument("command", nargs=argparse.REMAINDER)

    hosts = parser.add_argument_group("hosts").add_mutually_exclusive_group()
    hosts.add_argument("-H", "--hosts", metavar="HOST:SLOTS,...")
    hosts.add_argument("-hostfile", "--hostfile", metavar="FILE", help="lines `HOST slots=N`")
    hosts.add_argument("--host-discovery-script", metavar="FILE", help="elastic: prints the hosts to use")
    shell = parser.add_argument_group("remote shell")
    shell.add_argument("-p", "--ssh-port", type=int, metavar="PORT")
    shell.add_argument("-i", "--ssh-identity-file", metavar="FILE")

    elastic = parser.add_argument_group("elastic: with one of the first two, or --host-discovery-script")
    elastic.add_argument("--min-np", "--min-num-proc", type=int, dest="min_num_proc", metavar="N",
                         help="go on with N [-np]")  # fmt: skip
    elastic.add_argument("--max-np", "--max-num-proc", type=int, dest="max_num_proc", metavar="N",
                         help="at most N [-np]")  # fmt: skip
    elastic.add_argument("--slots-per-host", type=int, dest="slots", metavar="N")
    elastic.add_argument("--elastic-timeout", type=int, metavar="S", help="to wait for the least of workers [600]")
    elastic.add_argument("--reset-limit", type=int, metavar="N", help="how often each worker is started again [10]")

    knobs.declare(parser)
    return parser


def cohort_words(options: argparse.Namespace) -> List[str]:
    """The arguments of `cohort`. Throws ValueError for what cannot be."""
    if options.use_jsrun:
        raise ValueError("--jsrun: Cohort does not start ranks with jsrun. Name the hosts (-H), or use "
                         "`cohort run --slurm`")  # fmt: skip
    if options.num_proc is None:
        raise ValueError("-np is missing: how many ranks? As in: horovodrun -np 2 python train.py")
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        raise ValueError("there is no command to run. As in: horovodrun -np 2 python train.py")
    words = ["run", *_size(options)]
    for option, value in (("--hosts", options.hosts), ("--hostfile", options.hostfile),
                          ("--host-discovery-script", options.host_discovery_script),
                          ("--slots-per-host", options.slots), ("--output", options.output_filename)):  # fmt: skip
        words += [] if value is None else [option, str(value)]
    if options.ssh_port is not None or options.ssh_identity_file is not None:
        port = [] if options.ssh_port is None else ["-p", str(options.ssh_port)]
        identity = [] if options.ssh_identity_file is None else ["-i", options.ssh_identity_file]
        words += ["--remote-shell", " ".join(map(shlex.quote, _SSH + port + identity))]
    variables: Dict[str, str] = {}
    if options.hosts or options.hostfile or options.host_discovery_script:
        variables.update((name, value) for name, value in os.environ.items()
                         if name in _SENT or name.startswith(_SENT_BEGINNINGS))  # fmt: skip
    variables.update(knobs.variables(options))
    for name, value in variables.items():
        words += ["--env", f"{name}={value}"]
    return [*words, "--", *command]


def _size(options: argparse.Namespace) -> List[str]:
    if options.num_proc < 1:
        raise ValueError(f"-np is {options.num_proc}; there must be at least one rank")
    if not is_elastic(options):
        return ["-n", str(options.num_proc)]
    most = options.num_proc if options.max_num_proc is None else options.max_num_proc
    least = min(options.num_proc, most) if options.min_num_proc is None else options.min_num_proc
    if not 1 <= least <= most:
        raise ValueError(f"--min-np is {least} and --max-np {most}; they must be at least 1, and in this order")
    words = ["-n", f"{least}:{most}", "--elastic"]
    if options.elastic_timeout is not None:
        words += ["--elastic-timeout", str(options.elastic_timeout)]
    if options.reset_limit is not None:
        words += ["--max-restarts", str(options.reset_limit)]
    return words


def is_elastic(options: argparse.Namespace) -> bool:
    return any(value is not None for value in
               (options.min_num_proc, options.max_num_proc, options.host_discovery_script))  # fmt: skip


def remarks(options: argparse.Namespace) -> List[str]:
    """What the person should know: options that mean something else here, or nothing."""
    lines = knobs.remarks(options)
    if options.host_discovery_script is not None and options.max_num_proc is None:
        lines.append(f"without --max-np the job grows to -np, {options.num_proc} ranks, and not beyond")
    if options.reset_limit is not None:
        lines.append("--reset-limit is how often each worker is started again; changes of the hosts are not counted")
    return lines


def build_table() -> str:
    """What --check-build prints: what there is, whatever a program expects."""
    from cohort.common import basics

    def box(name: str, there: object) -> str:
        return f"    [{'X' if there else ' '}] {name}"

    def has(package: str) -> bool:
        return importlib.util.find_spec(package) is not None

    built: Any = basics
    return "\n".join([
        f"Cohort v{cohort.__version__}, with the interface of Horovod {INTERFACE}:", "",
        "Available Frameworks:",
        box("TensorFlow", has("tensorflow")), box("PyTorch", has("torch")),
        box("Keras", has("keras") or has("tf_keras")), box("MXNet", False), "",
        "Available Controllers:",
        box("MPI", built.mpi_built()), box("Gloo", built.gloo_built()), box("Cohort", True), "",
        "Available Tensor Operations:",
        box("NCCL", built.nccl_built()), box("DDL", built.ddl_built()), box("CCL", built.ccl_built()),
        box("MPI", built.mpi_built()), box("Gloo", built.gloo_built()), box("Cohort (shared memory, TCP)", True),
    ])  # fmt: skip


if __name__ == "__main__":
    run_commandline()
