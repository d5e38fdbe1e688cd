"""Collectives among some of the ranks, the ones that have run out of data, and what there is of the world."""

import os
import time

import torch
from conformance import REDUCED, Case, over
from models import average_step, is_same_everywhere, make_model, step, weights

import cohort.torch as hvd


class ProcessSets(Case):
    """The even and the odd ranks, as sets of their own."""

    def setUp(self):
        os.environ["HOROVOD_DYNAMIC_PROCESS_SETS"] = "1"
        super().setUp()
        self.need_ranks()
        self.even = hvd.add_process_set(range(0, self.size, 2))
        self.odd = hvd.add_process_set(range(1, self.size, 2))
        self.own, self.other = (self.odd, self.even) if self.rank % 2 else (self.even, self.odd)

    def tearDown(self):
        self.assertTrue(hvd.remove_process_set(self.odd))
        self.assertTrue(hvd.remove_process_set(self.even))

    def of_set(self, shape, dtype=torch.float32):
        return [self.values(shape, dtype, rank) for rank in self.own.ranks]

    def test_what_a_set_knows(self):
        self.assertTrue(self.own.included())
        self.assertFalse(self.other.included())
        self.assertEqual(self.own.size(), len(self.own.ranks))
        self.assertEqual(self.own.rank(), self.rank // 2)
        self.assertEqual(self.own.ranks, list(range(self.rank % 2, self.size, 2)))

    @over(*REDUCED)
    def test_allreduce(self, dtype):
        expected = sum(self.of_set((9,), torch.int64)).to(dtype)
        self.assert_same(hvd.allreduce(self.values((9,), dtype), op=hvd.Sum, process_set=self.own), expected)

    def test_average(self):
        expected = torch.stack(self.of_set((9,))).mean(0)
        self.assert_same(hvd.allreduce(self.values((9,)), process_set=self.own), expected, 1e-6)

    def test_in_place_and_asynchronously(self):
        tensor, other = self.values((9,)), self.values((3,))
        hvd.allreduce_(tensor, op=hvd.Sum, process_set=self.own)
        hvd.synchronize(hvd.allreduce_async_(other, op=hvd.Sum, process_set=self.own))
        self.assert_same(tensor, sum(self.of_set((9,))))
        self.assert_same(other, sum(self.of_set((3,))))

    def test_grouped_allreduce(self):
        reduced = hvd.grouped_allreduce([self.values((9,)), self.values((2,))], op=hvd.Sum, process_set=self.own)
        self.assert_same(reduced[1], sum(self.of_set((2,))))

    def test_allgather(self):
        gathered = hvd.allgather(torch.full((self.rank + 1,), self.rank), process_set=self.own)
        self.assertEqual(gathered.tolist(), [rank for rank in self.own.ranks for _ in range(rank + 1)])

    def test_broadcast_from_a_rank_of_the_world(self):
        for root in self.own.ranks:
            self.assertEqual(hvd.broadcast(torch.tensor(self.rank), root, process_set=self.own).item(), root)

    def test_broadcast_from_a_root_outside_is_refused(self):
        with self.assertRaises(ValueError):
            hvd.broadcast(torch.ones(1), self.other.ranks[0], process_set=self.own)

    def test_alltoall(self):
        count = self.own.size()
        output, received = hvd.alltoall(torch.arange(count), [1] * count, process_set=self.own)
        self.assertEqual(output.tolist(), [self.own.rank()] * count)
        self.assertEqual(received.tolist(), [1] * count)

    def test_reducescatter(self):
        reduced = hvd.reducescatter(torch.ones(self.own.size()), op=hvd.Sum, process_set=self.own)
        self.assertEqual(reduced.tolist(), [self.own.size()])

    def test_gradients(self):
        for function in (lambda t: hvd.allreduce(t, op=hvd.Sum, process_set=self.own),
                         lambda t: hvd.allgather(t, process_set=self.own) * self.own.size(),
                         lambda t: hvd.alltoall(t, process_set=self.own) * self.own.size()):  # fmt: skip
            tensor = torch.ones(self.own.size(), requires_grad=True)
            function(tensor).sum().backward()
            self.assert_same(tensor.grad, torch.full((self.own.size(),), float(self.own.size())))

    def test_a_barrier_of_a_set(self):
        hvd.barrier(process_set=self.own)

    def test_objects(self):
        self.assertEqual(hvd.broadcast_object(self.rank, self.own.ranks[-1], process_set=self.own), self.own.ranks[-1])

    def test_an_optimizer_of_a_set(self):
        model, alone = make_model(), make_model()
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters(),
                                             process_set=self.own, groups=2)  # fmt: skip
        other = torch.optim.SGD(alone.parameters(), lr=0.1)
        for _ in range(2):
            step(model, optimizer, self.rank)
            average_step(alone, other, self.own.ranks)
        self.assert_same(weights(model), weights(alone), 1e-6)

    def test_an_optimizer_outside_of_its_set_is_a_plain_one(self):
        model, alone = make_model(), make_model()
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters(),
                                             process_set=self.even)  # fmt: skip
        step(model, optimizer, self.rank)
        if self.rank % 2:
            average_step(alone, torch.optim.SGD(alone.parameters(), lr=0.1), [self.rank])
            self.assert_same(weights(model), weights(alone), 1e-6)

    @over("allreduce", "allgather", "alltoall", "reducescatter")
    def test_a_rank_outside_is_refused(self, function):
        with self.assertRaises(ValueError):
            getattr(hvd, function)(torch.ones(4), process_set=self.other)

    def test_a_set_that_is_not_registered_is_refused(self):
        with self.assertRaises(ValueError):
            hvd.allreduce(torch.ones(1), process_set=hvd.ProcessSet([0]))

    def test_the_global_set_goes_on_beside_them(self):
        handle = hvd.allreduce_async(torch.ones(1), op=hvd.Sum)
        self.assertEqual(hvd.allreduce(torch.ones(1), op=hvd.Sum, process_set=self.own).item(), self.own.size())
        self.assertEqual(hvd.synchronize(handle).item(), self.size)

    def test_sets_that_make_other_numbers_of_calls(self):
        for _ in range(3 if self.rank % 2 else 1):
            hvd.allreduce(torch.ones(1), process_set=self.own)
            hvd.synchronize(hvd.allgather_async(torch.ones(1), process_set=self.own))
        self.assertEqual(hvd.allreduce(torch.ones(1), op=hvd.Sum).item(), self.size)
        self.assertEqual(len(hvd.allgather(torch.ones(1))), self.size)

    def test_adasum_of_a_set_is_refused_by_the_optimizer(self):
        model = make_model()
        with self.assertRaises(NotImplementedError):
            hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), op=hvd.Adasum, process_set=self.own)


