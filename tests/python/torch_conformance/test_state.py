"""broadcast_parameters, broadcast_optimizer_state, objects, compression, SyncBatchNorm."""

import torch
from conformance import Case, over
from models import is_same_everywhere, make_model, optimizer_classes, step, weights

import cohort.torch as hvd


class Parameters(Case):
    @over("state_dict", "named_parameters", "named_parameters_list", "parameters_list")
    def test_forms(self, form):
        model = make_model(seed=self.rank)
        forms = {"state_dict": model.state_dict, "named_parameters": model.named_parameters,
                 "named_parameters_list": lambda: list(model.named_parameters()),
                 "parameters_list": lambda: list(model.parameters())}  # fmt: skip
        hvd.broadcast_parameters(forms[form](), root_rank=self.size - 1)
        self.assert_same(weights(model), weights(make_model(seed=self.size - 1)))

    def test_buffers_of_other_dtypes(self):
        model = torch.nn.Sequential(make_model(seed=self.rank), torch.nn.BatchNorm1d(2))
        model[1].num_batches_tracked.fill_(self.rank + 7)
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        self.assertEqual(model[1].num_batches_tracked.item(), 7)

    @over(5, None)
    def test_what_has_no_parameters_is_refused(self, value):
        with self.assertRaises(ValueError):
            hvd.broadcast_parameters(value, root_rank=0)

    def test_what_is_no_tensor_is_refused(self):
        with self.assertRaises(ValueError):
            hvd.broadcast_parameters({"a": 5}, root_rank=0)


class OptimizerState(Case):
    def states(self, optimizer):
        tensors = []
        for state in optimizer.state_dict()["state"].values():
            tensors += [torch.as_tensor(value, dtype=torch.float64).reshape(-1) for _, value in sorted(state.items())
                        if value is not None]  # fmt: skip
        return torch.cat(tensors) if tensors else torch.zeros(0, dtype=torch.float64)

    @over(*optimizer_classes())
    def test_of_a_root_that_has_trained(self, kind):
        model = make_model(seed=self.rank)
        optimizer = kind(model.parameters(), lr=0.01 * (self.rank + 1))
        if self.rank == 0:
            step(model, optimizer, 0)
            step(model, optimizer, 1)
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        hvd.broadcast_optimizer_state(optimizer, root_rank=0)
        self.assertTrue(is_same_everywhere(self.states(optimizer)))
        self.assertAlmostEqual(optimizer.param_groups[0]["lr"], 0.01)
        optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())
        step(model, optimizer, self.rank)
        self.assertTrue(is_same_everywhere(weights(model)))

    def test_of_all_that_have_trained(self):
        model = make_model()
        optimizer = hvd.DistributedOptimizer(torch.optim.Adam(model.parameters()), model.named_parameters())
        step(model, optimizer, self.rank)
        for state in optimizer.state.values():
            state["exp_avg"].fill_(self.rank)
        hvd.broadcast_optimizer_state(optimizer, root_rank=self.size - 1)
        self.assertEqual({state["exp_avg"].max().item() for state in optimizer.state.values()}, {self.size - 1})

    def test_of_none(self):
        model = make_model()
        before = weights(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.5, momentum=0.9)
        hvd.broadcast_optimizer_state(optimizer, root_rank=0)
        self.assert_same(weights(model), before)
        self.assertTrue(all(parameter.grad is not None for parameter in model.parameters()))

    def test_a_root_without_state_clears_the_others(self):
        model = make_model()
        optimizer = torch.optim.Adam(model.parameters())
        if self.rank != 0:
            step(model, optimizer, 0)
        hvd.broadcast_optimizer_state(optimizer, root_rank=0)
        self.assertEqual(len(optimizer.state_dict()["state"]), 0)

    def test_options_keep_their_types(self):
        model = make_model()
        own = dict(lr=0.1, betas=(0.9, 0.999), amsgrad=True) if self.rank == 0 else dict(lr=0.5, betas=(0.1, 0.2))
        optimizer = torch.optim.Adam(model.parameters(), **own)
        hvd.broadcast_optimizer_state(optimizer, root_rank=0)
        group = optimizer.param_groups[0]
        self.assertEqual((group["lr"], group["betas"], group["amsgrad"]), (0.1, (0.9, 0.999), True))
        self.assertIsInstance(group["lr"], float)

    def test_groups_with_their_own_options(self):
        model = make_model()
        rates = (0.1, 0.2) if self.rank == 0 else (0.7, 0.8)
        groups = [{"params": model[0].parameters(), "lr": rates[0]}, {"params": model[2].parameters(), "lr": rates[1]}]
        optimizer = torch.optim.SGD(groups, lr=1.0)
        hvd.broadcast_optimizer_state(optimizer, root_rank=0)
        self.assertEqual([group["lr"] for group in optimizer.param_groups], [0.1, 0.2])

    def test_of_lbfgs_and_sparse_adam(self):
        model = make_model()
        lbfgs = torch.optim.LBFGS(model.parameters(), lr=0.1 if self.rank == 0 else 0.5)
        hvd.broadcast_optimizer_state(lbfgs, root_rank=0)
        self.assertEqual(lbfgs.param_groups[0]["lr"], 0.1)
        embedding = torch.nn.Embedding(4, 2, sparse=True)
        adam = torch.optim.SparseAdam(list(embedding.parameters()))
        hvd.broadcast_optimizer_state(adam, root_rank=0, model=embedding)
        embedding(torch.tensor([1])).sum().backward()
        adam.step()


