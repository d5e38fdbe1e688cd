#!/usr/bin/env python3
"""The C interface: what libcohort.so shows, and programs in C as ranks of a job, well and badly.

usage: capi_test.py LIBRARY PROGRAM_FOLDER
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

LIBRARY, PROGRAMS = (pathlib.Path(argument) for argument in sys.argv[1:3])
LIMIT = 90  # seconds for one job


def run_job(workers, *program, options=()):
    """(exit code, output) of a job."""
    with tempfile.TemporaryDirectory(prefix="cohort-capi-") as folder:
        command = [os.path.join(os.environ["COHORT_BIN_DIR"], "cohort"), "run", "--output", folder, "-n", workers]
        done = subprocess.run([*command, *options, "--", PROGRAMS / program[0], *program[1:]], timeout=LIMIT, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
        return done.returncode, done.stdout


class Library(unittest.TestCase):
    def test_shows_the_c_interface_and_nothing_else(self):
        listed = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], check=True, text=True, stdout=subprocess.PIPE)
        names = {line.split()[-1] for line in listed.stdout.splitlines()}
        strangers = {name for name in names if not name.startswith("cohort_") and not name.startswith("__")}
        self.assertFalse(strangers)
        header = pathlib.Path(__file__).parents[2] / "src/cohort/capi/cohort_c.h"
        declared = {name for name in names if name + "(" in header.read_text()}
        self.assertEqual(declared, {name for name in names if name.startswith("cohort_")})

    def test_needs_neither_torch_nor_mpi(self):
        needed = subprocess.run(["readelf", "-d", LIBRARY], check=True, text=True, stdout=subprocess.PIPE).stdout
        for library in ("torch", "c10", "mpi"):
            self.assertNotIn(f"lib{library}", needed)


class Jobs(unittest.TestCase):
    def expect(self, workers, *program, options=()):
        code, output = run_job(workers, *program, options=options)
        self.assertEqual(code, 0, output)
        return output

    def test_every_kind_of_request(self):
        for workers in ("1", "3"):
            self.assertEqual(self.expect(workers, "capi_collectives").count("all as expected"), int(workers))

    def test_requests_that_differ_fail_on_all_ranks_and_the_world_goes_on(self):
        self.expect("3", "capi_faults", "mismatches")

    def test_ranks_submit_in_different_orders(self):
        self.expect("3", "capi_faults", "orders")

    def test_a_world_is_opened_again_and_again(self):
        self.expect("3", "capi_faults", "reopen")

    def test_close_with_requests_under_way(self):
        self.expect("2", "capi_faults", "closing")

    def test_an_interrupted_wait_breaks_the_world(self):
        self.expect("2", "capi_faults", "interrupts")

    def test_a_rank_that_ends_is_named(self):
        output = self.expect("2", "capi_faults", "death")
        self.assertIn("rank 1 (worker/1", output)
        self.assertIn("Under way here: allreduce 'x'.", output)

    def test_a_warning_names_the_rank_that_is_missing(self):
        output = self.expect("3", "capi_faults", "stalls")
        for rank in (0, 1):
            self.assertIn(f"rank {rank} has waited 0.", output)
        self.assertIn("to submit allreduce 'late' (rank 2 missing)", output)

    def test_an_elastic_job(self):
        self.expect("2:2", "capi_faults", "elastic", options=["--elastic"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
