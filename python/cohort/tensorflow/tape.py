"""Gradient tapes whose gradients are combined over the ranks."""

from __future__ import annotations

from typing import Any, List, Set, Tuple

import tensorflow as tf

from cohort.common.process_sets import ProcessSet, global_process_set
from cohort.tensorflow.compression import Compression
from cohort.tensorflow.gradients import Exchange, Groups, local_variables, mark_exchanged, reduce_but_local
from cohort.tensorflow.mpi_ops import Average
from cohort.tensorflow.util import key_of


class _DistributedGradientTape(tf.GradientTape):
    """Takes the place of a tape that has recorded, or will: it is a copy of it that shares the record."""

    _exchange: Exchange
    _local_sources: Set[Any]

    def register_local_source(self, source: Any) -> None:
        """The gradient of this variable stays this rank's own."""
        self._local_sources.add(key_of(source))

    def gradient(self, target: Any, sources: Any, output_gradients: Any = None, use_generic_names: bool = False,
                 unconnected_gradients: Any = tf.UnconnectedGradients.NONE) -> Any:  # fmt: skip
        """As tf.GradientTape's, combined over the ranks. use_generic_names: requests are called grad_0, grad_1, ..."""
        gradients = super().gradient(target, sources, output_gradients, unconnected_gradients)
        flat_sources: List[Any] = tf.nest.flatten(sources)
        flat = [gradients] if gradients is None or isinstance(gradients, tf.IndexedSlices) else _flat(gradients)
        reduced = reduce_but_local(self._exchange, flat, flat_sources, self._local_sources, use_generic_names)
        mark_exchanged(reduced, self._exchange.process_set)
        if isinstance(sources, (list, tuple)) and len(sources) == len(reduced):
            return reduced
        return tf.nest.pack_sequence_as(sources, reduced)

    def get_local_and_global_gradients(self, target: Any, sources: Any, output_gradients: Any = None,
                                       use_generic_names: bool = False) -> Tuple[List[Any], List[Any]]:  # fmt: skip
        """What gradient() gives as pairs (source, gradient): those of local sources, and the others."""
        pairs = list(zip(sources, self.gradient(target, sources, output_gradients, use_generic_names)))
        is_local = [key_of(source) in self._local_sources for source, _ in pairs]
        return ([pair for pair, local in zip(pairs, is_local) if local],
                [pair for pair, local in zip(pairs, is_local) if not local])  # fmt: skip


def _flat(gradients: Any) -> List[Any]:
    """The gradients in the order of the sources; IndexedSlices count as one."""
    if isinstance(gradients, dict):
        return [part for key in sorted(gradients) for part in _flat(gradients[key])]
    if isinstance(gradients, (list, tuple)):
        return [part for item in gradients for part in _flat(item)]
    return [gradients]


def DistributedGradientTape(gradtape: Any, device_dense: str = "", device_sparse: str = "",
                            compression: Any = Compression.none, sparse_as_dense: bool = False, op: int = Average,
                            gradient_predivide_factor: float = 1.0, num_groups: int = 0, groups: Groups = None,
                            process_set: ProcessSet = global_process_set,
                            scale_local_gradients: bool = True) -> Any:  # fmt: skip
    """A tape as `gradtape` whose gradient() combines what it computes over the ranks.

    groups: gradients that travel as one request: a number of groups, or lists of variables.
    gradient_predivide_factor: with op=Average, gradients are divided by it before they are summed, and the sum is
    multiplied by it and divided by the number of ranks.
    """
    exchange = Exchange("DistributedGradientTape", device_dense, device_sparse, compression, sparse_as_dense, op,
                        gradient_predivide_factor, groups, process_set, scale_local_gradients)  # fmt: skip
    original = type(gradtape)
    cls: Any = type(original.__name__, (_DistributedGradientTape, original) if original is not tf.GradientTape else
               (_DistributedGradientTape,), {})  # fmt: skip
    tape = cls.__new__(cls)
    tape.__dict__.update(gradtape.__dict__)
    tape._exchange = exchange.checked(num_groups)
    tape._local_sources = set()
    return tape


def PartialDistributedGradientTape(gradtape: Any, device_dense: str = "", device_sparse: str = "",
                                   compression: Any = Compression.none, sparse_as_dense: bool = False,
                                   op: int = Average, gradient_predivide_factor: float = 1.0, num_groups: int = 0,
                                   groups: Groups = None, process_set: ProcessSet = global_process_set,
                                   local_layers: Any = None, scale_local_gradients: bool = True) -> Any:  # fmt: skip
    """DistributedGradientTape that leaves the gradients of `local_layers` (a Keras layer or several) alone."""
    variables = local_variables(local_layers, tf.keras.layers.Layer)
    tape = DistributedGradientTape(gradtape, device_dense, device_sparse, compression, sparse_as_dense, op,
                                   gradient_predivide_factor, num_groups, groups, process_set,
                                   scale_local_gradients)  # fmt: skip
    for variable in variables:
        tape.register_local_source(variable)
    return tape
