"""DistributedOptimizer: a torch optimizer whose gradients are reduced over all ranks before each step."""

from __future__ import annotations

import os
import warnings
import weakref
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator, List, Optional, Set

import torch

from cohort.common import basics, requests
from cohort.common.basics import Adasum, Average
from cohort.common.exceptions import HorovodInternalError
from cohort.common.heap import keep_freed_memory
from cohort.common.process_sets import ProcessSet, global_process_set
from cohort.torch.adasum_optimizer import AdasumOptimizer
from cohort.torch.collectives import ALLREDUCE, number_of_set, sparse_allreduce_async
from cohort.torch.compression import Compression
from cohort.torch.group_gradients import GroupGradients
from cohort.torch.parameter_hooks import TOO_MANY_PASSES, ZERO_GRAD_TOO_EARLY, when_accumulated, wrapped
from cohort.torch.parameter_names import Group, check_groups, find_duplicates, make_groups, name_parameters
from cohort.torch.tensors import in_place, on_host, write_back

Finish = Callable[[], None]  # waits for a gradient, or a group of them, and puts it in place

_SYNCHRONIZED_TWICE = (
    "optimizer.step() called without optimizer.skip_synchronize() context after optimizer.synchronize(): it reduces "
    "the gradients again. Use `with optimizer.skip_synchronize(): optimizer.step()`."
)


def elastic() -> bool:
    return os.environ.get("HOROVOD_ELASTIC") == "1" or basics.job_info().elastic


