#!/usr/bin/env python3
"""Runs of `cohort run` in the service: --dashboard, `cohort attach`, and that the run depends on neither."""

import json
import os
import re
import signal
import unittest

from cli_test import PATIENCE, Platform

WAITS = """
import os, pathlib, time
print("rank", os.environ["RANK"], flush=True)
while not pathlib.Path("go").exists(): time.sleep(0.02)
(pathlib.Path(os.environ["COHORT_OUTPUT"]) / "checkpoints").mkdir(exist_ok=True)
(pathlib.Path(os.environ["COHORT_OUTPUT"]) / "checkpoints" / "step-1.json").write_text("{}")
"""


class AttachedRuns(Platform):
    def jobs(self):
        return json.loads(self.cohort("jobs", "--json"))

    def begin(self, *options):
        """A run that waits for the file `go`, and its job in the service."""
        run = self.start("run", "-n", "2", "--output", "out", *options, *self.python(WAITS))
        return run, self.wait_for(lambda: self.jobs() and self.jobs()[0]["id"], "the job of the run")

    def test_a_run_is_shown_from_its_beginning_to_its_end(self):
        run, job = self.begin("--dashboard")
        self.wait_for_state(job, "running")
        shown = self.job(job)
        self.assertEqual((shown["engine"], shown["name"], shown["instances"]), ("attached", "train", 2))
        self.wait_for(lambda: "rank 1" in self.cohort("logs", job, "--task", "worker:1"), "its log")
        (self.folder / "go").touch()
        said = run.communicate(timeout=PATIENCE)[1].decode()
        self.assertEqual(run.returncode, 0, said)
        self.assertRegex(said, r"this run in a browser, .*: http://127\.0\.0\.1:\d+/login\?code=")
        self.wait_for_state(job, "succeeded")
        self.cohort("delete", "--yes", job)
        self.assertTrue((self.folder / "out/job.json").exists())
        self.assertTrue((self.folder / "out/checkpoints/step-1.json").exists())

    def test_it_goes_on_without_the_service_and_is_found_again(self):
        run, job = self.begin("--dashboard")
        self.wait_for_state(job, "running")
        os.kill(self.record()["pid"], signal.SIGKILL)
        (self.folder / "go").touch()
        self.assertEqual(run.wait(PATIENCE), 0)
        self.jobs()  # starts a service again, which `status` does not
        self.wait_for_state(job, "succeeded")
        again = self.cohort("attach", "out")
        self.assertRegex(again, rf"^http://127\.0\.0\.1:\d+/login\?code=.*{job}")
        self.assertEqual([one["id"] for one in self.jobs()], [job])

    def test_it_can_be_stopped_and_not_resumed(self):
        run, job = self.begin("--dashboard")
        self.wait_for_state(job, "running")
        self.cohort("stop", job)
        self.assertNotEqual(run.wait(PATIENCE), 0)
        self.wait_for_state(job, "stopped")
        self.cohort("resume", job)
        self.wait_for_state(job, "failed")
        self.assertRegex(self.job(job)["reason"], "started without the service.*cohort resume .*/out")

    def test_what_is_no_run_is_refused(self):
        (self.folder / "empty").mkdir()
        self.assertIn("empty", self.refused("attach", "empty"))
        self.assertIn("no-such-run", self.refused("attach", "no-such-run"))
        (self.folder / "empty/job.json").write_text("[]")
        self.assertIn("is not the record of a job", self.refused("attach", "empty"))
        said = self.refused("submit", "--engine", "attached", "--", "/bin/true")
        self.assertRegex(said, "output is not set.*Name its output folder")

    def test_only_an_admin_may_attach(self):
        self.start("serve", "--listen", "127.0.0.1:0")
        address = self.wait_for(self.record, "the service")["listen"]
        token = self.cohort("token", "create", "ann", "--role", "user").strip()
        said = self.refused("submit", "--engine", "attached", "--output", str(self.folder), "--", "/bin/true",
                            env={"COHORT_SERVICE": address, "COHORT_TOKEN": token})  # fmt: skip
        self.assertIn("needs the role admin", re.sub(r"\s+", " ", said))


if __name__ == "__main__":
    unittest.main(verbosity=2)