class Objects(Case):
    @over(5, "text", None, {"a": [1, 2]}, b"bytes" * 1000)
    def test_broadcast(self, value):
        root = self.size - 1
        self.assertEqual(hvd.broadcast_object(value if self.rank == root else "other", root_rank=root), value)

    def test_broadcast_of_a_state_dict(self):
        model = make_model(seed=self.rank)
        model.load_state_dict(hvd.broadcast_object(model.state_dict(), root_rank=0, name="model"))
        self.assert_same(weights(model), weights(make_model(seed=0)))

    def test_allgather(self):
        own = {"rank": self.rank, "more": list(range(self.rank * 100))}
        gathered = hvd.allgather_object(own)
        self.assertEqual(gathered, [{"rank": r, "more": list(range(r * 100))} for r in range(self.size)])


class Compression(Case):
    @over(torch.float32, torch.float64, torch.bfloat16)
    def test_fp16_of_floats(self, dtype):
        tensor = torch.ones(3, dtype=dtype)
        small, ctx = hvd.Compression.fp16.compress(tensor)
        self.assertEqual(small.dtype, torch.float16)
        self.assert_same(hvd.Compression.fp16.decompress(small, ctx), tensor)

    @over(torch.uint8, torch.int32, torch.int64)
    def test_fp16_leaves_integers(self, dtype):
        small, ctx = hvd.Compression.fp16.compress(torch.ones(3, dtype=dtype))
        self.assertEqual(small.dtype, dtype)
        self.assertEqual(hvd.Compression.fp16.decompress(small, ctx).dtype, dtype)

    def test_none(self):
        tensor = torch.ones(3)
        same, ctx = hvd.Compression.none.compress(tensor)
        self.assertIs(hvd.Compression.none.decompress(same, ctx), tensor)


class BatchNorm(Case):
    def compare(self, shape, rows=None, **options):
        """With all ranks here, and plain over all rows at once: outputs, statistics and gradients."""
        rows = rows or [4] * self.size
        everything = torch.randn(sum(rows), *shape, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
        plain_kind = {1: torch.nn.BatchNorm1d, 2: torch.nn.BatchNorm1d, 3: torch.nn.BatchNorm2d}[len(shape)]
        plain, ours = plain_kind(shape[0], **options).double(), hvd.SyncBatchNorm(shape[0], **options).double()
        start = sum(rows[: self.rank])
        whole = everything.clone().requires_grad_()
        own = everything[start : start + rows[self.rank]].clone().requires_grad_()
        for _ in range(2):
            expected, output = plain(whole), ours(own)
        self.assert_same(output.detach(), expected.detach()[start : start + rows[self.rank]], 1e-9)
        (expected**3).sum().backward()
        (output**3).sum().backward()
        self.assert_same(own.grad, whole.grad[start : start + rows[self.rank]], 1e-8)
        if plain.affine:
            for name in ("weight", "bias"):
                total = hvd.allreduce(getattr(ours, name).grad, op=hvd.Sum)
                self.assert_same(total, getattr(plain, name).grad, 1e-8)
        if plain.track_running_stats:
            self.assert_same(ours.running_mean, plain.running_mean, 1e-9)
            self.assert_same(ours.running_var, plain.running_var, 1e-9)
            self.assertEqual(ours.num_batches_tracked.item(), 2)
            ours.eval(), plain.eval()
            self.assert_same(ours(own).detach(), plain(own).detach(), 1e-9)

    @over((3,), (3, 5), (3, 4, 4))
    def test_shapes(self, shape):
        self.compare(shape)

    def test_batches_of_other_sizes(self):
        self.compare((3, 2), rows=[rank + 1 for rank in range(self.size)])

    def test_a_rank_without_rows(self):
        self.need_ranks()
        self.compare((3, 2), rows=[0] + [3] * (self.size - 1))

    def test_without_affine(self):
        self.compare((3,), affine=False)

    def test_without_statistics(self):
        self.compare((3,), track_running_stats=False)

    def test_momentum_none_is_the_average(self):
        self.compare((3,), momentum=None)

    def test_half_precision(self):
        norm = hvd.SyncBatchNorm(3)
        self.assertEqual(norm(torch.randn(4, 3, dtype=torch.bfloat16)).dtype, torch.bfloat16)

    def test_one_dimension_is_refused(self):
        with self.assertRaises(ValueError):
            hvd.SyncBatchNorm(3)(torch.ones(3))
