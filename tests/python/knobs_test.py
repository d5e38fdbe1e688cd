"""Horovod's variables: each becomes an option of the world, a wrong one is named; timelines are what Perfetto opens."""

import json
import os
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

import jobs
from needed_packages import need

need("numpy")
sys.path.insert(0, str(jobs.SOURCE / "python"))

from cohort.common import knobs  # noqa: E402


class Knobs(unittest.TestCase):
    def options(self, elastic=False, **variables):
        with mock.patch.dict(os.environ, variables, clear=True):
            return knobs.world_options(elastic)

    def test_nothing_is_set_without_them(self):
        self.assertEqual(self.options(), {})
        self.assertEqual(self.options(elastic=True), {"timeout_ms": 600_000})

    def test_each(self):
        for name, value, expected in [
            ("FUSION_THRESHOLD", "1048576", {"fusion_bytes": 1 << 20}),
            ("FUSION_THRESHOLD", "0", {"fusion_bytes": -1}),
            ("CYCLE_TIME", "2.5", {"cycle_us": 2500}),
            ("CYCLE_TIME", "0", {"cycle_us": -1}),
            ("STALL_CHECK_TIME_SECONDS", "7", {"stall_warning_s": 7.0}),
            ("STALL_SHUTDOWN_TIME_SECONDS", "90", {"stall_shutdown_s": 90.0}),
            ("STALL_CHECK_DISABLE", "1", {"stall_warning_s": -1.0, "stall_shutdown_s": 0.0}),
            ("STALL_CHECK_DISABLE", "0", {}),
            ("START_TIMEOUT", "30", {"timeout_ms": 30_000}),
            ("GLOO_TIMEOUT_SECONDS", "20", {"timeout_ms": 20_000}),
        ]:
            self.assertEqual(self.options(**{f"HOROVOD_{name}": value}), expected, (name, value))
        self.assertEqual(self.options(elastic=True, HOROVOD_ELASTIC_TIMEOUT="5"), {"timeout_ms": 5000})

    def test_a_value_that_is_wrong_is_named_with_the_variable(self):
        for value in ("many", "-1", "nan", "inf"):
            with self.assertRaisesRegex(ValueError, f"HOROVOD_CYCLE_TIME is '{value}'. Set it to milliseconds"):
                self.options(HOROVOD_CYCLE_TIME=value)

    def test_the_log_level(self):
        for given, expected in [({"HOROVOD_LOG_LEVEL": "FATAL"}, "error"), ({"HOROVOD_LOG_LEVEL": "trace"}, "debug"),
                                ({"HOROVOD_LOG_LEVEL": "x"}, None),
                                ({"HOROVOD_LOG_LEVEL": "info", "COHORT_LOG": "off"}, "off")]:  # fmt: skip
            with mock.patch.dict(os.environ, given, clear=True):
                knobs.set_log_level()
                self.assertEqual(os.environ.get("COHORT_LOG"), expected)


class Timeline(unittest.TestCase):
    def events(self, *words, **variables):
        with tempfile.TemporaryDirectory(prefix="cohort-timeline-") as folder:
            path = pathlib.Path(folder, "timeline.json")
            words = [word.format(path=path) for word in words]
            env = jobs.environment(**{name: value.format(path=path) for name, value in variables.items()})
            status, output = jobs.run_job(2, jobs.RANKS / "timeline.py", *words, env=env)
            self.assertEqual(status, 0, output)
            self.assertEqual(os.listdir(folder), [path.name])
            found = json.loads(path.read_text())
        return json.dumps(found)

    def test_of_the_environment(self):
        text = self.events(HOROVOD_TIMELINE="{path}")
        for index in range(5):
            self.assertIn(f"step.{index}", text)

    def test_started_and_stopped(self):
        text = self.events("{path}", HOROVOD_TIMELINE="DYNAMIC")
        self.assertIn("step.4", text)
        self.assertNotIn("before", text)
        self.assertNotIn("after", text)


if __name__ == "__main__":
    unittest.main()
