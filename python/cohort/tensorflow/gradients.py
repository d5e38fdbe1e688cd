"""The exchange of gradients that tapes and optimizers share."""

from __future__ import annotations

import warnings
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple, Union

import tensorflow as tf

from cohort.common.process_sets import ProcessSet, global_process_set
from cohort.common.util import split_list
from cohort.tensorflow.collectives import allreduce, grouped_allreduce, size_for
from cohort.tensorflow.compression import Compression
from cohort.tensorflow.mpi_ops import Average, set_size
from cohort.tensorflow.util import _executing_eagerly, is_elastic, key_of

Groups = Union[None, int, List[List[Any]]]


class Exchange(NamedTuple):
    """How gradients are combined: the arguments that tapes and optimizers have in common."""

    name: str
    device_dense: str = ""
    device_sparse: str = ""
    compression: Any = Compression.none
    sparse_as_dense: bool = False
    op: int = Average
    gradient_predivide_factor: float = 1.0
    groups: Groups = None
    process_set: ProcessSet = global_process_set
    scale_local_gradients: bool = True

    def checked(self, num_groups: int = 0) -> Exchange:
        """Itself, with num_groups as the groups that it stands for. ValueError for what does not go together."""
        if self.gradient_predivide_factor != 1.0 and self.op != Average:
            raise ValueError("gradient_predivide_factor splits an average: it needs op=Average")
        groups = self.groups
        if num_groups != 0:
            warnings.warn("num_groups is called groups now", DeprecationWarning, stacklevel=4)
            groups = num_groups if groups is None else groups
        if groups is not None and not isinstance(groups, list) and not groups > 0:
            raise ValueError(f"groups is {groups}: give a number of groups, 1 or more, or a list of lists of variables")
        return self._replace(groups=groups)


def is_needed(process_set: ProcessSet) -> bool:
    """Whether there are other ranks to exchange with; always so for a graph in a job whose ranks come and go."""
    if is_elastic() and process_set.process_set_id == 0:
        return True
    return bool(process_set.included()) and set_size(process_set) > 1


def _grouped_places(groups: Groups, grads: Sequence[Any], variables: Sequence[Any]) -> List[List[int]]:
    """Which gradients travel together, by their places."""
    places = [place for place, grad in enumerate(grads) if grad is not None]
    if isinstance(groups, list):
        place_of: Dict[Any, int] = {key_of(variable): place for place, variable in enumerate(variables)}
        keys = [[key_of(variable) for variable in group] for group in groups]
        chosen = [[place_of[key] for key in group if key in place_of] for group in keys]
        named = {place for group in chosen for place in group}
        chosen = [[place for place in group if place in places] for group in chosen]
        chosen += [[place] for place in places if place not in named]
        return [group for group in chosen if group]
    if groups is not None:
        return [list(part) for part in split_list(places, groups) if part]
    # One eager call for all is one request; in a graph each starts when it is computed.
    return [places] if _executing_eagerly() and places else [[place] for place in places]


def reduce_gradients(exchange: Exchange, grads: Sequence[Any], variables: Optional[Sequence[Any]] = None,
                     use_generic_names: bool = False) -> List[Any]:  # fmt: skip
    """The gradients combined over the ranks; None where there is none."""
    grads = list(grads)
    if not is_needed(exchange.process_set):
        return grads
    with tf.name_scope(exchange.name + "_Allreduce"):
        if exchange.sparse_as_dense:
            grads = [tf.convert_to_tensor(grad) if isinstance(grad, tf.IndexedSlices) else grad for grad in grads]
        split = exchange.op == Average
        common: Dict[str, Any] = {
            "device_dense": exchange.device_dense, "device_sparse": exchange.device_sparse,
            "compression": exchange.compression, "op": exchange.op, "process_set": exchange.process_set,
            "ignore_name_scope": use_generic_names,
            "prescale_factor": 1.0 / exchange.gradient_predivide_factor if split else 1.0,
            "postscale_factor": exchange.gradient_predivide_factor if split else 1.0,
        }  # fmt: skip
        results: List[Any] = [None] * len(grads)
        for number, places in enumerate(_grouped_places(exchange.groups, grads, variables or [])):
            name = f"grad_{number}" if use_generic_names else None
            if len(places) == 1:
                results[places[0]] = allreduce(grads[places[0]], name=name, **common)
                continue
            if name is None and _executing_eagerly():
                name = f"{exchange.name}.{number}"
            reduced = grouped_allreduce([grads[place] for place in places], name=name, **common)
            for place, result in zip(places, reduced):
                results[place] = result
        return results


