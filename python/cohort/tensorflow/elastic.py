"""Elastic training in TensorFlow: see cohort.common.elastic."""

from __future__ import annotations

from typing import Any, Callable, List, Optional

import numpy
import tensorflow as tf

from cohort._keras.elastic import ModelState as TensorFlowKerasState, assign, values_of
from cohort.common.basics import rank
from cohort.common.elastic import ObjectState, reset_world, run_fn
from cohort.common.objects import broadcast_object
from cohort.tensorflow.util import as_cohort_error

__all__ = ["TensorFlowKerasState", "TensorFlowState", "run"]


def run(func: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a training function, whose first argument is a State: it is called again when workers change.

    Collectives belong inside of it, or after it; a worker that joins later runs nothing of what stands before it
    at the same time as the others.
    """
    return run_fn(func, reset_world, as_cohort_error)


class TensorFlowState(ObjectState):
    """Variables of TensorFlow, and further objects by name.

    Args:
        variables: the global ones when None.
        session: of TensorFlow 1; the default session when None.
        kwargs: picklable objects; each becomes an attribute.
    """

    def __init__(self, variables: Optional[List[Any]] = None, session: Any = None, **kwargs: Any) -> None:
        self.variables = list(variables or tf.compat.v1.global_variables())
        self.session = session or (None if tf.executing_eagerly() else tf.compat.v1.get_default_session())
        self._values = self._read()
        super().__init__(bcast_object=broadcast_object, get_rank=rank, **kwargs)

    def save(self) -> None:
        self._values = self._read()
        super().save()

    def restore(self) -> None:
        self._write(self._values)
        super().restore()

    def sync(self) -> None:
        values = broadcast_object(self._read(), root_rank=0)
        super().sync()
        self._values = values
        self._write(values)

    def _read(self) -> List[numpy.ndarray]:
        if self.session is not None:
            return list(self.session.run(self.variables))
        return values_of(self.variables)

    def _write(self, values: List[numpy.ndarray]) -> None:
        if self.session is None:
            assign(self.variables, values)
            return
        for variable, value in zip(self.variables, values):
            variable.load(value, self.session)
