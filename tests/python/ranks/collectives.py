"""Every rank runs this: collectives on numpy arrays, checked on every rank."""

import gc
import sys
import threading
import unittest

import numpy as np

import cohort as hvd

REDUCED = ["uint8", "int8", "int32", "int64", "float16", "float32", "float64"]
MOVED = [*REDUCED, "uint16", "int16", "uint32", "uint64", "bool", "complex64", "complex128"]
SHAPES = [(), (0,), (1,), (17,), (3, 5), (2, 0, 3), (4, 3, 2)]


class Collectives(unittest.TestCase):
    def setUp(self):
        self.rank, self.size = hvd.rank(), hvd.size()

    def of(self, rank, shape, dtype):
        """Distinct small values for each rank."""
        values = np.arange(int(np.prod(shape)), dtype="int64").reshape(shape) % 5 + rank
        return values.astype(dtype)

    def test_allreduce_all_dtypes_and_shapes(self):
        for dtype in REDUCED:
            for shape in SHAPES:
                mine = self.of(self.rank, shape, dtype)
                before = mine.copy()
                result = hvd.allreduce(mine, op=hvd.Sum)
                self.assertEqual((result.dtype, result.shape), (mine.dtype, mine.shape))
                np.testing.assert_array_equal(result, sum(self.of(r, shape, "int64") for r in range(self.size)))
                np.testing.assert_array_equal(mine, before)

    def test_allreduce_operations(self):
        all_of_them = np.stack([self.of(r, (4, 3), "float64") for r in range(self.size)])
        mine = all_of_them[self.rank]
        for op, expected in [(hvd.Average, all_of_them.mean(0)), (hvd.Sum, all_of_them.sum(0)),
                             (hvd.Min, all_of_them.min(0)), (hvd.Max, all_of_them.max(0)),
                             (hvd.Product, all_of_them.prod(0))]:  # fmt: skip
            np.testing.assert_allclose(hvd.allreduce(mine, op=op, name=f"op.{op}"), expected)
        np.testing.assert_allclose(hvd.allreduce(mine), all_of_them.mean(0))
        with self.assertWarns(DeprecationWarning):
            np.testing.assert_allclose(hvd.allreduce(mine, average=False), all_of_them.sum(0))
        with self.assertRaises(ValueError):
            hvd.allreduce(mine, average=True, op=hvd.Sum)
        scaled = hvd.allreduce(mine, op=hvd.Sum, prescale_factor=0.5, postscale_factor=3.0)
        np.testing.assert_allclose(scaled, all_of_them.sum(0) * 1.5)

    def test_arrays_that_are_not_contiguous_or_of_another_byte_order(self):
        mine = self.of(self.rank, (4, 6), "float32")
        total = sum(self.of(r, (4, 6), "float32") for r in range(self.size))
        np.testing.assert_array_equal(hvd.allreduce(mine[::2, 1::2], op=hvd.Sum), total[::2, 1::2])
        np.testing.assert_array_equal(hvd.allreduce(mine.T, op=hvd.Sum), total.T)
        np.testing.assert_array_equal(hvd.allreduce(mine.astype(">f4"), op=hvd.Sum), total)
        view = mine[:, ::2]
        self.assertIs(hvd.allreduce_(view, op=hvd.Sum), view)
        np.testing.assert_array_equal(mine[:, ::2], total[:, ::2])
        self.assertEqual(hvd.allreduce([1.0, 2.0], op=hvd.Sum).tolist(), [self.size, 2.0 * self.size])

    def test_in_place(self):
        mine = self.of(self.rank, (9,), "float32")
        self.assertIs(hvd.allreduce_(mine, op=hvd.Sum), mine)
        np.testing.assert_array_equal(mine, sum(self.of(r, (9,), "float32") for r in range(self.size)))
        mine.flags.writeable = False
        with self.assertRaisesRegex(ValueError, "writable"):
            hvd.allreduce_(mine)

    def test_dtypes_that_cannot_be_exchanged(self):
        with self.assertRaisesRegex(ValueError, "datetime64.*Convert it to one of"):
            hvd.allreduce(np.zeros(2, "datetime64[s]"))

    def test_allgather_all_dtypes_ragged_and_empty(self):
        for dtype in MOVED:
            for tail in [(), (3,), (2, 2)]:
                parts = [self.of(r, (r * 2 % 5, *tail), dtype) for r in range(self.size)]
                result = hvd.allgather(parts[self.rank])
                self.assertEqual(result.dtype, parts[0].dtype)
                np.testing.assert_array_equal(result, np.concatenate(parts))

    def test_results_live_as_long_as_their_views(self):
        part = hvd.allgather(np.full(1000, self.rank, "int64"))[5:10]
        gc.collect()
        hvd.allgather(np.full(1000, 77, "int64"))
        self.assertEqual(part.tolist(), [0] * 5)
        part[:] = 9
        self.assertEqual(part.tolist(), [9] * 5)

    def test_broadcast_all_dtypes_and_roots(self):
        for dtype in MOVED:
            for root in range(self.size):
                mine = self.of(self.rank, (3, 2), dtype)
                result = hvd.broadcast(mine, root)
                np.testing.assert_array_equal(result, self.of(root, (3, 2), dtype))
                np.testing.assert_array_equal(mine, self.of(self.rank, (3, 2), dtype))
        scalar = np.array(float(self.rank))
        self.assertIs(hvd.broadcast_(scalar, self.size - 1), scalar)
        self.assertEqual(scalar.item(), self.size - 1)

    def test_alltoall(self):
        result = hvd.alltoall(np.arange(self.size * 2) + 100 * self.rank)
        self.assertEqual(result.tolist(), [100 * r + 2 * self.rank + i for r in range(self.size) for i in range(2)])
        splits = [self.rank + to for to in range(self.size)]
        mine = np.repeat(np.arange(self.size), splits)[:, None] * 10 + [self.rank, -1]
        received, counts = hvd.alltoall(mine, splits=splits)
        self.assertEqual(counts.tolist(), [r + self.rank for r in range(self.size)])
        self.assertEqual(received.shape, (sum(counts), 2))
        self.assertEqual(received[:, 0].tolist(),
                         [10 * self.rank + r for r in range(self.size) for _ in range(r + self.rank)])  # fmt: skip

    def test_reducescatter(self):
        for rows in (self.size * 2, self.size + 1, 1):
            mine = self.of(self.rank, (rows, 3), "float32")
            total = sum(self.of(r, (rows, 3), "float32") for r in range(self.size))
            mine_of_it = np.array_split(total, self.size)[self.rank]
            np.testing.assert_array_equal(hvd.reducescatter(mine, op=hvd.Sum), mine_of_it)
            np.testing.assert_allclose(hvd.reducescatter(mine), mine_of_it / self.size, rtol=1e-6)

    def test_grouped(self):
        mine = [self.of(self.rank, shape, "float32") for shape in [(3,), (2, 2), (0,)]]
        sums = [sum(self.of(r, one.shape, one.dtype) for r in range(self.size)) for one in mine]
        for result, expected in zip(hvd.grouped_allreduce(mine, op=hvd.Sum), sums):
            np.testing.assert_array_equal(result, expected)
        for result, one in zip(hvd.grouped_allgather(mine), mine):
            expected = np.concatenate([self.of(r, one.shape, one.dtype) for r in range(self.size)])
            np.testing.assert_array_equal(result, expected)
        for result, expected in zip(hvd.grouped_reducescatter(mine[:2], op=hvd.Sum), sums):
            np.testing.assert_array_equal(result, np.array_split(expected, self.size)[self.rank])
        handle = hvd.grouped_allreduce_async(mine, op=hvd.Sum, name="grouped")
        for result, expected in zip(hvd.synchronize(handle), sums):
            np.testing.assert_array_equal(result, expected)

    def test_asynchronous_in_another_order_on_every_rank(self):
        order = list(range(20))
        handles = {}
        for index in order[self.rank:] + order[:self.rank]:
            value = np.full(index + 1, index + self.rank, "float64")
            handles[index] = (hvd.allreduce_async if index % 2 else hvd.allgather_async)(value, name=f"item.{index}")
            del value
        for index in reversed(order):
            result = hvd.synchronize(handles[index])
            self.assertTrue(hvd.poll(handles[index]))
            self.assertEqual(result.shape, (index + 1 if index % 2 else self.size * (index + 1),))
            self.assertAlmostEqual(result.mean(), index + (self.size - 1) / 2)

    def test_handles_that_are_dropped(self):
        for index in range(50):
            hvd.allreduce_async(np.ones(1000), name=f"dropped.{index}")
        hvd.barrier()
        self.assertEqual(hvd.allreduce(np.ones(3)).tolist(), [1, 1, 1])

    def test_threads(self):
        results = {}

        def work(number):
            results[number] = [hvd.allreduce(np.full(8, float(number)), op=hvd.Sum, name=f"thread.{number}.{i}")[0]
                               for i in range(20)]  # fmt: skip

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads if self.rank % 2 else reversed(threads):
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(results, {number: [float(number * self.size)] * 20 for number in range(4)})

    def test_objects(self):
        mine = {"rank": self.rank, "long": "x" * (100 + 1000 * self.rank), "nothing": None}
        found = hvd.broadcast_object(mine, root_rank=self.size - 1)
        self.assertEqual((found["rank"], len(found["long"])), (self.size - 1, 100 + 1000 * (self.size - 1)))
        self.assertEqual(hvd.broadcast_object(None), None)
        self.assertEqual([one["rank"] for one in hvd.allgather_object(mine)], list(range(self.size)))
        self.assertEqual(hvd.allgather_object(self.rank, name="numbers"), list(range(self.size)))

    def test_mismatches_are_raised_on_every_rank_and_the_world_goes_on(self):
        if self.size == 1:
            self.skipTest("one rank always agrees with itself")
        last = self.rank == self.size - 1
        other = 1 if last else 0
        cases = {
            "shape": lambda: hvd.allreduce(np.ones(3 + other), name="m.shape"),
            "dtype": lambda: hvd.allreduce(np.ones(3, "f4" if last else "f8"), name="m.dtype"),
            "op": lambda: hvd.allreduce(np.ones(3), op=hvd.Min if last else hvd.Max, name="m.op"),
            "root": lambda: hvd.broadcast(np.ones(3), other, name="m.root"),
            "rows": lambda: hvd.allgather(np.ones((2, 3 + other)), name="m.rows"),
            "kind": lambda: (hvd.allgather if last else hvd.allreduce)(np.ones(3), name="m.kind"),
        }
        for name, call in cases.items():
            with self.subTest(name):
                with self.assertRaises(hvd.HorovodInternalError) as raised:
                    call()
                self.assertIn(f"m.{name}", str(raised.exception))
                self.assertRegex(str(raised.exception), r"ranks? 0.*rank [1-3]: ")
        self.assertEqual(hvd.allreduce(np.ones(2), op=hvd.Sum).tolist(), [self.size] * 2)

    def test_wrong_arguments_are_refused_at_once(self):
        with self.assertRaises(ValueError):
            hvd.broadcast(np.ones(2), self.size)
        with self.assertRaises(ValueError):
            hvd.alltoall(np.ones(3), splits=[1] * (self.size + 1))
        with self.assertRaises(ValueError):
            hvd.allreduce(np.ones(2), op=99)

    def test_join(self):
        for _ in range(self.rank):
            result = hvd.allreduce(np.ones(4), op=hvd.Sum, name="uneven")
            self.assertLessEqual(result[0], self.size)
        self.assertEqual(hvd.join(), self.size - 1)
        self.assertEqual(hvd.allreduce(np.ones(4), op=hvd.Sum).tolist(), [self.size] * 4)

    def test_who_we_are(self):
        self.assertEqual(sorted(hvd.allgather_object(self.rank)), list(range(self.size)))
        self.assertEqual((hvd.local_rank(), hvd.local_size()), (self.rank, self.size))
        self.assertEqual((hvd.cross_rank(), hvd.cross_size(), hvd.is_homogeneous()), (0, 1, True))


if __name__ == "__main__":
    hvd.init()
    program = unittest.main(exit=False, argv=[sys.argv[0], *sys.argv[1:]])
    failed = hvd.allgather_object(not program.result.wasSuccessful())
    if hvd.rank() == 0:
        print(f"ranks that failed: {[rank for rank, bad in enumerate(failed) if bad]}")
    hvd.shutdown()
    sys.exit(any(failed))