class DistributedMixin:
    """What DistributedOptimizer adds to a class of optimizers.

    A gradient is submitted when backward has made it (`backward_passes_per_step` times). `synchronize`, which `step`
    calls, submits what backward did not reach on this rank, and waits for all. Confined to one thread, but for the
    hooks, which run where backward runs.
    """

    param_groups: List[Dict[str, Any]]

    def _prepare(self, named_parameters: Any, compression: Any, backward_passes_per_step: int, op: int,
                 gradient_predivide_factor: float, groups: Any, sparse_as_dense: bool,
                 process_set: ProcessSet) -> None:  # fmt: skip
        self._parameter_names = name_parameters(self.param_groups, named_parameters)
        check_groups(groups)
        self._compression = compression
        self.backward_passes_per_step = backward_passes_per_step
        self._allreduce_delay = dict.fromkeys(self._parameter_names, backward_passes_per_step)
        self.op = op
        self.gradient_predivide_factor = gradient_predivide_factor
        self.sparse_as_dense = sparse_as_dense
        self.process_set = process_set
        self._prescale, self._postscale = 1.0, 1.0
        if op == Average:  # the library divides by the number of ranks
            self._prescale, self._postscale = 1.0 / gradient_predivide_factor, gradient_predivide_factor
        self._request_names = {p: f"allreduce.{name}" for p, name in self._parameter_names.items()}
        self._handles: Dict[Any, Optional[Finish]] = {}  # by parameter or group; None: not submitted yet
        self._requires_update: Dict[torch.Tensor, None] = {}  # ordered, so that ranks submit alike
        self._synchronized = False
        self._should_synchronize = True
        self._groups = groups
        self._p_to_group: Dict[torch.Tensor, Group] = {}
        self._group_counts: Dict[Group, int] = {}
        self._hooks: List[Any] = []
        self._memory = GroupGradients() if compression is Compression.none else None
        if process_set.included() and (basics.size() > 1 or elastic()):
            keep_freed_memory(sum(p.numel() * p.element_size() for p in self._parameter_names))
            self._register_hooks()

    def _register_hooks(self) -> None:
        learned = [p for group in self.param_groups for p in group["params"] if p.requires_grad]
        self._requires_update = dict.fromkeys(learned)
        if self._groups is not None:
            self._p_to_group = make_groups(self._groups, learned, self._parameter_names, self.process_set)
            self._group_counts = dict.fromkeys(self._p_to_group.values(), 0)
        this = weakref.ref(self)  # a model outlives its optimizers

        def hook(parameter: torch.Tensor) -> None:
            optimizer = this()
            if optimizer is None:
                return
            try:
                optimizer._accumulated(parameter)
            except HorovodInternalError:
                optimizer._reset_handles()  # backward ends here: the others will not be submitted
                raise

        self._hooks = [when_accumulated(parameter, hook) for parameter in learned]

    def _accumulated(self, p: torch.Tensor) -> None:
        """Backward has added to the gradient of `p`."""
        delay = self._allreduce_delay[p] - 1
        if delay < 0:
            raise AssertionError(TOO_MANY_PASSES)
        self._allreduce_delay[p] = delay
        if delay:
            self._handles[p] = None
            return
        group = self._p_to_group.get(p)
        if group is None:
            self._handles[p] = self._submit(p)
            return
        self._handles[p] = None
        self._group_counts[group] += 1
        if self._group_counts[group] == len(group):
            for member in group:
                self._handles.pop(member, None)
            self._handles[group] = self._submit_group(group)

    def _dense_gradient(self, p: torch.Tensor) -> Any:
        grad = p.grad
        if grad is None:  # not computed here, but another rank may have
            grad = p.grad = torch.zeros_like(p, requires_grad=False)
        if grad.is_sparse:
            return grad.to_dense()
        if self._memory is not None:
            self._memory.take(p)  # to where a reduction copies nothing
        return p.grad

    def _submit(self, p: torch.Tensor) -> Finish:
        if p.grad is not None and p.grad.is_sparse and not self.sparse_as_dense:
            finish = sparse_allreduce_async(p.grad, self._parameter_names[p], self.op, self.process_set)
            return lambda: self._put(p, finish())
        grad = self._dense_gradient(p)
        sent, ctx = self._compression.compress(grad)
        used = on_host(sent, reduced=True)
        handle = requests.submit(ALLREDUCE, self._request_names[p], (in_place(used),), self.op,
                                 number_of_set(self.process_set), 0, self._prescale, self._postscale,
                                 keep=used)  # fmt: skip
        if used is p.grad:
            return handle.wait  # type: ignore[return-value]

        def put() -> None:
            handle.wait()
            self._put(p, self._compression.decompress(write_back(sent, used), ctx))

        return put

    def _submit_group(self, group: Group) -> Finish:
        pairs = [self._compression.compress(self._dense_gradient(p)) for p in group]
        used = [on_host(sent, reduced=True) for sent, _ in pairs]
        handle = requests.submit(ALLREDUCE, "grouped_" + self._request_names[group[0]], list(map(in_place, used)),
                                 self.op, number_of_set(self.process_set), 0, self._prescale, self._postscale,
                                 keep=used)  # fmt: skip

        def put() -> None:
            handle.wait()
            for p, (sent, ctx), one in zip(group, pairs, used):
                if one is not p.grad:
                    self._put(p, self._compression.decompress(write_back(sent, one), ctx))

        return put

    def _put(self, p: torch.Tensor, reduced: torch.Tensor) -> None:
        """The reduced gradient, in the form that the gradient has here."""
        assert p.grad is not None
        if p.grad.is_sparse:
            p.grad = reduced if reduced.is_sparse else reduced.to_sparse(p.grad.sparse_dim())
        elif reduced.is_sparse:
            p.grad = reduced.to_dense()
        elif reduced is not p.grad:
            with torch.no_grad():
                p.grad.copy_(reduced)

    def synchronize(self) -> None:
        """Returns when the gradients of all ranks are reduced, and in place; `skip_synchronize` goes with it."""
        self._synchronized = True
        if not self.process_set.included():
            return
        handles = self._handles
        submitted: Set[torch.Tensor] = set()
        for key, finish in handles.items():
            if finish is not None:
                submitted.update(key if isinstance(key, tuple) else (key,))
        try:
            for p in self._requires_update:
                if p not in submitted:
                    handles[p] = self._submit(p)
            for wait in handles.values():
                assert wait is not None
                wait()
        finally:
            self._reset_handles()

    def _reset_handles(self) -> None:
        self._handles = {}
        for p in self._allreduce_delay:
            self._allreduce_delay[p] = self.backward_passes_per_step
        for group in self._group_counts:
            self._group_counts[group] = 0

    @contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """Within it `step` takes the gradients as they are: after `synchronize`, and clipping, for example."""
        self._should_synchronize = False
        try:
            yield
        finally:
            self._should_synchronize = True

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """One step of the optimizer with reduced gradients. Those that `closure` computes are reduced, too."""
        base: Any = super()
        if not self._should_synchronize:
            self._synchronized = False
            return base.step(closure)
        if closure is None or self._handles:
            if self._synchronized:
                warnings.warn(_SYNCHRONIZED_TWICE, stacklevel=2)
            self.synchronize()
            self._synchronized = False
        if closure is None:
            return base.step()
        evaluate = closure

        def evaluate_and_reduce() -> Any:
            loss = evaluate()
            self.synchronize()
            return loss

        try:
            return base.step(evaluate_and_reduce)
        finally:
            self._synchronized = False

    step.hooked = True  # type: ignore[attr-defined]  # torch: the step of the base class calls its hooks

    def zero_grad(self, *args: Any, **kwargs: Any) -> None:
        """As torch's. AssertionError while gradients are being reduced."""
        if self._handles:
            raise AssertionError(ZERO_GRAD_TOO_EARLY)
        base: Any = super()
        base.zero_grad(*args, **kwargs)

    def set_backward_passes_per_step(self, passes: int) -> None:
        """From the next step on, gradients are reduced after so many backward passes."""
        self.backward_passes_per_step = passes
        for p in self._allreduce_delay:
            self._allreduce_delay[p] = passes

    def load_state_dict(self, *args: Any, **kwargs: Any) -> None:
        """As torch's. Reductions under way are forgotten."""
        self._reset_handles()
        self._synchronized = False
        self._should_synchronize = True
        base: Any = super()
        base.load_state_dict(*args, **kwargs)

    find_duplicates = staticmethod(find_duplicates)


