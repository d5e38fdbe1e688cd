"""Asynchronous collectives on tensors, and the ones in place. No gradients flow through these; see gradients.py.

Every function takes the arguments of Horovod's. A `name` keys a call on all ranks; without one, ranks count calls.
Failures: ValueError for arguments that are wrong by themselves (a name that is under way, a dtype, splits, a process
set that this rank is not in), HorovodInternalError for what the ranks together could not do.
"""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Sequence, Tuple

import torch

from cohort.common import basics, requests
from cohort.common.basics import Adasum, Average, Sum
from cohort.common.exceptions import HorovodInternalError
from cohort.common.process_sets import ProcessSet, global_process_set, root_in_set, set_id_of
from cohort.common.util import get_average_backwards_compatibility_fun
from cohort.torch import handles
from cohort.torch.tensors import all_of, in_place, into, like, on_host, result_of, source, split_sizes, write_back

ALLREDUCE, ALLGATHER, BROADCAST = requests.ALLREDUCE, requests.ALLGATHER, requests.BROADCAST
ALLTOALL, REDUCESCATTER = requests.ALLTOALL, requests.REDUCESCATTER

handle_average_backwards_compatibility = get_average_backwards_compatibility_fun(basics)


def number_of_set(process_set: ProcessSet) -> int:
    return 0 if process_set is global_process_set else set_id_of(process_set)


def key_of(kind: str, name: Optional[str], process_set: ProcessSet) -> Tuple[str, int]:
    """What a request is called, and the number of its set. Without a name, the ranks of a set count its calls."""
    number = number_of_set(process_set)
    return requests.next_name(kind, number) if name is None else f"{kind}.{name}", number


def check_scatter_op(op: int) -> None:
    if op == Adasum:
        raise HorovodInternalError("Reducescatter does not go with op=Adasum. Use Average or Sum")


# ---- allreduce


def allreduce_async(tensor: torch.Tensor, average: Optional[bool] = None, name: Optional[str] = None,
                    op: Optional[int] = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                    process_set: ProcessSet = global_process_set) -> int:  # fmt: skip
    """Starts `allreduce`. Returns a handle for `poll` and `synchronize`."""
    op = handle_average_backwards_compatibility(op, average)
    used = on_host(tensor, reduced=True)
    output = torch.empty_like(used)
    key, number = key_of("allreduce", name, process_set)
    handle = requests.submit(ALLREDUCE, key, (into(used, output),), op, number, 0, prescale_factor, postscale_factor,
                             keep=(used, output))  # fmt: skip
    return handles.add(handle, lambda _: like(output, tensor))


def allreduce_async_(tensor: torch.Tensor, average: Optional[bool] = None, name: Optional[str] = None,
                     op: Optional[int] = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                     process_set: ProcessSet = global_process_set) -> int:  # fmt: skip
    """Starts `allreduce_`. Leave `tensor` alone until it is over. Returns a handle."""
    op = handle_average_backwards_compatibility(op, average)
    used = on_host(tensor, reduced=True)
    key, number = key_of("allreduce", name, process_set)
    handle = requests.submit(ALLREDUCE, key, (in_place(used),), op, number, 0, prescale_factor, postscale_factor,
                             keep=(used, tensor))  # fmt: skip
    return handles.add(handle, lambda _: write_back(tensor, used))


def allreduce_(tensor: torch.Tensor, average: Optional[bool] = None, name: Optional[str] = None,
               op: Optional[int] = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
               process_set: ProcessSet = global_process_set) -> torch.Tensor:  # fmt: skip
    """Reduces over all ranks, and writes the result to `tensor`, which it returns."""
    op = handle_average_backwards_compatibility(op, average)
    used = on_host(tensor, reduced=True)
    key, number = key_of("allreduce", name, process_set)
    requests.run(ALLREDUCE, key, (in_place(used),), op, number, 0, prescale_factor, postscale_factor)
    return write_back(tensor, used)


def grouped_allreduce_async(tensors: Sequence[torch.Tensor], average: Optional[bool] = None,
                            name: Optional[str] = None, op: Optional[int] = None, prescale_factor: float = 1.0,
                            postscale_factor: float = 1.0,
                            process_set: ProcessSet = global_process_set) -> int:  # fmt: skip
    """Starts `grouped_allreduce`. Returns one handle for all."""
    op = handle_average_backwards_compatibility(op, average)
    tensors = all_of(tensors)
    used = [on_host(tensor, reduced=True) for tensor in tensors]
    outputs = [torch.empty_like(one) for one in used]
    key, number = key_of("grouped_allreduce", name, process_set)
    handle = requests.submit(ALLREDUCE, key, list(map(into, used, outputs)), op, number, 0, prescale_factor,
                             postscale_factor, keep=(used, outputs))  # fmt: skip
    return handles.add(handle, lambda _: list(map(like, outputs, tensors)))