class Join(Case):
    def test_all_at_once(self):
        self.assertIn(hvd.join(), range(self.size))

    @over(torch.int32, torch.float32, torch.float64)
    def test_a_rank_that_has_joined_brings_zeros(self, dtype):
        self.need_ranks()
        for first in range(2):
            if self.rank == first:
                last = hvd.join()
            else:
                pair = [hvd.allreduce_async(torch.full((5,), 8, dtype=dtype), name=f"join.{i}", op=op)
                        for i, op in enumerate((hvd.Sum, hvd.Average))]  # fmt: skip
                total, average = [hvd.synchronize(handle) for handle in pair]
                self.assert_same(total, torch.full((5,), 8 * (self.size - 1), dtype=dtype))
                wanted = torch.full((5,), 8.0 * (self.size - 1) / self.size, dtype=torch.float64).to(dtype)
                self.assert_same(average, wanted, 1e-5)
                last = hvd.join()
            self.assertNotEqual(last, first)
            self.assertEqual(hvd.allgather_object(last), [last] * self.size)

    def test_ranks_with_more_and_less_data(self):
        for _ in range(self.rank + 1):
            hvd.allreduce(torch.ones(3))
        hvd.join()
        self.assertEqual(hvd.allreduce(torch.ones(1), op=hvd.Sum).item(), self.size)

    @over("allgather", "alltoall", "reducescatter")
    def test_other_kinds_fail_while_a_rank_has_joined(self, function):
        self.need_ranks()
        if self.rank > 0:
            with self.assertRaises(hvd.HorovodInternalError):
                getattr(hvd, function)(torch.ones(self.size))
        hvd.join()

    def test_broadcast_fails_while_a_rank_has_joined(self):
        self.need_ranks()
        if self.rank > 0:
            with self.assertRaises(hvd.HorovodInternalError):
                hvd.broadcast(torch.ones(self.size), 1)
        hvd.join(hvd.local_rank())

    def test_an_optimizer_with_uneven_data(self):
        model = make_model()
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
        for _ in range(2 + self.rank):
            step(model, optimizer, self.rank)
        last = hvd.join()
        hvd.broadcast_parameters(model.state_dict(), root_rank=last)
        self.assertTrue(is_same_everywhere(weights(model)))


