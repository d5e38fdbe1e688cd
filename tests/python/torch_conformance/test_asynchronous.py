"""Handles, and calls that are under way together."""

import time

import torch
from conformance import FLOATS, Case, over

import cohort.torch as hvd


class Handles(Case):
    def test_a_call_goes_on_after_it_returned(self):
        handles, over = [], []
        for _ in range(20):
            handles.append(hvd.allreduce_async(torch.ones(1000), op=hvd.Sum))
            over.append(hvd.poll(handles[-1]))
        self.assertFalse(all(over))  # they wait for others to go with
        for handle in handles:
            self.assert_same(hvd.synchronize(handle), torch.full((1000,), float(self.size)))

    def test_poll_is_false_while_a_rank_is_missing(self):
        self.need_ranks()
        if self.rank == 0:
            handle = hvd.allreduce_async(torch.ones(1), name="missing")
            self.assertFalse(hvd.poll(handle))
            hvd.barrier()
        else:
            hvd.barrier()
            handle = hvd.allreduce_async(torch.ones(1), name="missing")
        hvd.synchronize(handle)

    def test_poll_becomes_true(self):
        handle = hvd.allreduce_async(torch.ones(1))
        end = time.monotonic() + 50  # another rank may wait for a core
        while not hvd.poll(handle) and time.monotonic() < end:
            time.sleep(0.001)
        self.assertTrue(hvd.poll(handle))
        self.assertEqual(hvd.synchronize(handle).item(), 1)

    def test_handles_are_numbers(self):
        handle = hvd.allreduce_async(torch.ones(1))
        self.assertIsInstance(handle, int)
        hvd.synchronize(handle)

    def test_a_handle_is_used_once(self):
        handle = hvd.allreduce_async(torch.ones(1))
        self.assertIsNotNone(hvd.synchronize(handle))
        self.assertIsNone(hvd.synchronize(handle))
        with self.assertRaises(ValueError):
            hvd.poll(handle)

    def test_an_unknown_handle(self):
        with self.assertRaises(ValueError):
            hvd.poll(-5)
        self.assertIsNone(hvd.synchronize(-5))

    def test_a_handle_that_is_dropped_does_no_harm(self):
        hvd.allreduce_async(torch.ones(100_000))
        self.assertEqual(hvd.allreduce(torch.ones(1)).item(), 1)

    def test_in_place(self):
        tensor = self.values((50,))
        handle = hvd.allreduce_async_(tensor, op=hvd.Sum)
        self.assertIs(hvd.synchronize(handle), tensor)
        self.assert_same(tensor, sum(self.of_all((50,))))

    def test_in_place_on_a_view(self):
        wide = self.values((4, 6))
        hvd.synchronize(hvd.allreduce_async_(wide[:, :3], op=hvd.Sum))
        expected = self.values((4, 6))
        expected[:, :3] = sum(self.of_all((4, 6)))[:, :3]
        self.assert_same(wide, expected)

    def test_ranks_in_different_orders(self):
        names = [f"order.{i}" for i in range(12)]
        own = names[self.rank :] + names[: self.rank]
        handles = {name: hvd.allreduce_async(torch.tensor(float(name.split(".")[1])), name=name) for name in own}
        for name in names:
            self.assertEqual(hvd.synchronize(handles[name]).item(), float(name.split(".")[1]))

    def test_different_kinds_at_once(self):
        sums = [hvd.allreduce_async(torch.full((9,), float(i)), op=hvd.Sum) for i in range(5)]
        gathered = hvd.allgather_async(torch.tensor([self.rank]))
        sent = hvd.broadcast_async(torch.tensor([self.rank]), self.size - 1)
        parts = hvd.alltoall_async(torch.arange(self.size))
        cut = hvd.reducescatter_async(torch.ones(self.size), op=hvd.Sum)
        self.assertEqual(hvd.synchronize(cut).tolist(), [self.size])
        self.assertEqual(hvd.synchronize(parts)[0].tolist(), [self.rank] * self.size)
        self.assertEqual(hvd.synchronize(sent).tolist(), [self.size - 1])
        self.assertEqual(hvd.synchronize(gathered).tolist(), list(range(self.size)))
        for i, handle in enumerate(sums):
            self.assert_same(hvd.synchronize(handle), torch.full((9,), float(i * self.size)))

    @over(*FLOATS)
    def test_many_small_ones(self, dtype):
        tensors = [self.values((i % 7 + 1,), dtype) for i in range(60)]
        handles = [hvd.allreduce_async(tensor, op=hvd.Sum, name=f"small.{i}") for i, tensor in enumerate(tensors)]
        for i, handle in enumerate(handles):
            expected = sum(self.of_all((i % 7 + 1,), torch.float64)).to(dtype)
            self.assert_same(hvd.synchronize(handle), expected)