def grouped_allreduce_async_(tensors: Sequence[torch.Tensor], average: Optional[bool] = None,
                             name: Optional[str] = None, op: Optional[int] = None, prescale_factor: float = 1.0,
                             postscale_factor: float = 1.0,
                             process_set: ProcessSet = global_process_set) -> int:  # fmt: skip
    """Starts `grouped_allreduce_`. Leave the tensors alone until it is over. Returns one handle for all."""
    op = handle_average_backwards_compatibility(op, average)
    tensors = all_of(tensors)
    used = [on_host(tensor, reduced=True) for tensor in tensors]
    key, number = key_of("grouped_allreduce", name, process_set)
    handle = requests.submit(ALLREDUCE, key, list(map(in_place, used)), op, number, 0, prescale_factor,
                             postscale_factor, keep=(used, tensors))  # fmt: skip
    return handles.add(handle, lambda _: list(map(write_back, tensors, used)))


def grouped_allreduce_(tensors: Sequence[torch.Tensor], average: Optional[bool] = None, name: Optional[str] = None,
                       op: Optional[int] = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                       process_set: ProcessSet = global_process_set) -> List[torch.Tensor]:  # fmt: skip
    """As `allreduce_` for each of the tensors, all at once."""
    op = handle_average_backwards_compatibility(op, average)
    tensors = all_of(tensors)
    used = [on_host(tensor, reduced=True) for tensor in tensors]
    key, number = key_of("grouped_allreduce", name, process_set)
    requests.run(ALLREDUCE, key, list(map(in_place, used)), op, number, 0, prescale_factor, postscale_factor)
    return list(map(write_back, tensors, used))


def sparse_allreduce_async(tensor: torch.Tensor, name: Optional[str], op: int,
                           process_set: ProcessSet = global_process_set) -> Callable[[], torch.Tensor]:  # fmt: skip
    """Starts the sum or the average of sparse tensors: their entries are gathered, and those of one place stay
    several until `coalesce()`. Returns a function that waits and gives the sparse result."""
    if op not in (Average, Sum):
        raise ValueError(f"sparse_allreduce_async takes op=Average or op=Sum, not {op}; use to_dense() for others")
    if not tensor.is_sparse:
        raise ValueError(f"sparse_allreduce_async takes a tensor in COO layout, not {tensor.layout}; use to_sparse()")
    indices = on_host(tensor._indices().t())
    values = on_host(tensor._values())
    key, number = key_of("sparse_allreduce", name, process_set)
    handle = requests.submit(ALLGATHER, key, (source(indices), source(values)), Sum, number, keep=(indices, values))

    def finish() -> torch.Tensor:
        handle.wait()
        places, entries = result_of(handle, 0, indices), result_of(handle, 1, values)
        if op == Average:
            entries = entries / process_set.size()
        return torch.sparse_coo_tensor(places.t().to(tensor.device), like(entries, values).to(tensor.device),
                                       tensor.size(), check_invariants=False)  # fmt: skip

    return finish


# ---- allgather


def allgather_async(tensor: torch.Tensor, name: Optional[str] = None,
                    process_set: ProcessSet = global_process_set) -> int:  # fmt: skip
    """Starts `allgather`. Returns a handle."""
    used = on_host(tensor)
    key, number = key_of("allgather", name, process_set)
    handle = requests.submit(ALLGATHER, key, (source(used),), Sum, number, keep=used)
    return handles.add(handle, lambda over: like(result_of(over, 0, used), tensor))


def grouped_allgather_async(tensors: Sequence[torch.Tensor], name: Optional[str] = None,
                            process_set: ProcessSet = global_process_set) -> int:  # fmt: skip
    """Starts `grouped_allgather`. Returns one handle for all."""
    tensors = all_of(tensors)
    used = [on_host(tensor) for tensor in tensors]
    key, number = key_of("grouped_allgather", name, process_set)
    handle = requests.submit(ALLGATHER, key, list(map(source, used)), Sum, number, keep=used)
    return handles.add(handle, lambda over: results_like(over, used, tensors))


