"""horovodrun's options that are variables of the ranks' environment, and those that mean nothing to Cohort."""

from __future__ import annotations

import argparse
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Union


class Knob(NamedTuple):
    """An option that takes a value, which becomes one of the variable."""

    option: str
    variable: str
    type: Callable[[str], Any]
    help: str
    convert: Callable[[Any], Any] = str


class Switch(NamedTuple):
    """An option without a value, and the one that takes it back."""

    option: str
    opposite: str
    variable: str
    help: Optional[str] = None


class Useless(NamedTuple):
    """An option that is taken, since scripts carry it, and does nothing."""

    options: List[str]
    why: str
    takes: Union[int, str, None] = None  # as nargs; 0: a switch; None: one word


_MEGABYTE = 1024 * 1024
_NO_MPI = "MPI is not used; the ranks find each other through `cohort run`"

LOG_LEVELS = ("TRACE", "DEBUG", "INFO", "WARNING", "ERROR", "FATAL")


def _log_level(text: str) -> str:
    if text.upper() not in LOG_LEVELS:
        raise argparse.ArgumentTypeError(f"'{text}' is not one of {', '.join(LOG_LEVELS)}")
    return text.upper()


KNOBS = [
    Knob("--start-timeout", "HOROVOD_START_TIMEOUT", int, "seconds for all ranks to come"),
    Knob("--fusion-threshold-mb", "HOROVOD_FUSION_THRESHOLD", int,
         "small tensors are reduced together up to this; 0: never", lambda megabytes: str(megabytes * _MEGABYTE)),
    Knob("--cycle-time-ms", "HOROVOD_CYCLE_TIME", float, "how long a tensor waits for others to go with"),
    Knob("--timeline-filename", "HOROVOD_TIMELINE", str, "write what happens to this file"),
    Knob("--stall-check-warning-time-seconds", "HOROVOD_STALL_CHECK_TIME_SECONDS", int,
         "warn of ranks that are missing after so long [60]"),
    Knob("--stall-check-shutdown-time-seconds", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", int,
         "fail after so long; 0: never [0]"),
    Knob("--gloo-timeout-seconds", "HOROVOD_GLOO_TIMEOUT_SECONDS", int, "for all ranks to come"),
    Knob("--log-level", "HOROVOD_LOG_LEVEL", _log_level, f"one of {', '.join(LOG_LEVELS)}"),
]  # fmt: skip
SWITCHES = [
    Switch("--timeline-mark-cycles", "--no-timeline-mark-cycles", "HOROVOD_TIMELINE_MARK_CYCLES",
           "in the timeline, too"),
    Switch("--no-stall-check", "--stall-check", "HOROVOD_STALL_CHECK_DISABLE", "no warnings of ranks that are missing"),
]  # fmt: skip
USELESS = [
    Useless(["--mpi"], _NO_MPI, 0),
    Useless(["--mpi-args"], _NO_MPI),
    Useless(["--mpi-threads-disable"], _NO_MPI, 0),
    Useless(["--binding-args"], "ranks are not bound to cores"),
    Useless(["--tcp"], "ranks of one machine use shared memory", 0),
    Useless(["--network-interfaces", "--network-interface"],
            "the address on the way to the first host is used; `cohort run --address` sets it"),
    Useless(["--cache-capacity"], "there is no such limit"),
    Useless(["--hierarchical-allreduce"], "Cohort chooses its algorithms by itself", 0),
    Useless(["--hierarchical-allgather"], "Cohort chooses its algorithms by itself", 0),
    Useless(["--autotune"], "nothing is tuned while a job trains; `cohort tune` measures the machine", 0),
    Useless(["--autotune-log-file"], "nothing is tuned while a job trains"),
    Useless(["--autotune-warmup-samples"], "nothing is tuned while a job trains"),
    Useless(["--autotune-steps-per-sample"], "nothing is tuned while a job trains"),
    Useless(["--autotune-bayes-opt-max-samples"], "nothing is tuned while a job trains"),
    Useless(["--autotune-gaussian-process-noise"], "nothing is tuned while a job trains"),
    Useless(["--num-nccl-streams"], "there is no NCCL"),
    Useless(["--thread-affinity"], "threads are not bound to cores"),
    Useless(["--blacklist-cooldown-range"], "hosts that fail are not set aside", 2),
    Useless(["-prefix-timestamp", "--prefix-output-with-timestamp"],
            "lines carry no times; job.json has those of tasks", 0),
]  # fmt: skip
# Nothing to say about these: what they ask for is so anyway.
_SILENT = ["--gloo", "--disable-cache", "--no-hierarchical-allreduce", "--no-hierarchical-allgather", "--no-autotune",
           "--no-mpi-threads-disable", "--log-with-timestamp", "--log-without-timestamp", "--log-hide-timestamp",
           "--no-log-hide-timestamp"]  # fmt: skip


def name_of(option: str) -> str:
    """How argparse and configuration files call it."""
    return option.lstrip("-").replace("-", "_")


def declare(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("how the ranks work")
    for knob in KNOBS:
        group.add_argument(knob.option, type=knob.type, metavar="X", help=knob.help)
    for switch in SWITCHES:
        both = group.add_mutually_exclusive_group()
        both.add_argument(switch.option, action="store_const", const=True, help=switch.help)
        both.add_argument(switch.opposite, action="store_const", const=False, dest=name_of(switch.option),
                          help=argparse.SUPPRESS)  # fmt: skip
    ignored = parser.add_argument_group("taken, and without effect")
    for useless in USELESS:
        if useless.takes == 0:
            ignored.add_argument(*useless.options, action="store_true", help=useless.why)
        else:
            ignored.add_argument(*useless.options, nargs=useless.takes, help=useless.why)
    for option in _SILENT:
        parser.add_argument(option, action="store_true", dest="silent", help=argparse.SUPPRESS)
    parser.add_argument("--jsrun", action="store_true", dest="use_jsrun", help=argparse.SUPPRESS)


def variables(options: argparse.Namespace) -> Dict[str, str]:
    """What the ranks find in their environment."""
    result = {}
    for knob in KNOBS:
        value = getattr(options, name_of(knob.option))
        if value is not None:
            result[knob.variable] = str(knob.convert(value))
    for switch in SWITCHES:
        value = getattr(options, name_of(switch.option))
        if value is not None:
            result[switch.variable] = "1" if value else "0"
    return result


def remarks(options: argparse.Namespace) -> List[str]:
    lines = []
    for useless in USELESS:
        long = next(option for option in useless.options if option.startswith("--"))
        if getattr(options, name_of(long)):
            lines.append(f"{long} has no effect: {useless.why}")
    return lines
