"""What Horovod calls `horovod.runner`: run(func) here, horovodrun in `launch`."""

from __future__ import annotations

import socket
import sys
from typing import Any, Callable, Iterable, List, Mapping, Optional, Sequence, Tuple, TypeVar, Union

from cohort.runner.function import RunFailed
from cohort.runner.function import run as _run_function

__all__ = ["RunFailed", "run"]

INTERFACE = "0.28.1"  # the version of Horovod whose interface this is
Result = TypeVar("Result")


def run(func: Callable[..., Result], args: Sequence[Any] = (), kwargs: Optional[Mapping[str, Any]] = None,
        num_proc: int = 1, min_num_proc: Optional[int] = None, max_num_proc: Optional[int] = None,
        slots: Optional[int] = None, reset_limit: Optional[int] = None,
        cooldown_range: Optional[Tuple[int, int]] = None, hosts: Optional[str] = None, hostfile: Optional[str] = None,
        host_discovery_script: Optional[str] = None, start_timeout: Optional[int] = None,
        ssh_port: Optional[int] = None, ssh_identity_file: Optional[str] = None, disable_cache: Optional[bool] = None,
        output_filename: Optional[str] = None, verbose: Union[bool, int, None] = None, use_gloo: Optional[bool] = None,
        use_mpi: Optional[bool] = None, mpi_args: Optional[str] = None,
        network_interface: Union[str, Iterable[str], None] = None,
        network_interfaces: Union[str, Iterable[str], None] = None, executable: Optional[str] = None,
        np: Optional[int] = None, min_np: Optional[int] = None,
        max_np: Optional[int] = None) -> List[Result]:  # fmt: skip
    """Calls the function on `num_proc` ranks of this machine and returns their results in order, as `cohort.run` does,
    which says how failures are told.

    np, min_np, max_np      older names of num_proc, min_num_proc, max_num_proc
    min_num_proc, max_num_proc   the job is elastic: from so many workers to so many
    reset_limit             elastic: how often each worker is started again
    hosts, hostfile         may name this machine alone, with enough slots; functions are not sent to other machines
    start_timeout           seconds for all ranks to come
    output_filename         folder for logs
    executable              the interpreter of the workers
    slots, cooldown_range, ssh_port, ssh_identity_file, disable_cache, network_interface, network_interfaces, use_gloo:
    taken, and without meaning on one machine. use_mpi and mpi_args: taken; one line says that no MPI is used.
    host_discovery_script: ValueError, since it would name other machines.
    """
    count = np if np is not None else num_proc
    least = min_np if min_np is not None else min_num_proc
    most = max_np if max_np is not None else max_num_proc
    if host_discovery_script is not None:
        raise ValueError(f"host_discovery_script is '{host_discovery_script}': functions are not sent to other "
                         "machines. Put the function into a program: horovodrun --host-discovery-script ... python "
                         "program.py")  # fmt: skip
    if use_mpi or mpi_args:
        print("cohort: run(use_mpi=..., mpi_args=...): MPI is not used; the ranks find each other through `cohort run`",
              file=sys.stderr)  # fmt: skip
    for name, text in (("hosts", hosts), ("hostfile", _read_hostfile(hostfile))):
        _require_this_machine(name, text, most or count)
    options: List[str] = []
    elastic = least is not None or most is not None
    if elastic and reset_limit is not None:
        options += ["--max-restarts", str(reset_limit)]
    env = {} if start_timeout is None else {"HOROVOD_START_TIMEOUT": str(start_timeout)}
    if elastic and least is None:
        least = min(count, most or count)
    return _run_function(func, args, kwargs, most or count, least=least, env=env, output=output_filename,
                         python=executable, options=options, verbose=bool(verbose))  # fmt: skip


def _read_hostfile(path: Optional[str]) -> Optional[str]:
    """Its hosts as the argument `hosts` has them."""
    if path is None:
        return None
    with open(path) as file:
        lines = [line.split("#")[0].split() for line in file]
    return ",".join(":".join([words[0], *(word[len("slots="):] for word in words[1:] if word.startswith("slots="))])
                    for words in lines if words)  # fmt: skip


def _require_this_machine(name: str, hosts: Optional[str], needed: int) -> None:
    if hosts is None:
        return
    own = {"localhost", "127.0.0.1", "::1", socket.gethostname(), socket.getfqdn()}
    slots = 0
    for entry in hosts.split(","):
        host, colon, number = entry.strip().partition(":")
        if host not in own:
            raise ValueError(f"{name} has '{host}': functions are not sent to other machines. Put the function into a "
                             f"program: horovodrun -np {needed} -H {hosts} python program.py")  # fmt: skip
        slots += int(number) if colon else needed
    if slots < needed:
        raise ValueError(f"{name} has {slots} slots, and {needed} processes are asked for. Name more slots, as in "
                         f"localhost:{needed}")  # fmt: skip
