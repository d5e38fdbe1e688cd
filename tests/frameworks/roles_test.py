"""Programs that find their role in other ways: TASK_TYPE, arguments, Horovod's rendezvous."""

import unittest

from framework import FrameworkTest


class TaskType(FrameworkTest):
    def test_workers_and_ps_find_their_role_in_task_type_and_task_index(self):
        result = self.run_program("-n", 3, "--ps", 1, *self.program("task_type.py", self.folder, 3))
        for index in range(3):
            self.assertIn(f"worker {index} sees the sum 6\n".encode(), result.log(f"worker/{index}"))

    def test_a_type_that_the_program_does_not_know_is_the_root_cause(self):
        result = self.run_job("-n", 2, "--ps", 1, "--chief-name", "chief",
                              *self.program("task_type.py", self.folder, 2))  # fmt: skip
        self.assert_root_cause(result, "chief/0", 1)
        self.assertTrue(result.last_line.endswith("ValueError: Invalid task type: chief"), result.last_line)


class SchedulerArguments(FrameworkTest):
    def test_workers_and_ps_talk_at_the_addresses_in_their_arguments(self):
        result = self.run_program("-n", 3, "--ps", 2, "--scheduler-args",
                                  *self.program("scheduler_args.py", "--num_gpus", 0))  # fmt: skip
        for index in range(3):
            end = self.fields(result, f"worker/{index}", f"worker {index}")
            self.assertEqual(end, {"num_gpus": "0", "means": "[2.0, 2.0]"})


class HorovodRendezvous(FrameworkTest):
    def test_all_ranks_meet_through_the_http_store(self):
        result = self.run_program("-n", 4, "--horovod", *self.program("horovod_rendezvous.py"))
        for rank in range(4):
            end = self.fields(result, f"worker/{rank}", "exchanged")
            self.assertEqual(end, {
                "rank": str(rank), "global": "[1, 4, 9, 16]", "local": "[1, 4, 9, 16]",
                "cross": f"[{(rank + 1) ** 2}]", "again": "[-1, -4, -9, -16]",
            })  # fmt: skip


if __name__ == "__main__":
    unittest.main()
