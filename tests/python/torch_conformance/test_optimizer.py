"""DistributedOptimizer: its steps are those of one process that sees every rank's samples."""

import inspect
import warnings

import torch
from conformance import Case, over
from models import average_step, is_same_everywhere, loss_of, make_model, optimizer_classes, step, weights

import cohort.torch as hvd


class Training(Case):
    def both(self, make=None, steps=3, **options):
        """Trains here with all ranks, and alone with every rank's samples; the weights of both."""
        make = make or (lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9))
        model, alone = make_model(), make_model()
        optimizer = hvd.DistributedOptimizer(make(model.parameters()), model.named_parameters(), **options)
        other = make(alone.parameters())
        for _ in range(steps):
            step(model, optimizer, self.rank)
            average_step(alone, other, range(self.size))
        return weights(model), weights(alone)

    @over(*optimizer_classes())
    def test_every_optimizer(self, kind):
        ours, expected = self.both(lambda parameters: kind(parameters, lr=0.01))
        self.assertTrue(is_same_everywhere(ours))
        self.assert_same(ours, expected, 2e-3)

    def test_sgd(self):
        ours, expected = self.both()
        self.assert_same(ours, expected, 1e-6)

    @over(0.5, 2.0, 7.0)
    def test_gradient_predivide_factor(self, factor):
        ours, expected = self.both(gradient_predivide_factor=factor)
        self.assert_same(ours, expected, 1e-6)

    @over(1, 2, 3, 10)
    def test_number_of_groups(self, groups):
        ours, expected = self.both(groups=groups)
        self.assert_same(ours, expected, 1e-6)

    def test_groups_with_compression_and_predivide_factor(self):
        ours, expected = self.both(groups=2, compression=hvd.Compression.fp16, gradient_predivide_factor=2.0)
        self.assert_same(ours, expected, 5e-3)

    def test_groups_as_lists(self):
        model, alone = make_model(), make_model()
        parameters = list(model.parameters())
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(parameters, lr=0.1), model.named_parameters(),
                                             groups=[parameters[:2], [parameters[3]]])  # fmt: skip
        other = torch.optim.SGD(alone.parameters(), lr=0.1)
        for _ in range(3):
            step(model, optimizer, self.rank)
            average_step(alone, other, range(self.size))
        self.assert_same(weights(model), weights(alone), 1e-6)

    def test_the_old_name_of_groups(self):
        model = make_model()
        with self.assertWarns(DeprecationWarning):
            optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), num_groups=2)
        step(model, optimizer, self.rank)

    def test_compression(self):
        ours, expected = self.both(compression=hvd.Compression.fp16)
        self.assertTrue(is_same_everywhere(ours))
        self.assert_same(ours, expected, 5e-3)

    def test_sum(self):
        model = make_model()
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), op=hvd.Sum)
        optimizer.zero_grad()
        model(torch.ones(1, 3)).sum().backward()
        optimizer.synchronize()
        self.assert_same(model[2].bias.grad, torch.full((2,), float(self.size)))

    def test_without_names(self):
        model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 2))
        groups = [{"params": model[0].parameters()}, {"params": model[1].parameters(), "lr": 0.3}]
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(groups, lr=0.1))
        names = set(optimizer._parameter_names.values())
        self.assertEqual(len(names), 4)
        self.assertEqual(hvd.allgather_object(names), [names] * self.size)
        hvd.broadcast_parameters(model.state_dict(), 0)
        step(model, optimizer, self.rank)
        self.assertTrue(is_same_everywhere(weights(model)))

    def test_gradients_that_a_rank_does_not_compute_are_zeros(self):
        model, alone = make_model(), make_model()
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
        optimizer.zero_grad()
        if self.rank == 0:
            loss_of(model, 0).backward()
        optimizer.step()
        other = torch.optim.SGD(alone.parameters(), lr=0.1 / self.size)
        average_step(alone, other, [0])
        self.assert_same(weights(model), weights(alone), 1e-6)

    def test_frozen_parameters(self):
        model = make_model()
        model[0].weight.requires_grad_(False)
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
        before = model[0].weight.clone()
        step(model, optimizer, self.rank)
        self.assert_same(model[0].weight.data, before)
        self.assertTrue(is_same_everywhere(weights(model)))

    def test_parameters_that_are_frozen_in_turns(self):
        first, second = torch.nn.Linear(3, 4), torch.nn.Linear(4, 2)
        optimizers = [hvd.DistributedOptimizer(torch.optim.SGD(m.parameters(), lr=0.1),
                                               [(f"{i}.{n}", p) for n, p in m.named_parameters()])
                      for i, m in enumerate((first, second))]  # fmt: skip
        for turn in range(4):
            for i, module in enumerate((first, second)):
                module.requires_grad_(i == turn % 2)
                optimizers[i].zero_grad()
            second(first(torch.ones(2, 3))).sum().backward()
            optimizers[turn % 2].step()

    @over(True, False)
    def test_large_gradients(self, set_to_none):
        """They are moved to memory that the ranks share."""
        model, alone = torch.nn.Linear(700, 600), torch.nn.Linear(700, 600)
        hvd.broadcast_parameters(model.state_dict(), 0)
        alone.load_state_dict(model.state_dict())
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.01), model.named_parameters())
        other = torch.optim.SGD(alone.parameters(), lr=0.01)
        for _ in range(3):
            optimizer.zero_grad(set_to_none=set_to_none)
            model(torch.full((2, 700), float(self.rank))).square().mean().backward()
            optimizer.step()
            other.zero_grad()
            for rank in range(self.size):
                (alone(torch.full((2, 700), float(rank))).square().mean() / self.size).backward()
            other.step()
        self.assert_same(weights(model), weights(alone), 1e-6)
        hvd.shutdown()
        self.assertTrue(torch.isfinite(model.weight.grad).all())
        hvd.init()
        optimizer.zero_grad()
        model(torch.ones(1, 700)).sum().backward()
        optimizer.step()

    def test_mixed_dtypes(self):
        model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3).double())
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
        hvd.broadcast_parameters(model.state_dict(), 0)
        model[1](model[0](torch.full((1, 3), float(self.rank))).double()).sum().backward()
        optimizer.step()
        self.assertTrue(is_same_everywhere(torch.cat([p.detach().double().reshape(-1) for p in model.parameters()])))

    def test_bfloat16(self):
        model = make_model().bfloat16()
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
        model(torch.full((1, 3), float(self.rank), dtype=torch.bfloat16)).sum().backward()
        optimizer.step()
        self.assertTrue(is_same_everywhere(weights(model)))

    def test_channels_last(self):
        torch.manual_seed(0)
        model = torch.nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
        images = torch.full((2, 3, 5, 5), float(self.rank)).to(memory_format=torch.channels_last)
        model(images).sum().backward()
        optimizer.step()
        self.assertTrue(is_same_everywhere(weights(model)))

    def test_a_model_with_its_second_optimizer(self):
        model = make_model()
        for rate in (0.1, 0.2):
            optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=rate), model.named_parameters())
            step(model, optimizer, self.rank)
        self.assertTrue(is_same_everywhere(weights(model)))

    def test_it_is_the_class_and_has_the_state_of_the_one_that_it_wraps(self):
        model = make_model()
        inner = torch.optim.Adam(model.parameters(), lr=0.25)
        step(model, inner, 0)
        optimizer = hvd.DistributedOptimizer(inner, model.named_parameters())
        self.assertIsInstance(optimizer, torch.optim.Adam)
        self.assertEqual(type(optimizer).__name__, "Adam")
        self.assertEqual(optimizer.param_groups[0]["lr"], 0.25)
        self.assertEqual(len(optimizer.state), 4)
        optimizer.load_state_dict(optimizer.state_dict())
        step(model, optimizer, self.rank)
        self.assertTrue(is_same_everywhere(weights(model)))

    def test_schedulers_and_hooks(self):
        model = make_model()
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.4), model.named_parameters())
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
        calls = []
        optimizer.register_step_post_hook(lambda *_: calls.append(1))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for _ in range(2):
                step(model, optimizer, self.rank)
                schedule.step()
        self.assertEqual(len(calls), 2)
        self.assertAlmostEqual(optimizer.param_groups[0]["lr"], 0.1)


