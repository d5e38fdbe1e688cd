"""allreduce, blocking and in place: operations, dtypes, shapes, scales, gradients."""

import warnings

import torch
from conformance import FLOATS, INTEGERS, REDUCED, SHAPES, Case, over

import cohort.torch as hvd


class Allreduce(Case):
    @over(*REDUCED)
    def test_sum(self, dtype):
        for shape in SHAPES:
            expected = sum(self.of_all(shape, torch.int64), torch.zeros((), dtype=torch.int64)).to(dtype)
            self.assert_same(hvd.allreduce(self.values(shape, dtype), op=hvd.Sum), expected.reshape(shape))

    @over(*FLOATS)
    def test_average(self, dtype):
        for shape in SHAPES:
            expected = torch.stack(self.of_all(shape, torch.float64)).mean(0).to(dtype)
            self.assert_same(hvd.allreduce(self.values(shape, dtype)), expected, 0.02)

    @over(*INTEGERS)
    def test_average_of_the_same_whole_numbers_is_them(self, dtype):
        tensor = self.values((17,), dtype, rank=0)
        self.assert_same(hvd.allreduce(tensor, op=hvd.Average), tensor)

    @over(*REDUCED)
    def test_min(self, dtype):
        expected = torch.stack(self.of_all((4, 5), torch.int64)).amin(0).to(dtype)
        self.assert_same(hvd.allreduce(self.values((4, 5), dtype), op=hvd.Min), expected)

    @over(*REDUCED)
    def test_max(self, dtype):
        expected = torch.stack(self.of_all((4, 5), torch.int64)).amax(0).to(dtype)
        self.assert_same(hvd.allreduce(self.values((4, 5), dtype), op=hvd.Max), expected)

    @over(*REDUCED)
    def test_product(self, dtype):
        own = self.values((4, 5), dtype).clamp(max=3)
        parts = [part.clamp(max=3) for part in self.of_all((4, 5), torch.int64)]
        self.assert_same(hvd.allreduce(own, op=hvd.Product), torch.stack(parts).prod(0).to(dtype))

    def test_bool_sum_is_or_and_min_is_and(self):
        parts = [part > 2 for part in self.of_all((33,))]
        own = parts[self.rank]
        self.assert_same(hvd.allreduce(own, op=hvd.Sum), torch.stack(parts).any(0))
        self.assert_same(hvd.allreduce(own, op=hvd.Max), torch.stack(parts).any(0))
        self.assert_same(hvd.allreduce(own, op=hvd.Min), torch.stack(parts).all(0))

    @over(torch.float32, torch.float64)
    def test_adasum_of_the_same_is_it(self, dtype):
        tensor = self.values((31,), dtype, rank=0) + 1
        self.assert_same(hvd.allreduce(tensor, op=hvd.Adasum), tensor, 1e-4)

    def test_adasum_of_orthogonal_vectors_is_their_sum(self):
        tensor = torch.zeros(self.size)
        tensor[self.rank] = 2.0
        self.assert_same(hvd.allreduce(tensor, op=hvd.Adasum), torch.full((self.size,), 2.0), 1e-5)

    @over(torch.int32, torch.int64, *FLOATS)
    def test_prescale(self, dtype):
        own = self.values((17,), dtype) * 2
        expected = sum(part * 2 for part in self.of_all((17,), torch.float64)) * 0.5
        self.assert_same(hvd.allreduce(own, op=hvd.Sum, prescale_factor=0.5), expected.to(dtype))

    @over(torch.int32, torch.int64, *FLOATS)
    def test_postscale(self, dtype):
        expected = sum(self.of_all((17,), torch.float64)) * 3
        self.assert_same(hvd.allreduce(self.values((17,), dtype), op=hvd.Sum, postscale_factor=3.0), expected.to(dtype))

    def test_scales_go_with_average(self):
        expected = torch.stack(self.of_all((17,))).mean(0) * 2
        reduced = hvd.allreduce(self.values((17,)), prescale_factor=4.0, postscale_factor=0.5)
        self.assert_same(reduced, expected, 1e-5)

    @over(*REDUCED)
    def test_in_place(self, dtype):
        for shape in SHAPES:
            expected = sum(self.of_all(shape, torch.int64), torch.zeros((), dtype=torch.int64)).to(dtype)
            tensor = self.values(shape, dtype)
            self.assertIs(hvd.allreduce_(tensor, op=hvd.Sum), tensor)
            self.assert_same(tensor, expected.reshape(shape))

    def test_the_argument_is_left_as_it_is_and_not_shared(self):
        tensor = self.values((100,))
        reduced = hvd.allreduce(tensor, op=hvd.Sum)
        reduced.fill_(-1)
        self.assert_same(tensor, self.values((100,)))

    def test_average_is_the_default(self):
        self.assert_same(hvd.allreduce(torch.tensor([float(self.rank)])), torch.tensor([(self.size - 1) / 2]))

    def test_old_average_argument(self):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            self.assertEqual(hvd.allreduce(torch.tensor(1.0), average=False).item(), self.size)
            self.assertEqual(hvd.allreduce(torch.tensor(1.0), average=True).item(), 1)
        self.assertTrue(all(one.category is DeprecationWarning for one in seen))
        self.assertGreaterEqual(len(seen), 1)

    @over(hvd.allreduce, hvd.allreduce_, hvd.allreduce_async, hvd.allreduce_async_)
    def test_average_and_op_together_are_refused(self, function):
        with self.assertRaises(ValueError):
            function(torch.ones(1), average=True, op=hvd.Sum)

    def test_strided_tensors(self):
        wide = self.values((6, 8))
        for view in (lambda t: t.t(), lambda t: t[:, ::2], lambda t: t[1:4, 3], lambda t: t[0].expand(3, 8)):
            expected = sum(view(part) for part in self.of_all((6, 8)))
            self.assert_same(hvd.allreduce(view(wide), op=hvd.Sum), expected)

    def test_in_place_on_a_view_writes_through(self):
        wide = self.values((6, 8))
        hvd.allreduce_(wide[:, 1::2], op=hvd.Sum)
        expected = self.values((6, 8))
        expected[:, 1::2] = sum(self.of_all((6, 8)))[:, 1::2]
        self.assert_same(wide, expected)

    def test_channels_last(self):
        images = self.values((2, 3, 4, 5)).to(memory_format=torch.channels_last)
        self.assert_same(hvd.allreduce(images, op=hvd.Sum), sum(self.of_all((2, 3, 4, 5))))

    def test_in_place_on_a_parameter(self):
        parameter = torch.nn.Parameter(self.values((7,)))
        hvd.allreduce_(parameter, op=hvd.Sum)
        self.assert_same(parameter.data, sum(self.of_all((7,))))

    def test_large(self):
        tensor = torch.arange(3_000_000, dtype=torch.float32) * (self.rank + 1)
        expected = torch.arange(3_000_000, dtype=torch.float32) * (self.size * (self.size + 1) / 2)
        self.assert_same(hvd.allreduce(tensor, op=hvd.Sum), expected, 2.0)

    def test_int16_wraps_as_int16(self):
        reduced = hvd.allreduce(torch.tensor([32767], dtype=torch.int16), op=hvd.Sum)
        self.assertEqual(reduced.item(), (32767 * self.size + 32768) % 65536 - 32768)

    @over(torch.complex64, torch.complex128)
    def test_complex_is_refused(self, dtype):
        with self.assertRaises(ValueError):
            hvd.allreduce(torch.ones(2, dtype=dtype))

    def test_sparse_is_refused(self):
        with self.assertRaises(ValueError):
            hvd.allreduce(torch.eye(3).to_sparse())

    def test_an_unknown_operation_is_refused(self):
        with self.assertRaises(ValueError):
            hvd.allreduce(torch.ones(1), op=77)

    def test_what_is_no_tensor_is_refused(self):
        with self.assertRaises(ValueError):
            hvd.allreduce([1.0, 2.0])


