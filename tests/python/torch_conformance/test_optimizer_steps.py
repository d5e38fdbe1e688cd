"""DistributedOptimizer between backward and step: several passes, synchronize, zero_grad, closures, sparse, Adasum."""

import warnings

import torch
from conformance import Case, over
from models import average_step, is_same_everywhere, loss_of, make_model, step, weights

import cohort.torch as hvd


class Steps(Case):
    def setUp(self):
        super().setUp()
        self.model = make_model()

    def make(self, rate=0.1, **options):
        inner = torch.optim.SGD(self.model.parameters(), lr=rate)
        return hvd.DistributedOptimizer(inner, self.model.named_parameters(), **options)

    def backward(self, rank=None):
        loss_of(self.model, self.rank if rank is None else rank).backward()

    @over(True, False)
    def test_zero_grad(self, set_to_none):
        optimizer = self.make()
        for _ in range(2):
            optimizer.zero_grad(set_to_none=set_to_none)
            self.backward()
            optimizer.step()
        optimizer.zero_grad(set_to_none=set_to_none)
        self.assertEqual(self.model[0].weight.grad is None, set_to_none)

    def test_zero_grad_between_backward_and_step_is_refused(self):
        self.need_ranks()
        optimizer = self.make()
        self.backward()
        with self.assertRaises(AssertionError):
            optimizer.zero_grad()
        optimizer.step()
        optimizer.zero_grad()

    def test_zero_grad_after_synchronize(self):
        optimizer = self.make()
        self.backward()
        optimizer.synchronize()
        optimizer.zero_grad()

    def test_too_many_passes_are_refused(self):
        self.need_ranks()
        optimizer = self.make()
        self.backward()
        with self.assertRaises(AssertionError):
            self.backward()
        optimizer.step()

    @over(2, 3)
    def test_backward_passes_per_step(self, passes):
        optimizer, alone = self.make(backward_passes_per_step=passes), make_model()
        other = torch.optim.SGD(alone.parameters(), lr=0.1 * passes)
        for _ in range(2):
            optimizer.zero_grad()
            for _ in range(passes):
                self.backward()
            optimizer.step()
            average_step(alone, other, range(self.size))
        self.assert_same(weights(self.model), weights(alone), 1e-5)

    @over("groups", "no groups")
    def test_a_step_before_all_passes(self, groups):
        options = {"groups": 2} if groups == "groups" else {}
        optimizer = self.make(backward_passes_per_step=3, **options)
        for passes in (1, 2, 3):
            optimizer.zero_grad()
            for _ in range(passes):
                self.backward()
            optimizer.step()
            self.assertTrue(is_same_everywhere(weights(self.model)))

    def test_set_backward_passes_per_step(self):
        optimizer = self.make()
        optimizer.set_backward_passes_per_step(2)
        self.assertEqual(optimizer.backward_passes_per_step, 2)
        self.backward()
        self.backward()
        optimizer.step()
        self.assertTrue(is_same_everywhere(weights(self.model)))

    def test_synchronize_and_clip(self):
        optimizer = self.make()
        self.backward()
        optimizer.synchronize()
        before = self.model[0].weight.grad.clone()
        self.assertTrue(is_same_everywhere(before))
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1e-3)
        clipped = self.model[0].weight.grad.clone()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with optimizer.skip_synchronize():
                optimizer.step()
        self.assert_same(self.model[0].weight.grad, clipped)
        self.assertLess(clipped.norm(), before.norm())

    def test_synchronize_then_step_warns(self):
        self.need_ranks()
        optimizer = self.make()
        self.backward()
        optimizer.synchronize()
        with self.assertWarnsRegex(UserWarning, "called without optimizer.skip_synchronize"):
            optimizer.step()

    def test_a_step_without_backward(self):
        before = weights(self.model)
        self.make().step()
        self.assert_same(weights(self.model), before)

    def test_closure(self):
        optimizer, alone = self.make(), make_model()
        other = torch.optim.SGD(alone.parameters(), lr=0.1)

        def closure():
            optimizer.zero_grad()
            loss = loss_of(self.model, self.rank)
            loss.backward()
            return loss

        for _ in range(3):
            self.assertGreater(optimizer.step(closure).item(), 0)
            average_step(alone, other, range(self.size))
        self.assert_same(weights(self.model), weights(alone), 1e-6)

    def test_closure_of_lbfgs(self):
        optimizer = hvd.DistributedOptimizer(torch.optim.LBFGS(self.model.parameters(), max_iter=3),
                                             self.model.named_parameters())  # fmt: skip

        def closure():
            optimizer.zero_grad()
            loss = loss_of(self.model, self.rank)
            loss.backward()
            return hvd.allreduce(loss.detach())

        before = hvd.allreduce(loss_of(self.model, self.rank).detach()).item()
        optimizer.step(closure)
        self.assertLess(hvd.allreduce(loss_of(self.model, self.rank).detach()).item(), before)
        self.assertTrue(is_same_everywhere(weights(self.model)))

    def test_what_closure_returns(self):
        self.backward()
        self.assertEqual(self.make().step(lambda: 5), 5)

    def test_load_state_dict_forgets_what_was_under_way(self):
        optimizer = self.make()
        self.backward()
        hvd.barrier()
        optimizer.load_state_dict(optimizer.state_dict())
        hvd.allreduce(torch.ones(1))
        optimizer.zero_grad()

    def test_ranks_that_compute_gradients_in_other_orders(self):
        optimizer = self.make()
        optimizer.zero_grad()
        for parameter in list(self.model.parameters())[:: 1 if self.rank % 2 else -1]:
            (parameter.sum() * (self.rank + 1)).backward()
        optimizer.step()
        self.assertTrue(is_same_everywhere(weights(self.model)))

    def test_gradients_of_a_mismatch_raise_and_leave_it_usable(self):
        self.need_ranks()
        optimizer = self.make()
        odd = torch.nn.Linear(2 + (self.rank == 0), 1)
        broken = hvd.DistributedOptimizer(torch.optim.SGD(odd.parameters(), lr=0.1), odd.named_parameters())
        odd(torch.ones(1, odd.in_features)).sum().backward()
        with self.assertRaises(hvd.HorovodInternalError):
            broken.step()
        broken.zero_grad()
        step(self.model, optimizer, self.rank)


