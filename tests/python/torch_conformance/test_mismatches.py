"""What the ranks may not do: requests that differ raise on every rank, and the world goes on."""

import torch
from conformance import Case, over

import cohort.torch as hvd


class Mismatch(Case):
    def setUp(self):
        super().setUp()
        self.need_ranks()
        self.odd = self.rank == self.size - 1

    def test_allreduce_of_other_lengths(self):
        self.assert_fails_everywhere(hvd.allreduce, torch.ones(17 + self.odd, 3))

    def test_allreduce_of_other_dimensions(self):
        self.assert_fails_everywhere(hvd.allreduce, torch.ones(4, 6) if self.odd else torch.ones(4, 2, 3))

    def test_allreduce_of_other_dtypes(self):
        self.assert_fails_everywhere(hvd.allreduce, torch.ones(4, dtype=torch.int32 if self.odd else torch.float32))

    def test_allreduce_with_other_operations(self):
        self.assert_fails_everywhere(hvd.allreduce, torch.ones(4), op=hvd.Max if self.odd else hvd.Sum)

    def test_allreduce_with_other_scales(self):
        self.assert_fails_everywhere(hvd.allreduce, torch.ones(4), prescale_factor=2.0 if self.odd else 1.0)

    def test_allreduce_in_place(self):
        self.assert_fails_everywhere(hvd.allreduce_, torch.ones(17 + self.odd))

    def test_allreduce_asynchronously(self):
        handle = hvd.allreduce_async(torch.ones(17 + self.odd))
        self.assert_fails_everywhere(hvd.synchronize, handle)

    def test_grouped_allreduce_of_other_counts(self):
        self.assert_fails_everywhere(hvd.grouped_allreduce, [torch.ones(2)] * (3 if self.odd else 2))

    def test_grouped_allreduce_of_other_shapes(self):
        self.assert_fails_everywhere(hvd.grouped_allreduce, [torch.ones(2), torch.ones(3 + self.odd)])

    def test_allgather_of_other_widths(self):
        self.assert_fails_everywhere(hvd.allgather, torch.ones(4, 5 + self.odd))

    def test_allgather_of_other_dtypes(self):
        self.assert_fails_everywhere(hvd.allgather, torch.ones(4, dtype=torch.int32 if self.odd else torch.float32))

    def test_broadcast_of_other_shapes(self):
        self.assert_fails_everywhere(hvd.broadcast, torch.ones(4 + self.odd), 0)

    def test_broadcast_of_other_dtypes(self):
        self.assert_fails_everywhere(hvd.broadcast, torch.ones(4, dtype=torch.int32 if self.odd else torch.float32), 0)

    def test_broadcast_from_other_roots(self):
        self.assert_fails_everywhere(hvd.broadcast, torch.ones(4), 1 if self.odd else 0)

    def test_alltoall_of_other_dtypes(self):
        dtype = torch.int32 if self.odd else torch.float32
        self.assert_fails_everywhere(hvd.alltoall, torch.ones(self.size, dtype=dtype))

    def test_alltoall_of_other_widths(self):
        self.assert_fails_everywhere(hvd.alltoall, torch.ones(self.size, 2 + self.odd))

    def test_reducescatter_of_other_shapes(self):
        self.assert_fails_everywhere(hvd.reducescatter, torch.ones(4 + self.odd))

    def test_reducescatter_of_other_dtypes(self):
        self.assert_fails_everywhere(hvd.reducescatter, torch.ones(4, dtype=torch.int32 if self.odd else torch.float32))

    def test_the_error_names_both_sides(self):
        with self.assertRaises(hvd.HorovodInternalError) as caught:
            hvd.allreduce(torch.ones(3 + self.odd), name="both_sides")
        for part in ("both_sides", "[3]", "[4]"):
            self.assertIn(part, str(caught.exception))

    def test_it_is_a_runtime_error(self):
        self.assertTrue(issubclass(hvd.HorovodInternalError, RuntimeError))


class UnderWay(Case):
    """A name can be under way once."""

    @over(hvd.allreduce_async, hvd.allgather_async, hvd.alltoall_async, hvd.reducescatter_async)
    def test_twice(self, function):
        self.need_ranks()
        if self.rank == 0:
            handle = function(torch.ones(self.size), name="twice")
            with self.assertRaises(ValueError):
                function(torch.ones(self.size), name="twice")
            hvd.barrier()
        else:
            hvd.barrier()  # until here rank 0's first one waits for the others
            handle = function(torch.ones(self.size), name="twice")
        hvd.synchronize(handle)

    def test_twice_broadcast(self):
        self.need_ranks()
        if self.rank == 0:
            handle = hvd.broadcast_async(torch.ones(1), 0, name="twice")
            with self.assertRaises(ValueError):
                hvd.broadcast_async(torch.ones(1), 0, name="twice")
            hvd.barrier()
        else:
            hvd.barrier()
            handle = hvd.broadcast_async(torch.ones(1), 0, name="twice")
        hvd.synchronize(handle)

    def test_one_name_for_two_kinds(self):
        first = hvd.allreduce_async(torch.ones(2), name="kinds", op=hvd.Sum)
        second = hvd.allgather_async(torch.ones(2), name="kinds")
        self.assertEqual(hvd.synchronize(second).shape[0], 2 * self.size)
        self.assert_same(hvd.synchronize(first), torch.full((2,), float(self.size)))

    def test_again_once_it_is_over(self):
        for i in range(3):
            self.assertEqual(hvd.allreduce(torch.tensor(float(i)), name="again").item(), i)
