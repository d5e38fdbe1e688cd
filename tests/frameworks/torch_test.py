"""PyTorch programs that know nothing of Cohort: they read what torchrun sets."""

import signal
import unittest

from framework import FrameworkTest


class DistributedDataParallel(FrameworkTest):
    def test_training_ends_with_equal_weights_on_all_ranks(self):
        result = self.run_program("-n", 2, *self.program("torch_ddp.py"))
        ends = [self.fields(result, f"worker/{rank}", "trained") for rank in range(2)]
        for rank, end in enumerate(ends):
            self.assertEqual((end["rank"], end["size"], end["local_rank"]), (str(rank), "2", str(rank)))
            self.assertLess(float(end["error"]), 0.01)  # right only when both ranks' samples counted
            self.assertEqual(end["all"], ",".join([ends[0]["weights"]] * 2))

    def test_the_rank_that_raised_is_the_root_cause_not_the_peers_that_lost_it(self):
        for broken in (0, 1):
            with self.subTest(broken=broken):
                self.output = self.folder / f"broken{broken}"
                result = self.run_job("-n", 2, *self.program("torch_ddp.py", "--broken-rank", broken))
                # 134: once in a while PyTorch aborts while it comes down after the exception.
                self.assert_root_cause(result, f"worker/{broken}", 1, 128 + signal.SIGABRT)
                self.assertTrue(result.last_line.endswith("ValueError: sample 30 is broken"), result.last_line)
                self.assertLess(self.seconds_from_end_of(result, f"worker/{broken}"), 15)


if __name__ == "__main__":
    unittest.main()