def results_like(handle: requests.Handle, used: Sequence[torch.Tensor],
                 tensors: Sequence[torch.Tensor]) -> List[torch.Tensor]:  # fmt: skip
    """The results of a grouped call that the library allocated."""
    return [like(result_of(handle, i, one), tensor) for i, (one, tensor) in enumerate(zip(used, tensors))]


# ---- broadcast


def broadcast_async(tensor: torch.Tensor, root_rank: int, name: Optional[str] = None,
                    process_set: ProcessSet = global_process_set) -> int:  # fmt: skip
    """Starts `broadcast`. Returns a handle."""
    used = on_host(tensor)
    output = torch.empty_like(used)
    key, number = key_of("broadcast", name, process_set)
    handle = requests.submit(BROADCAST, key, (into(used, output),), Sum, number, root_in_set(process_set, root_rank),
                             keep=(used, output))  # fmt: skip
    return handles.add(handle, lambda _: like(output, tensor))


def broadcast_async_(tensor: torch.Tensor, root_rank: int, name: Optional[str] = None,
                     process_set: ProcessSet = global_process_set) -> int:  # fmt: skip
    """Starts `broadcast_`. Leave `tensor` alone until it is over. Returns a handle."""
    used = on_host(tensor)
    key, number = key_of("broadcast", name, process_set)
    handle = requests.submit(BROADCAST, key, (in_place(used),), Sum, number, root_in_set(process_set, root_rank),
                             keep=(used, tensor))  # fmt: skip
    return handles.add(handle, lambda _: write_back(tensor, used))


def broadcast_(tensor: torch.Tensor, root_rank: int, name: Optional[str] = None,
               process_set: ProcessSet = global_process_set) -> torch.Tensor:  # fmt: skip
    """Writes the values of the rank `root_rank` of the world to `tensor` everywhere, and returns it."""
    used = on_host(tensor)
    key, number = key_of("broadcast", name, process_set)
    requests.run(BROADCAST, key, (in_place(used),), Sum, number, root_in_set(process_set, root_rank))
    return write_back(tensor, used)


# ---- alltoall


def alltoall_async(tensor: torch.Tensor, splits: Any = None, name: Optional[str] = None,
                   process_set: ProcessSet = global_process_set) -> int:  # fmt: skip
    """Starts `alltoall`. Returns a handle, whose result is (the tensor, the numbers of rows that came from each)."""
    rows, sizes = split_sizes(splits, tensor)
    used = on_host(rows)
    key, number = key_of("alltoall", name, process_set)
    handle = requests.submit(ALLTOALL, key, (source(used),), Sum, number, splits=sizes, keep=used)
    return handles.add(handle, lambda over: received(over, used, tensor, splits))


def received(handle: requests.Handle, used: torch.Tensor, tensor: torch.Tensor, splits: Any) -> Any:
    """The result of an alltoall, with the splits on the device on which those that were given are."""
    device = splits.device if isinstance(splits, torch.Tensor) else "cpu"
    counts = torch.tensor(handle.received_splits(), dtype=torch.int32, device=device)
    return like(result_of(handle, 0, used), tensor), counts


# ---- reducescatter


def reducescatter_async(tensor: torch.Tensor, name: Optional[str] = None, op: int = Average,
                        process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                        postscale_factor: float = 1.0) -> int:  # fmt: skip
    """Starts `reducescatter`. Returns a handle."""
    check_scatter_op(op)
    used = on_host(tensor, reduced=True)
    key, number = key_of("reducescatter", name, process_set)
    handle = requests.submit(REDUCESCATTER, key, (source(used),), op, number, 0, prescale_factor, postscale_factor,
                             keep=used)  # fmt: skip
    return handles.add(handle, lambda over: like(result_of(over, 0, used), tensor))


def grouped_reducescatter_async(tensors: Sequence[torch.Tensor], name: Optional[str] = None, op: int = Average,
                                process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                                postscale_factor: float = 1.0) -> int:  # fmt: skip
    """Starts `grouped_reducescatter`. Returns one handle for all."""
    check_scatter_op(op)
    tensors = all_of(tensors)
    used = [on_host(tensor, reduced=True) for tensor in tensors]
    key, number = key_of("grouped_reducescatter", name, process_set)
    handle = requests.submit(REDUCESCATTER, key, list(map(source, used)), op, number, 0, prescale_factor,
                             postscale_factor, keep=used)  # fmt: skip
    return handles.add(handle, lambda over: results_like(over, used, tensors))
