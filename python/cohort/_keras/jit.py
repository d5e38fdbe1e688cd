"""Keras 3 compiles training steps with XLA by itself, which cannot compile the exchange of gradients."""

from __future__ import annotations

import functools
from typing import Any

_replaced = False


def leave_out_distributed(mixin: type) -> None:
    """From now on Keras answers "does not support jit" for models whose optimizer derives from `mixin`: jit_compile of
    compile() is "auto" by default, and means no for them."""
    global _replaced
    if _replaced:
        return
    from keras.src.trainers import trainer

    supports = trainer.model_supports_jit

    @functools.wraps(supports)
    def supports_jit(model: Any) -> bool:
        optimizer = getattr(model, "optimizer", None)
        inner = getattr(optimizer, "inner_optimizer", optimizer)  # of a LossScaleOptimizer
        if isinstance(optimizer, mixin) or isinstance(inner, mixin):
            return False
        return bool(supports(model))

    trainer.model_supports_jit = supports_jit
    _replaced = True
