"""The service is killed (SIGKILL) at random instants while jobs are submitted, wait, run and are stopped: each job runs
exactly once, none is lost, states are right, logs are whole.

COHORT_KILLS and COHORT_KILL_JOBS say how many (6 and 12 in the tests; `make bench-service` takes 100 and 50);
COHORT_KILL_SEED which instants.
"""

import collections
import http.client
import os
import random
import signal
import sys
import threading
import time
import unittest

from api_service import ENDED, PATIENCE, Service, ServiceTest

KILLS = int(os.environ.get("COHORT_KILLS", 6))
JOBS = int(os.environ.get("COHORT_KILL_JOBS", 12))
SEED = int(os.environ.get("COHORT_KILL_SEED", 1))
PROGRAM = """
import os, sys, time
ran, job, seconds = sys.argv[1:]
with open(ran, "ab", buffering=0) as file:  # O_APPEND
    file.write(f"{job} {os.environ['RANK']}\\n".encode())
for line in range(200):
    print(job, line, flush=True)
time.sleep(float(seconds))
print(job, "done", flush=True)
"""


class Kills(ServiceTest):
    """`self.service` is the one that runs now; requests go to it, again after each kill."""

    def setUp(self):
        super().setUp()
        self.random = random.Random(SEED)
        self.ran = self.folder / "ran"
        self.service = self.serve("--cores", 4)
        self.changed = threading.Lock()  # held while there is no service

    def kill(self):
        with self.changed:
            self.service.process.send_signal(signal.SIGKILL)
            self.service.process.wait()
            self.service.process.stdout.close()
            self.service = Service(self.root, "--cores", 4)
        self.addCleanup(self.end, self.service)

    def ask(self, method, path, body=None):
        """The answer of a service that lives; asked as often as it takes."""
        limit = time.monotonic() + PATIENCE
        while True:
            try:
                return self.service.call(method, path, body)
            except (OSError, http.client.HTTPException):
                if time.monotonic() > limit:
                    raise
                with self.changed:
                    pass

    def submit(self, number, program):
        """A job of one or two tasks; some run for as long as they are left alone."""
        endless = number % 5 == 4
        spec = {"name": f"job-{number}", "cores": self.random.choice([1, 2]), "instance_count": self.random.choice([1, 2]),
                "program": [*program, str(self.ran), f"job-{number}", "600" if endless else "0.2"]}
        answer = self.ask("POST", "/v1/jobs", {"spec": spec, "request_id": f"request-{number}"})
        self.assertEqual(answer.status, 201, answer.body)
        return answer.json()["id"], spec, endless

    def test_each_job_runs_once_whenever_the_service_is_killed(self):
        program = self.script(PROGRAM)
        jobs, failures = [], []

        def work():
            try:
                for number in range(JOBS):
                    jobs.append(self.submit(number, program))
                    time.sleep(self.random.uniform(0, 0.05))
                for job, _, endless in jobs:
                    if endless:
                        self.stop(job)
            except Exception as error:  # noqa: BLE001 (told by the test)
                failures.append(error)

        worker = threading.Thread(target=work)
        worker.start()
        kills = 0
        limit = time.monotonic() + PATIENCE + KILLS
        while kills < KILLS or worker.is_alive() or not self.all_ended():
            self.assertLess(time.monotonic(), limit, self.tell(jobs))
            if kills < KILLS:
                time.sleep(self.random.expovariate(10))
                self.kill()
                kills += 1
            else:
                time.sleep(0.05)
        worker.join()
        self.assertEqual(failures, [])
        self.assertEqual(len({job for job, _, _ in jobs}), JOBS)
        self.check(jobs)
        print(f"{KILLS} kills, {JOBS} jobs", file=sys.stderr)

    def stop(self, job):
        """Once it runs, for every second one; however often that is asked."""
        limit = time.monotonic() + PATIENCE
        wait_for = {"running"} if self.random.random() < 0.5 else {"queued", "starting", "running"}
        while self.ask("GET", f"/v1/jobs/{job}").json()["state"] not in wait_for | ENDED | {"stopping"}:
            self.assertLess(time.monotonic(), limit, job)
            time.sleep(0.02)
        answer = self.ask("POST", f"/v1/jobs/{job}/stop")
        self.assertIn(answer.status, (200, 409), answer.body)  # 409: killed after it was done, asked again

    def all_ended(self):
        listed = self.ask("GET", "/v1/jobs?limit=1000").json()["jobs"]
        return all(job["state"] in ENDED for job in listed)

    def check(self, jobs):
        runs = collections.Counter(self.ran.read_text().splitlines())
        listed = {job["id"]: job for job in self.ask("GET", "/v1/jobs?limit=1000").json()["jobs"]}
        self.assertEqual(set(listed), {job for job, _, _ in jobs})
        for job, spec, endless in jobs:
            name, found = spec["name"], self.ask("GET", f"/v1/jobs/{job}").json()
            ran = {line: count for line, count in runs.items() if line.split()[0] == name}
            self.assertEqual(found["state"], "stopped" if endless else "succeeded", found)
            self.assertLessEqual(len(found["attempts"]), 1, found)
            self.assertEqual(set(ran.values()) - {1}, set(), f"{name} ran more than once: {ran}")
            if endless:
                continue
            self.assertEqual(len(ran), spec["instance_count"], f"{name}: {ran}")
            self.assertEqual(found["exit_code"], 0, found)
            for task in range(spec["instance_count"]):
                log = self.ask("GET", f"/v1/jobs/{job}/logs?task=worker:{task}&limit=1000000").body.decode()
                expected = "".join(f"{name} {line}\n" for line in range(200)) + f"{name} done\n"
                self.assertEqual(log, expected)

    def tell(self, jobs):
        states = [(job["name"], job["state"], job["reason"])
                  for job in self.ask("GET", "/v1/jobs?limit=1000").json()["jobs"] if job["state"] not in ENDED]
        return f"{len(jobs)} submitted; not ended: {states}\n{''.join(self.service.errors)}"


if __name__ == "__main__":
    unittest.main()
