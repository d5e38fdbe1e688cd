"""What the cases of this folder share: every rank runs all of them, in the same order, in one process."""

import re
import unittest

import torch

import cohort.torch as hvd

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
REDUCED = INTEGERS + FLOATS
MOVED = REDUCED + (torch.bool, torch.complex64, torch.complex128)
SHAPES = ((), (1,), (17,), (5, 3), (3, 4, 5), (2, 0, 3))


def label_of(value):
    text = getattr(value, "__name__", str(value)).replace("torch.", "")
    return re.sub(r"\W+", "_", text[:30]).strip("_")


def over(*values):
    """A method that is a case for each of the values, which it takes."""

    def mark(method):
        method.values = values
        return method

    return mark


class Case(unittest.TestCase):
    """`rank` and `size` are those of the world, which is open."""

    def __init_subclass__(cls):
        for name, method in list(vars(cls).items()):
            for value in getattr(method, "values", ()):

                def case(self, method=method, value=value):
                    method(self, value)

                setattr(cls, f"{name}_{label_of(value)}", case)
            if hasattr(method, "values"):
                delattr(cls, name)

    def setUp(self):
        hvd.init()
        self.rank, self.size = hvd.rank(), hvd.size()

    def need_ranks(self, count=2):
        if self.size < count:
            self.skipTest(f"needs {count} ranks")

    def values(self, shape, dtype=torch.float32, rank=None):
        """A tensor that only this rank has, of small whole numbers: sums of a few are exact in every dtype."""
        generator = torch.Generator().manual_seed(99 + (self.rank if rank is None else rank))
        whole = torch.randint(0, 6, tuple(shape), generator=generator)
        return whole.to(dtype)

    def of_all(self, shape, dtype=torch.float32):
        return [self.values(shape, dtype, rank) for rank in range(self.size)]

    def assert_same(self, actual, expected, tolerance=0.0):
        self.assertEqual(actual.dtype, expected.dtype)
        self.assertEqual(tuple(actual.shape), tuple(expected.shape))
        if not tolerance:
            self.assertTrue(torch.equal(actual, expected), f"{actual} is not {expected}")
        elif actual.numel():
            wide = torch.complex128 if actual.is_complex() else torch.float64
            error = (actual.to(wide) - expected.to(wide)).abs().max().item()
            self.assertLessEqual(error, tolerance)

    def assert_fails_everywhere(self, function, *args, **kwargs):
        """The ranks' requests do not match: every rank is told, with both sides named, and the world goes on."""
        with self.assertRaises(hvd.HorovodInternalError) as caught:
            function(*args, **kwargs)
        self.assertIn("rank", str(caught.exception))
        self.assertEqual(hvd.allreduce(torch.ones(1), op=hvd.Sum).item(), self.size)
