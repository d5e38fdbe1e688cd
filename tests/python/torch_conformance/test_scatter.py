"""alltoall and reducescatter."""

import torch
from conformance import FLOATS, MOVED, REDUCED, Case, over

import cohort.torch as hvd


class Alltoall(Case):
    @over(*MOVED)
    def test_equal_parts(self, dtype):
        for width in ((), (2,), (2, 3)):
            parts = self.of_all((2 * self.size, *width), dtype)
            expected = torch.cat([part[2 * self.rank : 2 * self.rank + 2] for part in parts])
            self.assert_same(hvd.alltoall(self.values((2 * self.size, *width), dtype)), expected)

    @over(*MOVED)
    def test_splits(self, dtype):
        splits = torch.tensor([self.rank + 1] * self.size, dtype=torch.int32)
        tensor = torch.cat([torch.full((self.rank + 1, 2), to) for to in range(self.size)]).to(dtype)
        output, counts = hvd.alltoall(tensor, splits)
        total = self.size * (self.size + 1) // 2
        self.assert_same(output, torch.full((total, 2), self.rank).to(dtype))
        self.assertEqual(counts.dtype, torch.int32)
        self.assertEqual(counts.tolist(), list(range(1, self.size + 1)))

    def test_splits_as_a_list(self):
        output, counts = hvd.alltoall(torch.arange(self.size), [1] * self.size)
        self.assertEqual(output.tolist(), [self.rank] * self.size)
        self.assertEqual(counts.tolist(), [1] * self.size)

    def test_splits_of_int64(self):
        output, _ = hvd.alltoall(torch.arange(self.size), torch.ones(self.size, dtype=torch.int64))
        self.assertEqual(output.tolist(), [self.rank] * self.size)

    def test_all_to_one(self):
        splits = [0] * self.size
        splits[-1] = 3
        output, counts = hvd.alltoall(torch.full((3, 2), float(self.rank)), splits)
        last = self.rank == self.size - 1
        self.assertEqual(tuple(output.shape), (3 * self.size if last else 0, 2))
        self.assertEqual(counts.tolist(), [3 if last else 0] * self.size)

    def test_one_rank_sends_nothing(self):
        rows = 0 if self.rank == 0 else self.size
        output, counts = hvd.alltoall(torch.ones(rows), [0 if self.rank == 0 else 1] * self.size)
        self.assertEqual(counts.tolist(), [0] + [1] * (self.size - 1))
        self.assertEqual(len(output), self.size - 1)

    def test_nothing_at_all(self):
        output, counts = hvd.alltoall(torch.ones(0, 3), [0] * self.size)
        self.assertEqual(tuple(output.shape), (0, 3))
        self.assertEqual(counts.tolist(), [0] * self.size)

    def test_rows_that_no_split_covers_stay(self):
        output, counts = hvd.alltoall(torch.arange(self.size + 2), [1] * self.size)
        self.assertEqual(output.tolist(), [self.rank] * self.size)

    def test_asynchronously(self):
        handle = hvd.alltoall_async(torch.arange(self.size), torch.ones(self.size, dtype=torch.int32))
        output, counts = hvd.synchronize(handle)
        self.assertEqual((output.tolist(), counts.tolist()), ([self.rank] * self.size, [1] * self.size))

    def test_rows_that_do_not_divide_are_refused(self):
        self.need_ranks()
        with self.assertRaises(ValueError):
            hvd.alltoall(torch.ones(self.size + 1))

    def test_splits_beyond_the_rows_are_refused(self):
        with self.assertRaises(ValueError):
            hvd.alltoall(torch.ones(self.size - 1), torch.ones(self.size, dtype=torch.int32))

    def test_splits_of_floats_are_refused(self):
        with self.assertRaises(ValueError):
            hvd.alltoall(torch.ones(self.size), torch.ones(self.size))

    def test_splits_of_two_dimensions_are_refused(self):
        with self.assertRaises(ValueError):
            hvd.alltoall(torch.ones(self.size), torch.ones(self.size, 1, dtype=torch.int32))

    def test_too_many_splits_are_refused(self):
        with self.assertRaises(ValueError):
            hvd.alltoall(torch.ones(self.size + 1), [1] * (self.size + 1))

    def test_negative_splits_are_refused(self):
        with self.assertRaises(ValueError):
            hvd.alltoall(torch.ones(self.size), [-1] + [1] * (self.size - 1))

    def test_a_scalar_is_refused(self):
        with self.assertRaises(ValueError):
            hvd.alltoall(torch.tensor(1.0))

    @over("with", "without")
    def test_gradient(self, splits):
        rows = (self.rank + 1) * self.size
        tensor = torch.arange(float(rows)).requires_grad_()
        if splits == "with":
            output, counts = hvd.alltoall(tensor, [self.rank + 1] * self.size)
            self.assertFalse(counts.requires_grad)
        else:
            output = hvd.alltoall(tensor)
        output.backward(torch.full_like(output, float(self.rank + 1)))
        expected = torch.arange(1.0, self.size + 1).repeat_interleave(self.rank + 1)
        self.assert_same(tensor.grad, expected)


