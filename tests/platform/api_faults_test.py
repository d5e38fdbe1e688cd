"""The HTTP API of a real `cohort serve` when a program is slow, a request is hostile, or the disk is full."""

import hashlib
import os
import subprocess
import time
import unittest

from api_service import PATIENCE, ServiceTest, check_schema, schema_named


class HoldingUp(ServiceTest):
    """What one request waits for, others do not."""

    def test_a_python_that_is_slow_to_answer_does_not_hold_others_up(self):
        service = self.serve()
        venv = self.folder / "venv/bin"
        venv.mkdir(parents=True)
        asked, free = self.folder / "asked", self.folder / "free"
        # 5 s are waited for it, unless it ends before.
        (venv / "python3").write_text(f"#!/bin/sh\n: > {asked}\nwhile [ ! -e {free} ]; do sleep 0.02; done\n")
        (venv / "python3").chmod(0o755)
        spec = {"program": ["true"], "framework": "pytorch", "framework_version": "2.1",
                "env": {"VIRTUAL_ENV": str(venv.parent)}}  # fmt: skip
        connection = service.connection()
        service.send(connection, "POST", "/v1/jobs/check", {"spec": spec})
        limit = time.monotonic() + PATIENCE
        while not asked.exists() and time.monotonic() < limit:
            time.sleep(0.01)
        begin = time.monotonic()
        for _ in range(20):
            self.assertEqual(service.call("GET", "/v1/service").status, 200)
        self.assertLess(time.monotonic() - begin, 4)
        free.touch()
        self.assertIn(connection.getresponse().status, (200, 400))
        connection.close()

    def test_descriptions_that_would_take_minutes_are_refused_at_once(self):
        service = self.serve()
        many = {f"k{i}": "1" for i in range(60000)}
        begin = time.monotonic()
        for spec in ({"k" * 1000000: 1}, many, {"program": ["true"], "env": many}, {"program": ["a"] * 200000},
                     {"program": ["true"], "metric_definitions": [{"name": "a", "regex": "(a)"}] * 101}):  # fmt: skip
            answer = service.call("POST", "/v1/jobs/check", {"spec": spec})
            self.assertEqual(answer.status, 400, answer.body[:200])
        self.assertLess(time.monotonic() - begin, PATIENCE / 6)

    def test_what_cannot_be_done_is_said_before_the_job_runs(self):
        service = self.serve()
        answer = service.call("POST", "/v1/jobs/check", {"spec": {"program": ["true"], "output": "../x"}})
        self.assertEqual(answer.status, 400)
        self.assertIn("absolute", answer.json()["error"]["message"])
        spec = {"program": ["true"], "metric_definitions": [{"name": "loss", "regex": "(?=x)(a)"}]}
        answer = service.call("POST", "/v1/jobs/check", {"spec": spec})
        self.assertEqual(answer.status, 400)
        self.assertIn("metric 'loss'", answer.json()["error"]["message"])


class FullDisk(ServiceTest):
    def setUp(self):
        super().setUp()
        self.root.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=4m,mode=700", "tmpfs", str(self.root)]
        if os.getuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
            self.skipTest("a small file system cannot be mounted here")
        self.addCleanup(subprocess.run, ["umount", "--lazy", str(self.root)], check=False)

    def test_is_said_and_the_service_goes_on(self):
        service = self.serve()
        large = os.urandom(6 << 20)
        answer = service.call("PUT", f"/v1/sources/{hashlib.sha256(large).hexdigest()}", large)
        self.assertEqual(answer.status, 503, answer.body)
        check_schema(answer.json(), schema_named("Error"))
        self.assertIn("No space left", answer.json()["error"]["message"])
        filler = self.root / "filler"
        with filler.open("wb", buffering=0) as file:
            with self.assertRaises(OSError):
                while True:
                    file.write(bytes(4096))
        answers = [service.call("POST", "/v1/jobs", {"spec": {"program": ["true"]}}) for _ in range(50)]
        refused = [answer for answer in answers if answer.status != 201]
        self.assertEqual({answer.status for answer in refused}, {503}, [answer.body for answer in refused][:3])
        self.assertIsNotNone(refused[0].json()["error"]["advice"])
        self.assertEqual(service.call("GET", "/v1/service").status, 200)
        filler.unlink()
        self.assertEqual(service.wait_until(service.submit(["true"]), {"succeeded"})["exit_code"], 0)


if __name__ == "__main__":
    unittest.main()