def DistributedOptimizer(optimizer: torch.optim.Optimizer, named_parameters: Any = None,
                         compression: Any = Compression.none, backward_passes_per_step: int = 1, op: int = Average,
                         gradient_predivide_factor: float = 1.0, num_groups: int = 0, groups: Any = None,
                         sparse_as_dense: bool = False,
                         process_set: ProcessSet = global_process_set) -> Any:  # fmt: skip
    """An optimizer of the same class that reduces gradients over the ranks while backward computes them.

    named_parameters: `model.named_parameters()`; the names key the reductions. All parameters are named, or none.
    compression: what gradients are converted to while they are exchanged.
    backward_passes_per_step: gradients are added up locally for so many passes before they are reduced.
    op: how gradients are combined. Adasum combines steps instead of gradients.
    gradient_predivide_factor: with op=Average, gradients are divided by it before the sum, the sum by ranks / factor.
    groups: parameters whose gradients go together: a number of groups, or lists of parameters. Once num_groups.
    sparse_as_dense: sparse gradients are reduced as dense ones.
    process_set: the ranks that reduce among themselves.
    """
    if gradient_predivide_factor != 1.0 and op != Average:
        raise ValueError("gradient_predivide_factor not supported with op != Average")
    if backward_passes_per_step <= 0:
        raise ValueError(f"backward_passes_per_step must be at least 1, got {backward_passes_per_step}")
    if num_groups:
        warnings.warn("num_groups is now called groups", DeprecationWarning, stacklevel=2)
        groups = num_groups if groups is None else groups
    if op == Adasum and basics.size() > 1:
        if process_set is not global_process_set:
            raise NotImplementedError("Adasum does not support non-global process sets: leave process_set out")
        made = wrapped(optimizer, AdasumOptimizer)
        made._prepare(named_parameters, compression, backward_passes_per_step)
        return made
    made = wrapped(optimizer, DistributedMixin)
    made._prepare(named_parameters, compression, backward_passes_per_step, op, gradient_predivide_factor, groups,
                  sparse_as_dense, process_set)  # fmt: skip
    return made