class Arguments(Case):
    def test_as_horovod_has_them(self):
        names = list(inspect.signature(hvd.DistributedOptimizer).parameters)
        self.assertEqual(names, ["optimizer", "named_parameters", "compression", "backward_passes_per_step", "op",
                                 "gradient_predivide_factor", "num_groups", "groups", "sparse_as_dense",
                                 "process_set"])  # fmt: skip

    def refused(self, named_parameters=None, error=ValueError, **options):
        model = make_model()
        named = named_parameters(model) if named_parameters else None
        with self.assertRaises(error):
            hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), named, **options)

    def test_names_given_twice_are_refused(self):
        self.refused(lambda model: [("same", parameter) for parameter in model.parameters()])

    def test_missing_names_are_refused(self):
        self.refused(lambda model: list(model.named_parameters())[:1])

    def test_names_without_tuples_are_refused(self):
        self.refused(lambda model: list(model.parameters()))

    @over(hvd.Sum, hvd.Max)
    def test_predivide_factor_needs_average(self, op):
        self.refused(op=op, gradient_predivide_factor=2.0)

    def test_groups_of_names_are_refused(self):
        self.refused(groups=[["0.weight"]])

    def test_groups_below_one_are_refused(self):
        self.refused(groups=-1)

    def test_a_parameter_in_two_groups_is_refused(self):
        tensor = torch.nn.Parameter(torch.ones(1))
        self.refused(groups=[[tensor], [tensor]])
