"""What `cohort run` promises, for scripts that use cohort.torch: when one rank fails in a way that people have, the job
ends by itself, its last line is the root cause, and nothing is left behind."""

import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "launcher")]

import needed_packages  # noqa: E402
from launcher import COHORT, PYTHON, LauncherTest  # noqa: E402

needed_packages.need("torch", "numpy")
SCRIPT = str(HERE / "failing_script.py")


class Failures(LauncherTest):
    def environment(self, **extra):
        return super().environment(
            PYTHONPATH=str(HERE.parents[1] / "python"),
            COHORT_BIN_DIR=str(pathlib.Path(COHORT).parent),
            OMP_NUM_THREADS="1",
            **extra,
        )

    def fail_job(self, how, rank, ranks=2, **variables):
        result = self.run_job("-n", ranks, "--grace", 2, "--", PYTHON, SCRIPT, how, rank, env=variables)
        self.assertNotEqual(result.code, 0, result.stderr)
        self.assertNotIn(b"nothing went wrong", result.stdout)
        print(f"{how}: {result.seconds:.1f} s: {result.last_line}", flush=True)
        return result

    def assert_last_line(self, result, rank, pattern):
        self.assertRegex(result.last_line, rf"^cohort: worker/{rank} on \S+ \(pid \d+\) {pattern}$", result.stderr)

    def test_an_exception_on_one_rank(self):
        result = self.fail_job("exception", 1, ranks=3)
        self.assert_last_line(result, 1, r"failed with exit code 1 after \S+ s: RuntimeError: sample 30 is broken")
        self.assertIn("HorovodInternalError", result.stderr + result.stdout.decode())

    def test_shapes_that_do_not_match(self):
        result = self.fail_job("mismatch", 1)
        self.assert_last_line(
            result, r"[01]", r"failed with exit code 1 after \S+ s: .*HorovodInternalError: .*step\.3.*"
        )
        for task in ("worker/0", "worker/1"):  # both sides are named, on every rank
            log = result.log(task).decode()
            self.assertRegex(log, r"HorovodInternalError: .*10.*7|HorovodInternalError: .*7.*10", log)

    def test_a_rank_that_ends_early(self):
        result = self.fail_job("early", 0)
        self.assert_last_line(result, 0, r"ended with exit code 0 after \S+ s while worker/1 waited for it in .*")

    def test_a_rank_that_is_killed(self):
        result = self.fail_job("kill", 0)
        self.assert_last_line(result, 0, r"was killed by signal 9 \(SIGKILL\) after \S+ s: step 2 is the last")

    def test_a_rank_that_is_stopped(self):
        result = self.fail_job(
            "stop", 1, HOROVOD_STALL_CHECK_TIME_SECONDS="1", HOROVOD_STALL_SHUTDOWN_TIME_SECONDS="2"
        )
        self.assertRegex(result.stderr, r"(?i)step\.3.*rank.* 1|rank.* 1.*step\.3")
        self.assertIn("step.3", result.last_line)

    def test_calls_that_wait_for_each_other(self):
        result = self.fail_job(
            "order", 1, HOROVOD_STALL_CHECK_TIME_SECONDS="1", HOROVOD_STALL_SHUTDOWN_TIME_SECONDS="2"
        )
        for task, name, missing in (("worker/0", "a", 1), ("worker/1", "b", 0)):
            warning = (
                rf"waited \S+ s for other ranks to submit allreduce 'allreduce\.{name}' \(rank {missing} missing\)"
            )
            self.assertRegex(result.log(task).decode(), "warning: .*" + warning)
        self.assert_last_line(
            result,
            "[01]",
            # The exception that it ended with, or what its group's end left: the same words behind either.
            r"failed with exit code 1 after \S+ s: .*(HorovodInternalError|aborted the group): "
            r".*'allreduce\.[ab]' .* missing.*",
        )


if __name__ == "__main__":
    unittest.main()