class Grouped(Case):
    @over(torch.int32, torch.int64, *FLOATS)
    def test_sum(self, dtype):
        shapes = [(3,), (2, 2), (), (0, 4), (5,)]
        reduced = hvd.grouped_allreduce([self.values(shape, dtype) for shape in shapes], op=hvd.Sum)
        self.assertIsInstance(reduced, list)
        for one, shape in zip(reduced, shapes):
            self.assert_same(one, sum(self.of_all(shape, torch.float64)).to(dtype))

    def test_average(self):
        tensors = [torch.full((4,), float(self.rank + i)) for i in range(5)]
        for i, one in enumerate(hvd.grouped_allreduce(tensors)):
            self.assert_same(one, torch.full((4,), (self.size - 1) / 2 + i), 1e-6)

    def test_dtypes_may_be_mixed(self):
        pair = [torch.ones(3), torch.ones(2, dtype=torch.int64), torch.ones(1, dtype=torch.float16)]
        for one, tensor in zip(hvd.grouped_allreduce(pair, op=hvd.Sum), pair):
            self.assert_same(one, tensor * self.size)

    def test_in_place(self):
        tensors = [self.values((4,)), self.values((2, 3)).t()]
        reduced = hvd.grouped_allreduce_(tensors, op=hvd.Sum)
        self.assertTrue(all(one is tensor for one, tensor in zip(reduced, tensors)))
        self.assert_same(tensors[0], sum(self.of_all((4,))))
        self.assert_same(tensors[1], sum(self.of_all((2, 3))).t())

    def test_asynchronously(self):
        first = hvd.grouped_allreduce_async([torch.ones(3), torch.ones(4)], op=hvd.Sum)
        tensors = [torch.ones(2), torch.ones(5)]
        second = hvd.grouped_allreduce_async_(tensors, op=hvd.Sum)
        self.assertEqual([one.sum().item() for one in hvd.synchronize(first)], [3 * self.size, 4 * self.size])
        self.assertIs(hvd.synchronize(second)[1], tensors[1])
        self.assertEqual(tensors[1].sum().item(), 5 * self.size)

    def test_gradients(self):
        tensors = [self.values((3,)).requires_grad_(), self.values((2, 2)).requires_grad_()]
        outputs = hvd.grouped_allreduce(tensors, op=hvd.Sum)
        (outputs[0].sum() + 2 * outputs[1].sum()).backward()
        self.assert_same(tensors[0].grad, torch.full((3,), float(self.size)))
        self.assert_same(tensors[1].grad, torch.full((2, 2), 2.0 * self.size))

    def test_scales_and_compression(self):
        reduced = hvd.grouped_allreduce([torch.ones(3)] * 2, op=hvd.Sum, prescale_factor=2.0, postscale_factor=0.5,
                                        compression=hvd.Compression.fp16)  # fmt: skip
        self.assert_same(reduced[1], torch.full((3,), float(self.size)))

    def test_one_tensor_is_refused(self):
        with self.assertRaises(ValueError):
            hvd.grouped_allreduce(torch.ones(3))

    def test_an_empty_list_is_refused(self):
        with self.assertRaises(ValueError):
            hvd.grouped_allreduce([])