def _scaled(grad: Any, process_set: ProcessSet) -> Any:
    if isinstance(grad, tf.IndexedSlices):
        return tf.IndexedSlices(grad.values / size_for(process_set, grad.values.dtype), grad.indices, grad.dense_shape)
    return grad / size_for(process_set, grad.dtype)


def scale_local(exchange: Exchange, grads: Sequence[Any], variables: Sequence[Any], local: Set[Any]) -> List[Any]:
    """Gradients of local variables divided by the number of ranks, as averages of the others are."""
    if not local or not exchange.scale_local_gradients:
        return list(grads)
    return [_scaled(grad, exchange.process_set) if grad is not None and key_of(variable) in local else grad
            for grad, variable in zip(grads, variables)]  # fmt: skip


def reduce_but_local(exchange: Exchange, grads: Sequence[Any], variables: Sequence[Any], local: Set[Any],
                     use_generic_names: bool = False) -> List[Any]:  # fmt: skip
    """reduce_gradients of all but those of the variables in `local` (keys), which stay this rank's own."""
    places = [place for place, variable in enumerate(variables) if key_of(variable) not in local]
    results = list(grads)
    reduced = reduce_gradients(exchange, [grads[place] for place in places], [variables[place] for place in places],
                               use_generic_names)  # fmt: skip
    for place, result in zip(places, reduced):
        results[place] = result
    return scale_local(exchange, results, variables, local)


def mark_exchanged(grads: Sequence[Any], process_set: ProcessSet) -> None:
    """Notes on the gradients themselves that they are as they are to be applied. What is computed from them has no
    such note."""
    for grad in grads:
        if grad is not None:
            grad._cohort_exchanged_in = process_set.process_set_id


def is_exchanged(grad: Any, process_set: ProcessSet) -> bool:
    found = getattr(grad, "_cohort_exchanged_in", None)
    return found is not None and found == process_set.process_set_id


def local_variables(local_layers: Any, layer_class: Any) -> List[Any]:
    """The trainable weights of layers that are not to be exchanged."""
    if local_layers is None:
        layers: Tuple[Any, ...] = ()
    elif isinstance(local_layers, layer_class):
        layers = (local_layers,)
    else:
        layers = tuple(local_layers)
    if not all(isinstance(layer, layer_class) for layer in layers):
        raise ValueError(f"local_layers must be Keras layers, not {local_layers!r}")
    return [variable for layer in layers for variable in layer.trainable_weights]


def _make_allreduce_grads_fn(name: str, device_dense: str, device_sparse: str, compression: Any, sparse_as_dense: bool,
                             op: int, gradient_predivide_factor: float, groups: Groups,
                             process_set: ProcessSet) -> Any:  # fmt: skip
    """A function of (gradients, variables=None, use_generic_names=False) with these arguments fixed."""
    exchange = Exchange(name, device_dense, device_sparse, compression, sparse_as_dense, op, gradient_predivide_factor,
                        groups, process_set)  # fmt: skip

    def allreduce_grads(grads: Sequence[Any], vars: Optional[Sequence[Any]] = None,
                        use_generic_names: bool = False) -> List[Any]:  # fmt: skip
        return reduce_gradients(exchange, grads, vars, use_generic_names)

    return allreduce_grads
