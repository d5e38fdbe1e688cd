"""The collectives as TensorFlow operations, their gradients, and the numbers of the world.

A request's name is the operation's own name in a graph, which is the same on all ranks as they build the same graph;
in eager execution it is `name`, or one for all calls of a kind, which follow one another anyway.
"""

from __future__ import annotations

import re
from typing import Any, List, Optional, Sequence, Tuple

import tensorflow as tf
from tensorflow.python.framework import ops

from cohort.common import basics, process_sets, signals
from cohort.common.basics import (  # noqa: F401
    Adasum, Average, HorovodBasics, Max, Min, Product, Sum, ccl_built, cross_rank, cross_size, cuda_built, ddl_built,
    gloo_built, gloo_enabled, init, is_homogeneous, is_initialized, local_rank, local_size, mpi_built, mpi_enabled,
    mpi_threads_supported, nccl_built, rank, rocm_built, shutdown, size, start_timeline, stop_timeline,
)  # fmt: skip
from cohort.common.process_sets import (  # noqa: F401
    ProcessSet, add_process_set, global_process_set, process_set_by_id, remove_process_set, root_in_set, set_id_of,
)  # fmt: skip
from cohort.common.util import get_average_backwards_compatibility_fun, num_rank_is_power_2
from cohort.tensorflow._library import bits, factor_of, operations
from cohort.tensorflow.util import _executing_eagerly

_basics = HorovodBasics()
handle_average_backwards_compatibility = get_average_backwards_compatibility_fun(basics)
check_num_rank_power_of_2 = num_rank_is_power_2

_FACTS = {"size": 0, "rank": 1, "local_size": 2, "local_rank": 3, "included": 4}


def _normalize_name(name: str) -> str:
    return re.sub("[^a-zA-Z0-9_]", "_", name)


def _tensor(value: Any) -> Any:
    return value if isinstance(value, tf.Tensor) else tf.convert_to_tensor(value)


def _names(kind: str, name: Optional[str], inputs: Sequence[Any], ignore_name_scope: bool) -> Tuple[str, str, int]:
    """The operation's name, the request's, and whether the call blocks."""
    if _executing_eagerly():
        return name or kind, name or f"{kind}.noname", 1
    if name is None:
        ends = [inputs[0].name] if len(inputs) == 1 else [inputs[0].name, inputs[-1].name]
        name = "_".join([f"Horovod{kind.capitalize()}", *ends])
    name = _normalize_name(name)
    request = tf.compat.v1.get_default_graph().unique_name(name, mark_as_used=False)
    return name, request.rsplit("/", 1)[-1] if ignore_name_scope else request, 0


def _run(operation: Any, **arguments: Any) -> Any:
    """Runs an operation, or adds it to a graph. What a signal handler raised during an eager call comes out of it."""
    try:
        return operation(**arguments)
    except tf.errors.CancelledError:
        if signals.raised:
            raise signals.take() from None
        raise


def _set_first_dimension_open(results: Sequence[Any], inputs: Sequence[Any]) -> None:
    """What is known of the shapes of results that the ranks give different numbers of rows."""
    if _executing_eagerly():
        return
    for result, tensor in zip(results, inputs):
        if tensor.shape.rank:
            result.set_shape([None, *tensor.shape[1:]])


def _allreduce_list(inputs: Sequence[Any], name: Optional[str], op: int, prescale_factor: float,
                    postscale_factor: float, ignore_name_scope: bool,
                    process_set: ProcessSet) -> List[Any]:  # fmt: skip
    inputs = [_tensor(tensor) for tensor in inputs]
    op_name, request, blocking = _names("allreduce", name, inputs, ignore_name_scope)
    dtype = inputs[0].dtype
    return list(_run(
        operations.cohort_allreduce,
        tensors=inputs, request=request, reduce_op=op, prescale_bits=bits(prescale_factor, dtype),
        postscale_bits=bits(postscale_factor, dtype), process_set_id=set_id_of(process_set), blocking=blocking,
        name=op_name))  # fmt: skip


def _allreduce(tensor: Any, name: Optional[str] = None, op: int = Sum, prescale_factor: float = 1.0,
               postscale_factor: float = 1.0, ignore_name_scope: bool = False,
               process_set: ProcessSet = global_process_set) -> Any:  # fmt: skip
    return _allreduce_list([tensor], name, op, prescale_factor, postscale_factor, ignore_name_scope, process_set)[0]


def _grouped_allreduce(tensors: Sequence[Any], name: Optional[str] = None, op: int = Sum,
                       prescale_factor: float = 1.0, postscale_factor: float = 1.0, ignore_name_scope: bool = False,
                       process_set: ProcessSet = global_process_set) -> List[Any]:  # fmt: skip
    return _allreduce_list(tensors, name, op, prescale_factor, postscale_factor, ignore_name_scope, process_set)