class Reducescatter(Case):
    def own_part(self, tensor):
        return torch.tensor_split(tensor, self.size)[self.rank]

    @over(*REDUCED)
    def test_sum(self, dtype):
        for shape in ((2 * self.size,), (self.size, 3), (self.size, 2, 2)):
            expected = sum(self.of_all(shape, torch.int64)).to(dtype)
            self.assert_same(hvd.reducescatter(self.values(shape, dtype), op=hvd.Sum), self.own_part(expected))

    @over(*FLOATS)
    def test_average_is_the_default(self, dtype):
        expected = torch.stack(self.of_all((self.size, 3), torch.float64)).mean(0).to(dtype)
        self.assert_same(hvd.reducescatter(self.values((self.size, 3), dtype)), self.own_part(expected), 0.02)

    @over(1, 2, 7)
    def test_rows_that_do_not_divide(self, more):
        expected = sum(self.of_all((self.size + more, 2)))
        reduced = hvd.reducescatter(self.values((self.size + more, 2)), op=hvd.Sum)
        self.assert_same(reduced, self.own_part(expected))

    def test_fewer_rows_than_ranks(self):
        reduced = hvd.reducescatter(torch.ones(1, 4), op=hvd.Sum)
        self.assertEqual(tuple(reduced.shape), (1 if self.rank == 0 else 0, 4))

    def test_scales(self):
        reduced = hvd.reducescatter(torch.ones(self.size), op=hvd.Sum, prescale_factor=2.0, postscale_factor=3.0)
        self.assertEqual(reduced.tolist(), [6.0 * self.size])

    def test_asynchronously(self):
        handle = hvd.reducescatter_async(torch.ones(self.size, 2), op=hvd.Sum)
        self.assert_same(hvd.synchronize(handle), torch.full((1, 2), float(self.size)))

    def test_grouped(self):
        tensors = [self.values((self.size, 2)), self.values((2 * self.size,), torch.int64)]
        for reduced in (hvd.grouped_reducescatter(tensors, op=hvd.Sum),
                        hvd.synchronize(hvd.grouped_reducescatter_async(tensors, op=hvd.Sum))):  # fmt: skip
            self.assert_same(reduced[0], self.own_part(sum(self.of_all((self.size, 2)))))
            self.assert_same(reduced[1], self.own_part(sum(self.of_all((2 * self.size,), torch.int64))))

    def test_compression(self):
        reduced = hvd.reducescatter(torch.ones(self.size), op=hvd.Sum, compression=hvd.Compression.fp16)
        self.assertEqual((reduced.dtype, reduced.item()), (torch.float32, self.size))

    def test_adasum_is_refused(self):
        with self.assertRaises(RuntimeError):
            hvd.reducescatter(torch.ones(self.size), op=hvd.Adasum)

    def test_a_scalar_is_refused(self):
        with self.assertRaises(ValueError):
            hvd.reducescatter(torch.tensor(1.0))

    @over("Sum", "Average")
    def test_gradient(self, op):
        tensor = self.values((self.size + 1, 2)).requires_grad_()
        output = hvd.reducescatter(tensor, op=getattr(hvd, op))
        output.backward(torch.full_like(output, float(self.rank + 1)))
        counts = [len(part) for part in torch.tensor_split(torch.empty(self.size + 1), self.size)]
        expected = torch.cat([torch.full((count, 2), rank + 1.0) for rank, count in enumerate(counts)])
        self.assert_same(tensor.grad, expected * (self.size if op == "Sum" else 1))

    def test_grouped_gradient(self):
        tensors = [torch.ones(self.size, requires_grad=True), torch.ones(2 * self.size, requires_grad=True)]
        sum(one.sum() for one in hvd.grouped_reducescatter(tensors, op=hvd.Sum, postscale_factor=0.5)).backward()
        for tensor in tensors:
            self.assert_same(tensor.grad, torch.full_like(tensor, self.size * 0.5))
