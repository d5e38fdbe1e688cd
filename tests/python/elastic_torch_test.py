"""TorchState and ElasticSampler, in a world of one; the sampler also as if there were more ranks."""

import copy
import pathlib
import sys
import unittest
from unittest import mock

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "python"))

try:
    import torch
except ImportError:
    print("this Python has no torch")
    sys.exit(77)

import cohort.torch as hvd  # noqa: E402
from cohort.torch.elastic import sampler as sampler_module, state as state_module  # noqa: E402


def linear(value):
    model = torch.nn.Linear(2, 2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(value)
    return model


def all_of(model, value):
    return all(bool((parameter == value).all()) for parameter in model.state_dict().values())


def step(model, optimizer):
    optimizer.zero_grad()
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()


class TorchStates(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        hvd.init()

    def test_restore_goes_back_to_the_last_commit(self):
        model = linear(1.0)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        state = hvd.elastic.TorchState(model, optimizer, batch=20, epoch=10)
        state.sync()
        self.assertIs(state.model, model)
        model.load_state_dict(linear(3.0).state_dict())
        state.batch, state.epoch = 21, 11
        state.restore()
        self.assertTrue(all_of(model, 1.0))
        self.assertEqual((state.batch, state.epoch), (20, 10))
        model.load_state_dict(linear(4.0).state_dict())
        state.batch = 22
        state.commit()
        model.load_state_dict(linear(5.0).state_dict())
        state.restore()
        self.assertTrue(all_of(model, 4.0))
        self.assertEqual((state.batch, state.epoch), (22, 10))

    def test_a_distributed_optimizer_and_a_scheduler_go_back_too(self):
        model = linear(1.0)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
        state = hvd.elastic.TorchState(model, optimizer, scheduler=scheduler)
        step(model, optimizer)
        scheduler.step()
        state.commit()
        committed = copy.deepcopy((model.state_dict(), optimizer.state_dict(), scheduler.state_dict()))
        after = []
        for _ in range(2):  # the same step from the same state gives the same bits
            step(model, optimizer)
            scheduler.step()
            after.append(copy.deepcopy(model.state_dict()))
            state.restore()
            self.assertEqual(scheduler.state_dict(), committed[2])
            self.assertEqual(optimizer.state_dict()["param_groups"], committed[1]["param_groups"])
            for name, value in model.state_dict().items():
                self.assertTrue(torch.equal(value, committed[0][name]))
        for name, value in after[0].items():
            self.assertTrue(torch.equal(value, after[1][name]))

    def test_gradients_of_a_step_that_failed_are_forgotten(self):
        model = linear(1.0)
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1),
                                             named_parameters=model.named_parameters())  # fmt: skip
        state = hvd.elastic.TorchState(model, optimizer)
        optimizer.zero_grad()
        model(torch.ones(1, 2)).sum().backward()  # and no step: a peer was lost
        state.restore()
        step(model, optimizer)
        step(model, optimizer)

    def test_several_models_and_a_value_that_is_replaced(self):
        state = hvd.elastic.TorchState(first=linear(1.0), second=linear(2.0), number=3)
        state.second = linear(4.0)
        state.second.load_state_dict(linear(9.0).state_dict())
        state.number = 7
        state.restore()
        self.assertTrue(all_of(state.first, 1.0))
        self.assertTrue(all_of(state.second, 4.0))
        self.assertEqual(state.number, 3)

    def test_a_handler_of_one_s_own(self):
        class Counter:
            count = 0

        class Handler(state_module.StateHandler):
            def __init__(self, value):
                super().__init__(value)
                self.saved = value.count

            def save(self):
                self.saved = self.value.count

            def restore(self):
                self.value.count = self.saved

            def sync(self):
                pass

        known = state_module.get_handler_registry()
        state_module.set_handler_registry([*known, (Counter, Handler)])
        try:
            state = hvd.elastic.TorchState(counter=Counter())
        finally:
            state_module.set_handler_registry(known)
        counter = state.counter
        counter.count = 5
        state.restore()
        self.assertIs(state.counter, counter)
        self.assertEqual(counter.count, 0)


class Samplers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        hvd.init()

    def test_a_state_keeps_what_was_processed(self):
        data = list(range(16))
        sampler = hvd.elastic.ElasticSampler(data)
        loader = torch.utils.data.DataLoader(data, batch_size=2, sampler=sampler)
        state = hvd.elastic.TorchState(sampler=sampler)
        state.sync()
        first = [value for batch in loader for value in batch.tolist()]
        self.assertEqual(sorted(first), data)
        sampler.record_batch(0, 2)
        sampler.record_batch(1, 2)
        self.assertEqual(sampler.state_dict(), {"epoch": 0, "processed_num": 4})
        self.assertEqual(len(list(loader)), 8, "nothing is dealt again before a reset")
        state.commit()
        sampler.record_batch(2, 2)
        state.restore()
        self.assertEqual(sampler.processed_num, 4)
        self.assertEqual([value for batch in loader for value in batch.tolist()], first[4:])
        sampler.set_epoch(1)
        second = [value for batch in loader for value in batch.tolist()]
        self.assertEqual(sorted(second), data)
        self.assertNotEqual(second, first)

    def samplers(self, size, length, **options):
        made = []
        for rank in range(size):
            with self.ranks(rank, size):
                made.append(hvd.elastic.ElasticSampler(range(length), **options))
        return made

    @staticmethod
    def ranks(rank, size):
        return mock.patch.multiple(sampler_module, rank=lambda: rank, size=lambda: size)

    def test_every_sample_once_an_epoch_when_the_ranks_change_on_the_way(self):
        for shuffle in (True, False):
            samplers, done = self.samplers(3, 96, shuffle=shuffle, seed=5), []
            for batch in range(4):  # of 2 samples
                for sampler in samplers:
                    done += list(sampler)[2 * batch : 2 * batch + 2]
                    sampler.record_batch(batch, 2)
            survivors = samplers[1:]
            for rank, sampler in enumerate(survivors):
                with self.ranks(rank, 2):
                    sampler.reset()
            newcomer = self.samplers(4, 96, shuffle=shuffle, seed=5)[3]
            for sampler in survivors:
                done += list(sampler)[:6]
                sampler.record_batch(0, 6)
            dealt = [*survivors, newcomer]
            for rank, sampler in enumerate(dealt):
                with self.ranks(rank, 3):
                    sampler.load_state_dict(survivors[0].state_dict())
                done += list(sampler)
            self.assertEqual(sorted(done), list(range(96)))

    def test_ranks_get_equally_many_and_few_samples_come_twice(self):
        for size, length in ((3, 10), (4, 2), (5, 5), (2, 0)):
            dealt = [list(sampler) for sampler in self.samplers(size, length)]
            self.assertEqual(len({len(part) for part in dealt}), 1)
            everything = [value for part in dealt for value in part]
            self.assertEqual(set(everything), set(range(length)))
            self.assertLess(len(everything) - length, size)


if __name__ == "__main__":
    unittest.main()
