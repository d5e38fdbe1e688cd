"""What cohort.keras and cohort.tensorflow.keras share: optimizers of Keras 2 and 3 on TensorFlow and torch.

An optimizer is made distributed by a class that derives from its own, under the same name, so that a saved model
loads without this package. It exchanges gradients in the method that the Keras at hand really calls.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

from cohort._keras import jit
from cohort._keras.optimizers import Distributed, DistributedKeras2, DistributedKeras3, Settings
from cohort.common.basics import Average, Sum


def is_keras_3(optimizer: Any) -> bool:
    return hasattr(optimizer, "stateless_apply")


def is_optimizer(optimizer: Any) -> bool:
    return hasattr(optimizer, "get_config") and hasattr(optimizer, "apply_gradients")


def check_op(op: int) -> None:
    """ValueError for what Keras optimizers cannot combine gradients with."""
    if op not in (Average, Sum):
        raise ValueError("Keras optimizers combine gradients with op=Average or op=Sum only")


def backend_of(optimizer: Any) -> str:
    """ "tensorflow" or "torch". ValueError for others, which have no collectives here."""
    if not is_keras_3(optimizer):
        return "tensorflow"
    import keras

    backend = str(keras.backend.backend())
    if backend not in ("tensorflow", "torch"):
        raise ValueError(f"Keras runs on {backend}, where gradients cannot be exchanged: "
                         "set KERAS_BACKEND to tensorflow or torch")  # fmt: skip
    return backend


def _distributed_class(cls: Any, settings: Settings) -> Any:
    mixin = DistributedKeras3 if hasattr(cls, "stateless_apply") else DistributedKeras2
    return type(cls.__name__, (mixin, cls), {"_settings": settings, "__module__": cls.__module__})


def distribute(optimizer: Any, exchange: Any, name: Optional[str] = None, backward_passes_per_step: int = 1,
               average_aggregated_gradients: bool = False, local_vars: Sequence[Any] = ()) -> Any:  # fmt: skip
    """A new optimizer with the configuration of this one that exchanges gradients. `exchange`: of the backend."""
    check_op(exchange.op)
    settings = Settings(exchange, backend_of(optimizer), backward_passes_per_step, average_aggregated_gradients)
    cls = _distributed_class(type(optimizer), settings)
    if settings.backend == "tensorflow" and is_keras_3(optimizer):
        jit.leave_out_distributed(Distributed)
    made = cls.from_config(optimizer.get_config())
    if name is not None:
        made._name = name
    for variable in local_vars:
        made.register_local_var(variable)
    return made


def distribute_loaded(optimizer: Any, exchange: Any) -> None:
    """Makes the optimizer of a loaded model a distributed one; it keeps its state."""
    settings = Settings(exchange, backend_of(optimizer), 1, False)
    if settings.backend == "tensorflow" and is_keras_3(optimizer):
        jit.leave_out_distributed(Distributed)
    optimizer.__class__ = _distributed_class(type(optimizer), settings)


def load_model(keras: Any, exchange: Any, filepath: Any, custom_optimizers: Optional[Sequence[Any]] = None,
               custom_objects: Optional[Dict[str, Any]] = None) -> Any:  # fmt: skip
    """A saved model whose optimizer exchanges gradients, whether or not it did when it was saved."""
    objects: Dict[str, Any] = {cls.__name__: cls for cls in custom_optimizers or ()}
    objects.update(custom_objects or {})
    model = keras.models.load_model(filepath, custom_objects=objects)
    optimizer = getattr(model, "optimizer", None)
    if optimizer is not None and not isinstance(optimizer, Distributed):
        distribute_loaded(optimizer, exchange)
    return model


def local_variables(local_layers: Any, keras: Any) -> List[Any]:
    """The trainable weights of layers that are not to be exchanged."""
    layers = [] if local_layers is None else local_layers
    layers = [layers] if isinstance(layers, keras.layers.Layer) else list(layers)
    if not all(isinstance(layer, keras.layers.Layer) for layer in layers):
        raise ValueError(f"local_layers must be Keras layers, not {local_layers!r}")
    return [variable for layer in layers for variable in layer.trainable_weights]