class AllreduceGradient(Case):
    @over(torch.float32, torch.float64)
    def test_sum(self, dtype):
        for dims in (1, 2, 3):
            tensor = self.values([5] * dims, dtype).requires_grad_()
            hvd.allreduce(tensor, op=hvd.Sum).backward(torch.ones([5] * dims, dtype=dtype))
            self.assert_same(tensor.grad, torch.full([5] * dims, float(self.size), dtype=dtype))

    @over(torch.float32, torch.float64)
    def test_average(self, dtype):
        tensor = self.values((5,), dtype).requires_grad_()
        hvd.allreduce(tensor).backward(torch.full((5,), float(self.rank), dtype=dtype))
        self.assert_same(tensor.grad, torch.full((5,), (self.size - 1) / 2, dtype=dtype), 1e-6)

    def test_scales(self):
        tensor = self.values((5,)).requires_grad_()
        reduced = hvd.allreduce(tensor, op=hvd.Sum, prescale_factor=2.0, postscale_factor=3.0)
        reduced.sum().backward()
        self.assert_same(tensor.grad, torch.full((5,), 6.0 * self.size))

    def test_through_a_graph(self):
        weight = torch.tensor([2.0], requires_grad=True)
        loss = (hvd.allreduce(weight * (self.rank + 1), op=hvd.Sum) ** 2).sum()
        loss.backward()
        total = self.size * (self.size + 1) / 2
        self.assertAlmostEqual(weight.grad.item(), 2 * total * 2 * self.size * (self.rank + 1), places=3)

    def test_no_gradient_is_recorded_without_need(self):
        self.assertFalse(hvd.allreduce(torch.ones(2)).requires_grad)
        with torch.no_grad():
            self.assertFalse(hvd.allreduce(torch.ones(2, requires_grad=True)).requires_grad)

    def test_compression(self):
        tensor = self.values((5,)).requires_grad_()
        reduced = hvd.allreduce(tensor, op=hvd.Sum, compression=hvd.Compression.fp16)
        self.assertEqual(reduced.dtype, torch.float32)
        reduced.sum().backward()
        self.assert_same(tensor.grad, torch.full((5,), float(self.size)))
