"""DistributedOptimizer with op=Adasum: what the ranks' own steps would change is combined, not their gradients."""

from __future__ import annotations

import weakref
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch

from cohort.common import requests
from cohort.common.basics import Adasum
from cohort.torch.collectives import ALLREDUCE
from cohort.torch.parameter_hooks import TOO_MANY_PASSES, ZERO_GRAD_TOO_EARLY, when_accumulated
from cohort.torch.parameter_names import name_parameters
from cohort.torch.tensors import in_place, like, on_host


class AdasumOptimizer:
    """What DistributedOptimizer(op=Adasum) adds to a class of optimizers.

    When the gradient of a parameter is there, the optimizer takes its step for this parameter alone; the change is
    submitted, and the parameter is as before until `step` adds the ranks' combined change.
    """

    param_groups: List[Dict[str, Any]]

    def _prepare(self, named_parameters: Any, compression: Any, backward_passes_per_step: int) -> None:
        self._parameter_names = name_parameters(self.param_groups, named_parameters)
        self._compression = compression
        self.backward_passes_per_step = backward_passes_per_step
        self._allreduce_delay = dict.fromkeys(self._parameter_names, backward_passes_per_step)
        self._handles: Dict[torch.Tensor, Optional[Tuple[requests.Handle, torch.Tensor, Any]]] = {}
        self._requires_update = [p for group in self.param_groups for p in group["params"] if p.requires_grad]
        this = weakref.ref(self)

        def hook(parameter: torch.Tensor) -> None:
            optimizer = this()
            if optimizer is not None:
                optimizer._accumulated(parameter)

        self._hooks = [when_accumulated(parameter, hook) for parameter in self._requires_update]

    def _accumulated(self, p: torch.Tensor) -> None:
        delay = self._allreduce_delay[p] - 1
        if delay < 0:
            raise AssertionError(TOO_MANY_PASSES)
        self._allreduce_delay[p] = delay
        self._handles[p] = None if delay else self._submit(p)

    def _change_of(self, p: torch.Tensor) -> torch.Tensor:
        """What a step for `p` alone adds to it. Puts `p` back."""
        base: Any = super()
        before = p.detach().clone()
        all_parameters = [group["params"] for group in self.param_groups]
        try:
            for group in self.param_groups:
                group["params"] = [p] if any(p is one for one in group["params"]) else []
            base.step()
        finally:
            for group, parameters in zip(self.param_groups, all_parameters):
                group["params"] = parameters
        with torch.no_grad():
            change = p.detach() - before
            p.copy_(before)
        return change

    def _submit(self, p: torch.Tensor) -> Tuple[requests.Handle, torch.Tensor, Any]:
        sent, ctx = self._compression.compress(self._change_of(p))
        used = on_host(sent)
        name = f"allreduce.{self._parameter_names[p]}"
        return requests.submit(ALLREDUCE, name, (in_place(used),), Adasum, keep=used), used, ctx

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """Adds the combined changes of all ranks to the parameters. Returns what `closure` returned."""
        loss = closure() if closure is not None else None
        try:
            for p in self._requires_update:
                if self._handles.get(p) is None:
                    self._handles[p] = self._submit(p)
            for p, entry in self._handles.items():
                assert entry is not None
                handle, used, ctx = entry
                handle.wait()
                with torch.no_grad():
                    p.add_(like(self._compression.decompress(used, ctx), p))
        finally:
            self._reset_handles()
        return loss

    step.hooked = True  # type: ignore[attr-defined]  # torch: the step of the base class calls its hooks

    def _reset_handles(self) -> None:
        self._handles = {}
        for p in self._allreduce_delay:
            self._allreduce_delay[p] = self.backward_passes_per_step

    def synchronize(self) -> None:
        """Nothing: there are no reduced gradients to wait for."""

    def skip_synchronize(self) -> Any:
        raise AssertionError("Skipping synchronization is not supported when using Adasum optimizer.")

    def zero_grad(self, *args: Any, **kwargs: Any) -> None:
        """As torch's. AssertionError between backward and step."""
        if self._handles:
            raise AssertionError(ZERO_GRAD_TOO_EARLY)
        base: Any = super()
        base.zero_grad(*args, **kwargs)

    def set_backward_passes_per_step(self, passes: int) -> None:
        self.backward_passes_per_step = passes
        self._reset_handles()

    def load_state_dict(self, *args: Any, **kwargs: Any) -> None:
        self._reset_handles()
        base: Any = super()
        base.load_state_dict(*args, **kwargs)