class Sparse(Case):
    def train(self, sparse_as_dense, kind):
        torch.manual_seed(3)
        model = torch.nn.Embedding(10, 3, sparse=True)
        optimizer = hvd.DistributedOptimizer(kind(list(model.parameters()), lr=0.1), sparse_as_dense=sparse_as_dense)
        places = torch.tensor([[1, 2, 4, 5], [4, 3, 2, 9]] if self.rank == 0 else [[1, 3, 4], [4, 7, 9]])
        for _ in range(2):
            optimizer.zero_grad()
            model(places).sum().backward()
            optimizer.step()
        return model.weight.detach()

    @over(torch.optim.SGD, torch.optim.SparseAdam)
    def test_embedding(self, kind):
        sparse, dense = self.train(False, kind), self.train(True, kind)
        self.assertTrue(is_same_everywhere(sparse))
        self.assert_same(sparse, dense, 1e-5)

    @over(hvd.Sum, hvd.Average)
    def test_allreduce(self, op):
        dense = [self.values((d, 4)) * (self.values((d, 4)) > 3) for d in (3, 8, 1)]
        waits = [hvd.sparse_allreduce_async(t.to_sparse(), name=f"sparse.{i}", op=op) for i, t in enumerate(dense)]
        for tensor, wait in zip(dense, waits):
            reduced = wait()
            self.assertTrue(reduced.is_sparse)
            self.assert_same(reduced.to_dense(), hvd.allreduce(tensor, op=op), 1e-5)

    def test_allreduce_of_nothing(self):
        empty = torch.zeros(4, 3).to_sparse(1)
        self.assert_same(hvd.sparse_allreduce_async(empty, "nothing", hvd.Sum)().to_dense(), torch.zeros(4, 3))

    def test_other_operations_and_dense_tensors_are_refused(self):
        with self.assertRaises(ValueError):
            hvd.sparse_allreduce_async(torch.eye(2).to_sparse(), "max", hvd.Max)
        with self.assertRaises(ValueError):
            hvd.sparse_allreduce_async(torch.eye(2), "dense", hvd.Sum)


class AdasumSteps(Case):
    def make(self, model, **options):
        inner = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        return hvd.DistributedOptimizer(inner, model.named_parameters(), op=hvd.Adasum, **options)

    def test_the_same_gradients_give_the_same_steps(self):
        model, alone = make_model(), make_model()
        optimizer, other = self.make(model), torch.optim.SGD(alone.parameters(), lr=0.1, momentum=0.9)
        for _ in range(3):
            step(model, optimizer, 0)
            step(alone, other, 0)
        self.assert_same(weights(model), weights(alone), 1e-5)

    @over(1, 2)
    def test_ranks_end_with_the_same_weights(self, passes):
        model = make_model()
        optimizer = self.make(model, backward_passes_per_step=passes)
        for _ in range(3):
            optimizer.zero_grad()
            for _ in range(passes):
                loss_of(model, self.rank).backward()
            optimizer.step()
        self.assertTrue(is_same_everywhere(weights(model)))

    def test_refusals(self):
        self.need_ranks()
        model = make_model()
        optimizer = self.make(model)
        loss_of(model, self.rank).backward()
        with self.assertRaises(AssertionError):
            optimizer.zero_grad()
        with self.assertRaises(AssertionError):
            with optimizer.skip_synchronize():
                pass
        optimizer.step()
