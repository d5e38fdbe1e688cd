"""allgather, broadcast, and what they are made of: any dtype is moved."""

import torch
from conformance import MOVED, Case, over

import cohort.torch as hvd


class Allgather(Case):
    @over(*MOVED)
    def test_equal_shapes(self, dtype):
        for shape in ((4,), (3, 2), (2, 3, 2)):
            self.assert_same(hvd.allgather(self.values(shape, dtype)), torch.cat(self.of_all(shape, dtype)))

    @over(1, 2, 3)
    def test_first_dimensions_that_differ(self, dims):
        shapes = [(2 * rank + 1, *[3] * (dims - 1)) for rank in range(self.size)]
        expected = torch.cat([self.values(shape, rank=rank) for rank, shape in enumerate(shapes)])
        self.assert_same(hvd.allgather(self.values(shapes[self.rank])), expected)

    def test_ranks_that_bring_nothing(self):
        rows = 0 if self.rank == 0 else 3
        self.assertEqual(tuple(hvd.allgather(torch.ones(rows, 2)).shape), (3 * (self.size - 1), 2))

    def test_nothing_from_all(self):
        self.assertEqual(tuple(hvd.allgather(torch.ones(0, 5)).shape), (0, 5))

    def test_strided(self):
        gathered = hvd.allgather(self.values((3, 4)).t())
        self.assert_same(gathered, torch.cat([part.t() for part in self.of_all((3, 4))]))

    def test_a_large_result_can_be_written_and_outlives_the_call(self):
        gathered = hvd.allgather(torch.full((100_000,), float(self.rank)))
        copies = [hvd.allgather(torch.full((100_000,), -1.0)) for _ in range(3)]
        gathered += 1
        self.assertEqual(gathered.sum().item(), 100_000 * self.size * (self.size + 1) / 2)
        del copies

    def test_asynchronously(self):
        handles = [hvd.allgather_async(torch.full((self.rank + 1,), i)) for i in range(10)]
        for i, handle in enumerate(handles):
            self.assertEqual(hvd.synchronize(handle).tolist(), [i] * (self.size * (self.size + 1) // 2))

    def test_grouped(self):
        tensors = [self.values((2,)), self.values((self.rank + 1, 2), torch.int64)]
        for gathered in (hvd.grouped_allgather(tensors), hvd.synchronize(hvd.grouped_allgather_async(tensors))):
            self.assert_same(gathered[0], torch.cat(self.of_all((2,))))
            self.assertEqual(gathered[1].shape[0], self.size * (self.size + 1) // 2)
            self.assertEqual(gathered[1].dtype, torch.int64)

    @over(torch.float32, torch.float64)
    def test_gradient(self, dtype):
        rows = [rank + 2 for rank in range(self.size)]
        tensor = self.values((rows[self.rank], 3), dtype).requires_grad_()
        weights = torch.cat([torch.full((count, 3), float(rank), dtype=dtype) for rank, count in enumerate(rows)])
        hvd.allgather(tensor).backward(weights * (self.rank + 1))
        average = sum(range(1, self.size + 1)) / self.size
        self.assert_same(tensor.grad, torch.full((rows[self.rank], 3), self.rank * average, dtype=dtype), 1e-5)

    def test_grouped_gradient(self):
        tensors = [torch.ones(2, requires_grad=True), torch.ones(self.rank + 1, 3, requires_grad=True)]
        sum(one.sum() for one in hvd.grouped_allgather(tensors)).backward()
        for tensor in tensors:
            self.assert_same(tensor.grad, torch.ones_like(tensor.detach()))


class Broadcast(Case):
    @over(*MOVED)
    def test_from_every_root(self, dtype):
        for root in range(self.size):
            for shape in ((), (5,), (2, 3), (0, 2)):
                sent = hvd.broadcast(self.values(shape, dtype), root)
                self.assert_same(sent, self.values(shape, dtype, rank=root))

    def test_the_argument_is_left_as_it_is(self):
        tensor = torch.tensor([float(self.rank)])
        hvd.broadcast(tensor, 0)
        self.assertEqual(tensor.item(), self.rank)

    @over(*MOVED)
    def test_in_place(self, dtype):
        tensor = self.values((3, 4), dtype)
        self.assertIs(hvd.broadcast_(tensor, self.size - 1), tensor)
        self.assert_same(tensor, self.values((3, 4), dtype, rank=self.size - 1))

    def test_in_place_on_a_view(self):
        wide = self.values((4, 6))
        hvd.broadcast_(wide[:, ::2], 0)
        expected = self.values((4, 6))
        expected[:, ::2] = self.values((4, 6), rank=0)[:, ::2]
        self.assert_same(wide, expected)

    def test_in_place_on_a_parameter(self):
        parameter = torch.nn.Parameter(torch.full((3,), float(self.rank)))
        hvd.broadcast_(parameter, 0)
        self.assertEqual(parameter.tolist(), [0, 0, 0])

    def test_asynchronously(self):
        tensor = torch.tensor([self.rank])
        first, second = hvd.broadcast_async(tensor, 0), hvd.broadcast_async_(torch.tensor([self.rank]), self.size - 1)
        self.assertEqual(hvd.synchronize(first).item(), 0)
        self.assertEqual(hvd.synchronize(second).item(), self.size - 1)
        self.assertEqual(tensor.item(), self.rank)

    @over(-1, 1000)
    def test_a_root_that_is_not_there_is_refused(self, root):
        with self.assertRaises(ValueError):
            hvd.broadcast(torch.ones(1), root)

    @over(torch.float32, torch.float64)
    def test_gradient(self, dtype):
        for root in range(self.size):
            tensor = self.values((4,), dtype).requires_grad_()
            hvd.broadcast(tensor, root).backward(torch.ones(4, dtype=dtype))
            self.assert_same(tensor.grad, torch.full((4,), float(self.rank == root), dtype=dtype))

    def test_of_a_name(self):
        self.assertEqual(hvd.broadcast(torch.tensor(self.rank), 0, name="named").item(), 0)