@ops.RegisterGradient("CohortAllreduce")
def _allreduce_grad(op: Any, *grads: Any) -> List[Any]:
    return _allreduce_list(
        grads, None, op.get_attr("reduce_op"), factor_of(op.get_attr("prescale_bits")),
        factor_of(op.get_attr("postscale_bits")), False, process_set_by_id(op.get_attr("process_set_id")))  # fmt: skip


def grouped_allgather(tensors: Sequence[Any], name: Optional[str] = None, ignore_name_scope: bool = False,
                      process_set: ProcessSet = global_process_set) -> List[Any]:  # fmt: skip
    """Each tensor of the list, concatenated over the ranks by the first dimension, in which they may differ."""
    inputs = [_tensor(tensor) for tensor in tensors]
    op_name, request, blocking = _names("allgather", name, inputs, ignore_name_scope)
    results = list(_run(operations.cohort_allgather, tensors=inputs, request=request, blocking=blocking, name=op_name,
                        process_set_id=set_id_of(process_set)))  # fmt: skip
    _set_first_dimension_open(results, inputs)
    return results


def allgather(tensor: Any, name: Optional[str] = None, ignore_name_scope: bool = False,
              process_set: ProcessSet = global_process_set) -> Any:  # fmt: skip
    """The ranks' tensors concatenated by the first dimension, in which they may differ."""
    return grouped_allgather([tensor], name, ignore_name_scope, process_set)[0]


@ops.RegisterGradient("CohortAllgather")
def _allgather_grad(op: Any, *grads: Any) -> List[Any]:
    process_set = process_set_by_id(op.get_attr("process_set_id"))
    own = process_set.rank()
    rows = [tf.reshape(tf.shape(tensor)[0], [1]) for tensor in op.inputs]
    rows_of_all = grouped_allgather(rows, process_set=process_set)
    averaged = _grouped_allreduce(grads, op=Average, process_set=process_set)
    starts = [tf.reduce_sum(counts[:own]) for counts in rows_of_all]
    return [grad[start:start + count[0]] for grad, start, count in zip(averaged, starts, rows)]


def _broadcast_list(inputs: Sequence[Any], root_rank: int, name: Optional[str], ignore_name_scope: bool,
                    process_set: ProcessSet) -> List[Any]:  # fmt: skip
    inputs = [_tensor(tensor) for tensor in inputs]
    op_name, request, blocking = _names("broadcast", name, inputs, ignore_name_scope)
    return list(_run(
        operations.cohort_broadcast,
        tensors=inputs, request=request, root=root_in_set(process_set, root_rank), blocking=blocking,
        process_set_id=set_id_of(process_set), name=op_name))  # fmt: skip


def broadcast(tensor: Any, root_rank: int, name: Optional[str] = None, ignore_name_scope: bool = False,
              process_set: ProcessSet = global_process_set) -> Any:  # fmt: skip
    """The tensor of rank `root_rank`, on all ranks."""
    return _broadcast_list([tensor], root_rank, name, ignore_name_scope, process_set)[0]


@ops.RegisterGradient("CohortBroadcast")
def _broadcast_grad(op: Any, *grads: Any) -> List[Any]:
    process_set = process_set_by_id(op.get_attr("process_set_id"))
    averaged = _grouped_allreduce(grads, op=Average, process_set=process_set)
    if process_set.rank() == op.get_attr("root"):
        return averaged
    return [grad * 0 for grad in averaged]


def broadcast_(variables: Sequence[Any], root_rank: int, name: Optional[str] = None,
               process_set: ProcessSet = global_process_set) -> List[Any]:  # fmt: skip
    """Gives the variables the values that they have on rank `root_rank`, in one request. Returns these values."""
    variables = list(variables)
    if not variables:
        return []
    values = _broadcast_list([tf.convert_to_tensor(variable) for variable in variables], root_rank, name, False,
                             process_set)  # fmt: skip
    if _executing_eagerly():
        for variable, value in zip(variables, values):
            variable.assign(value)
        return values
    assigned = [variable.assign(value, read_value=False) for variable, value in zip(variables, values)]
    with tf.control_dependencies(assigned):
        return [tf.identity(value) for value in values]


def alltoall(tensor: Any, splits: Any = None, name: Optional[str] = None, ignore_name_scope: bool = False,
             process_set: ProcessSet = global_process_set) -> Any:  # fmt: skip
    """Sends splits[i] rows to rank i (equal parts without splits); rows after the sum of the splits are not sent.
    Returns the rows received, in rank order, and with splits also how many came from each rank."""
    tensor = _tensor(tensor)
    names = _names("alltoall", name, [tensor], ignore_name_scope)
    if splits is None:
        return _alltoall(tensor, tf.constant([], dtype=tf.int32), names, process_set)[0]
    counts = tf.convert_to_tensor(splits)
    return _alltoall(_rows_to_send(tensor, counts), counts, names, process_set)


