"""allreduce and reducescatter of what TensorFlow programs have: dense tensors, variables, IndexedSlices."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence

import tensorflow as tf

from cohort.common.process_sets import ProcessSet, global_process_set
from cohort.tensorflow.compression import Compression
from cohort.tensorflow.mpi_ops import (
    Adasum, Average, Sum, _grouped_allreduce, _grouped_reducescatter, check_num_rank_power_of_2, grouped_allgather,
    handle_average_backwards_compatibility, set_size, size_op,
)  # fmt: skip
from cohort.tensorflow.util import is_elastic


def _dense(tensor: Any) -> Any:
    return tensor if isinstance(tensor, (tf.Tensor, tf.Variable)) else tf.convert_to_tensor(tensor)


def size_for(process_set: ProcessSet, dtype: tf.DType) -> Any:
    """The number of ranks as a divisor: a constant, or where ranks come and go what it is when the graph runs."""
    size = set_size(process_set)
    return tf.cast(size_op(process_set.process_set_id or 0) if is_elastic() else size, dtype)


def _check_sparse(op: int, prescale_factor: float, postscale_factor: float) -> None:
    if op == Adasum:
        raise NotImplementedError("Adasum cannot combine tf.IndexedSlices: give sparse_as_dense=True to the optimizer")
    if op not in (Sum, Average):
        raise NotImplementedError("tf.IndexedSlices can be combined with Sum and Average only")
    if prescale_factor != 1.0 or postscale_factor != 1.0:
        raise NotImplementedError("prescale_factor and postscale_factor do not apply to tf.IndexedSlices")


def _check_adasum(process_set: ProcessSet) -> None:
    if process_set.process_set_id != 0:
        raise NotImplementedError("Adasum combines all ranks: process sets are not supported with it")
    if not check_num_rank_power_of_2(set_size(process_set)):
        raise NotImplementedError("Adasum needs a number of ranks that is a power of two")


def _combine_slices(slices: Sequence[Any], op: int, ignore_name_scope: bool, process_set: ProcessSet) -> List[Any]:
    """The rows of all ranks, with their indices: their sum is what the dense tensors would have summed to."""
    values = grouped_allgather([part.values for part in slices], ignore_name_scope=ignore_name_scope,
                               process_set=process_set)  # fmt: skip
    indices = grouped_allgather([part.indices for part in slices], ignore_name_scope=ignore_name_scope,
                                process_set=process_set)  # fmt: skip
    if op == Average:
        values = [value / size_for(process_set, value.dtype) for value in values]
    return [tf.IndexedSlices(value, index, dense_shape=part.dense_shape)
            for value, index, part in zip(values, indices, slices)]  # fmt: skip


def grouped_allreduce(tensors: Sequence[Any], average: Optional[bool] = None, device_dense: str = "",
                      device_sparse: str = "", compression: Any = Compression.none, op: Optional[int] = None,
                      prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                      process_set: ProcessSet = global_process_set, ignore_name_scope: bool = False,
                      name: Optional[str] = None) -> List[Any]:  # fmt: skip
    """Combines the tensors of all ranks, position by position, as one request. IndexedSlices are gathered instead.

    op: Average (None), Sum, Min, Max, Product, Adasum. Results have the types of the tensors.
    """
    if not tensors:
        return list(tensors)
    reduce_op = handle_average_backwards_compatibility(op, average)
    tensors = list(tensors)
    sparse = [place for place, tensor in enumerate(tensors) if isinstance(tensor, tf.IndexedSlices)]
    dense = [place for place in range(len(tensors)) if place not in sparse]
    set_size(process_set)  # refuses a set that is not of this world
    results: List[Any] = [None] * len(tensors)
    if sparse:
        _check_sparse(reduce_op, prescale_factor, postscale_factor)
        with tf.device(device_sparse):
            combined = _combine_slices([tensors[place] for place in sparse], reduce_op, ignore_name_scope, process_set)
        for place, result in zip(sparse, combined):
            results[place] = result
    if dense:
        if reduce_op == Adasum:
            _check_adasum(process_set)
        with tf.device(device_dense):
            packed = [compression.compress(_dense(tensors[place])) for place in dense]
            reduced = _grouped_allreduce([tensor for tensor, _ in packed], name=name, op=reduce_op,
                                         prescale_factor=prescale_factor, postscale_factor=postscale_factor,
                                         ignore_name_scope=ignore_name_scope, process_set=process_set)  # fmt: skip
            for place, result, (_, context) in zip(dense, reduced, packed):
                results[place] = compression.decompress(result, context)
    return results


def allreduce(tensor: Any, average: Optional[bool] = None, device_dense: str = "", device_sparse: str = "",
              compression: Any = Compression.none, op: Optional[int] = None, prescale_factor: float = 1.0,
              postscale_factor: float = 1.0, name: Optional[str] = None, process_set: ProcessSet = global_process_set,
              ignore_name_scope: bool = False) -> Any:  # fmt: skip
    """Combines the tensors of all ranks; see grouped_allreduce."""
    return grouped_allreduce([tensor], average, device_dense, device_sparse, compression, op, prescale_factor,
                             postscale_factor, process_set, ignore_name_scope, name)[0]  # fmt: skip


def _reducescatter_list(tensors: Sequence[Any], device_dense: str, compression: Any, op: int, name: Optional[str],
                        process_set: ProcessSet, ignore_name_scope: bool, prescale_factor: float,
                        postscale_factor: float) -> List[Any]:  # fmt: skip
    set_size(process_set)
    with tf.device(device_dense):
        packed = [compression.compress(_dense(tensor)) for tensor in tensors]
        reduced = _grouped_reducescatter([tensor for tensor, _ in packed], name=name, op=op, process_set=process_set,
                                         ignore_name_scope=ignore_name_scope, prescale_factor=prescale_factor,
                                         postscale_factor=postscale_factor)  # fmt: skip
        return [compression.decompress(result, context) for result, (_, context) in zip(reduced, packed)]


def reducescatter(tensor: Any, device_dense: str = "", compression: Any = Compression.none, op: int = Average,
                  name: Optional[str] = None, process_set: ProcessSet = global_process_set,
                  ignore_name_scope: bool = False, prescale_factor: float = 1.0,
                  postscale_factor: float = 1.0) -> Any:  # fmt: skip
    """Combines the tensors of all ranks and gives each a part of the result, cut by the first dimension; the first
    ranks get one row more where it does not divide."""
    return _reducescatter_list([tensor], device_dense, compression, op, name, process_set, ignore_name_scope,
                               prescale_factor, postscale_factor)[0]  # fmt: skip


def grouped_reducescatter(tensors: Sequence[Any], device_dense: str = "", compression: Any = Compression.none,
                          op: int = Average, process_set: ProcessSet = global_process_set,
                          prescale_factor: float = 1.0, postscale_factor: float = 1.0) -> List[Any]:  # fmt: skip
    """reducescatter of each tensor of the list, as one request."""
    if not tensors:
        return list(tensors)
    return _reducescatter_list(tensors, device_dense, compression, op, None, process_set, False, prescale_factor,
                               postscale_factor)  # fmt: skip