class World(Case):
    def test_what_there_is_of_it(self):
        self.assertTrue(hvd.is_initialized())
        self.assertEqual((hvd.local_rank(), hvd.local_size()), (self.rank, self.size))
        self.assertEqual((hvd.cross_rank(), hvd.cross_size()), (0, 1))
        self.assertTrue(hvd.is_homogeneous())

    def test_init_again_does_nothing(self):
        hvd.init()
        self.assertEqual(hvd.rank(), self.rank)

    def test_shutdown_and_init(self):
        for _ in range(3):
            hvd.shutdown()
            self.assertFalse(hvd.is_initialized())
            with self.assertRaises(ValueError):
                hvd.rank()
            with self.assertRaises(ValueError):
                hvd.allreduce(torch.ones(1))
            hvd.init()
            self.assertEqual((hvd.rank(), hvd.size()), (self.rank, self.size))
            self.assertEqual(hvd.allreduce(torch.ones(1), op=hvd.Sum).item(), self.size)

    def test_barrier(self):
        self.need_ranks()
        start = time.monotonic()
        if self.rank == 0:
            time.sleep(0.2)
        hvd.barrier()
        self.assertGreater(time.monotonic() - start, 0.15)

    def test_what_is_built(self):
        for name in ("mpi_built", "mpi_enabled", "gloo_built", "gloo_enabled", "nccl_built", "ddl_built", "ccl_built",
                     "cuda_built", "rocm_built"):  # fmt: skip
            self.assertIn(getattr(hvd, name)(), (True, False, 0, 1))

    def test_operations_have_horovods_numbers(self):
        self.assertEqual([hvd.Average, hvd.Sum, hvd.Adasum, hvd.Min, hvd.Max, hvd.Product], list(range(6)))

    def test_every_name_of_horovod_is_there(self):
        for name in NAMES.split():
            self.assertTrue(hasattr(hvd, name), name)


NAMES = """elastic Compression allgather_object broadcast_object broadcast_optimizer_state broadcast_parameters
allreduce allreduce_async allreduce_ allreduce_async_ grouped_allreduce grouped_allreduce_async grouped_allreduce_
grouped_allreduce_async_ sparse_allreduce_async allgather allgather_async grouped_allgather grouped_allgather_async
broadcast broadcast_async broadcast_ broadcast_async_ alltoall alltoall_async reducescatter reducescatter_async
grouped_reducescatter grouped_reducescatter_async join barrier poll synchronize init shutdown is_initialized
start_timeline stop_timeline size local_size cross_size rank local_rank cross_rank mpi_threads_supported mpi_enabled
mpi_built gloo_enabled gloo_built nccl_built ddl_built ccl_built cuda_built rocm_built ProcessSet global_process_set
add_process_set remove_process_set Average Sum Adasum Min Max Product HorovodInternalError DistributedOptimizer
SyncBatchNorm"""