def _rows_to_send(tensor: Any, counts: Any) -> Any:
    """The first rows, as many as the splits say; all, when they say more, which the operation refuses."""
    if tensor.shape.rank == 0 or not counts.dtype.is_integer or counts.shape == [0]:
        return tensor
    if _executing_eagerly():
        sent = int(counts.numpy().sum())
        return tensor[:sent] if 0 <= sent < tensor.shape[0] else tensor
    # In a graph always, so that graphs of ranks with different numbers have the same names.
    sent = tf.where(tf.size(counts) > 0, tf.reduce_sum(counts), tf.shape(tensor, counts.dtype)[0])
    return tensor[:tf.maximum(sent, 0)]


def _alltoall(tensor: Any, counts: Any, names: Tuple[str, str, int], process_set: ProcessSet) -> Tuple[Any, Any]:
    op_name, request, blocking = names
    result, received = _run(
        operations.cohort_alltoall,
        tensor=tensor, splits=counts, request=request, blocking=blocking, process_set_id=set_id_of(process_set),
        name=op_name)  # fmt: skip
    _set_first_dimension_open([result], [tensor])
    return result, received


@ops.RegisterGradient("CohortAlltoall")
def _alltoall_grad(op: Any, grad: Any, _: Any) -> List[Any]:
    process_set = process_set_by_id(op.get_attr("process_set_id"))
    names = _names("alltoall", None, [grad], False)
    return [_alltoall(grad, op.outputs[1], names, process_set)[0], None]


def _grouped_reducescatter(tensors: Sequence[Any], name: Optional[str] = None, op: int = Sum,
                           ignore_name_scope: bool = False, process_set: ProcessSet = global_process_set,
                           prescale_factor: float = 1.0, postscale_factor: float = 1.0) -> List[Any]:  # fmt: skip
    inputs = [_tensor(tensor) for tensor in tensors]
    if any(tensor.shape.rank == 0 for tensor in inputs):
        raise ValueError("reducescatter cuts the first dimension, and a scalar has none: give tensors of one or more")
    op_name, request, blocking = _names("reducescatter", name, inputs, ignore_name_scope)
    dtype = inputs[0].dtype
    results = list(_run(
        operations.cohort_reducescatter,
        tensors=inputs, request=request, reduce_op=op, prescale_bits=bits(prescale_factor, dtype),
        postscale_bits=bits(postscale_factor, dtype), process_set_id=set_id_of(process_set), blocking=blocking,
        name=op_name))  # fmt: skip
    _set_first_dimension_open(results, inputs)
    return results


def _reducescatter(tensor: Any, name: Optional[str] = None, op: int = Sum, ignore_name_scope: bool = False,
                   process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                   postscale_factor: float = 1.0) -> Any:  # fmt: skip
    return _grouped_reducescatter([tensor], name, op, ignore_name_scope, process_set, prescale_factor,
                                  postscale_factor)[0]  # fmt: skip


@ops.RegisterGradient("CohortReducescatter")
def _reducescatter_grad(op: Any, *grads: Any) -> List[Any]:
    process_set = process_set_by_id(op.get_attr("process_set_id"))
    scale = factor_of(op.get_attr("prescale_bits")) * factor_of(op.get_attr("postscale_bits"))
    if op.get_attr("reduce_op") == Sum:
        scale *= process_set.size() or 1
    if scale != 1.0:
        grads = tuple(grad * tf.cast(scale, grad.dtype) for grad in grads)
    return grouped_allgather(grads, process_set=process_set)


def join() -> Any:
    """This rank has no more data: until all have joined it takes part in allreduces with zeros. Returns the last rank
    that joined."""
    return _run(operations.cohort_join, request="join", blocking=1 if _executing_eagerly() else 0)


def _fact(fact: str, process_set_id: int, name: Optional[str]) -> Any:
    return _run(operations.cohort_fact, fact=_FACTS[fact], process_set_id=process_set_id, name=name)


def size_op(process_set_id: int = 0, name: Optional[str] = None) -> Any:
    """How many ranks there are when the operation runs."""
    return _fact("size", process_set_id, name)


def process_set_included_op(process_set_id: int = 0, name: Optional[str] = None) -> Any:
    """1 or 0: this rank is in the set or not, when the operation runs; -1: not initialized; -2: no such set."""
    return _fact("included", process_set_id, name)


def local_size_op(name: Optional[str] = None) -> Any:
    """How many ranks this host has when the operation runs."""
    return _fact("local_size", 0, name)


def rank_op(name: Optional[str] = None) -> Any:
    """This rank when the operation runs."""
    return _fact("rank", 0, name)


def local_rank_op(name: Optional[str] = None) -> Any:
    """This rank among those of the host when the operation runs."""
    return _fact("local_rank", 0, name)


for _operation in ("CohortFact", "CohortJoin"):
    ops.NotDifferentiable(_operation)


def set_size(process_set: ProcessSet) -> int:
    """How many ranks the set has now. ValueError: there is no such set in the open world."""
    return len(process_sets.ranks_of(set_id_of(process_set)))
