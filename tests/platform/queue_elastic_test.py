"""The queue of a real service: what jobs hold and wait for; an elastic one takes what is free, and gives it back."""

import time
import unittest

from api_service import BIN, PATIENCE, ServiceTest, check_answer

MEMBER = str(BIN.parent / "tests" / "member_program")


class Elastic(ServiceTest):
    def wait_for_workers(self, service, job, workers):
        limit = time.monotonic() + PATIENCE
        while (found := service.job(job))["instances"] != workers or found["state"] != "running":
            self.assertLess(time.monotonic(), limit, f"not {workers} workers: {found}")
            time.sleep(0.05)

    def test_it_grows_gives_back_and_grows_again(self):
        service = self.serve("--cores", 3)
        over = self.folder / "over"
        first = service.submit(["sleep", "600"], name="first", cores=1)
        elastic = service.submit([MEMBER, "--until", str(over), "--stage-ms", "5"], name="elastic", cores=1,
                                 elastic={"min": 1, "max": 3})
        self.wait_for_workers(service, elastic, 2)
        service.call("POST", f"/v1/jobs/{first}/stop")
        self.wait_for_workers(service, elastic, 3)
        other = service.submit(["true"], name="other", cores=2)
        service.wait_until(other, {"succeeded"})
        self.wait_for_workers(service, elastic, 3)
        over.touch()
        service.wait_until(elastic, {"succeeded"})
        kinds = [event["kind"] for event in service.call("GET", f"/v1/jobs/{elastic}/events", headers={
            "Accept": "application/json"}).json()["events"]]
        self.assertEqual(kinds, ["submitted", "starting", "started", "scaled", "scaled", "scaled", "ended"])


class Cluster(ServiceTest):
    def cluster(self, service, token=None):
        answer = service.call("GET", "/v1/cluster", token=token)
        self.assertEqual(answer.status, 200, answer.body)
        check_answer("GET", "/v1/cluster", answer)
        return answer.json()

    def test_says_who_holds_the_machine_and_who_waits_for_it_in_which_order(self):
        service = self.serve("--cores", 3, "--listen", "127.0.0.1:0")
        ada, bob = (service.call("POST", "/v1/tokens", {"user": name, "role": "user"}).json()["token"]
                    for name in ("ada", "bob"))  # fmt: skip
        holder = service.submit(["sleep", "600"], ada, name="holder", cores=2)
        service.wait_until(holder, {"running"})
        later = service.submit(["sleep", "600"], ada, name="later", cores=2)
        sooner = service.submit(["sleep", "600"], ada, name="sooner", cores=2, priority=5)
        limit = time.monotonic() + PATIENCE
        while True:
            seen = self.cluster(service)
            if [job["place"] for job in seen["waiting"]] == [1, 2] and seen["free"]["cores"] == 1:
                break
            self.assertLess(time.monotonic(), limit, seen)
            time.sleep(0.02)
        self.assertEqual((seen["total"]["cores"], seen["free"]["cores"]), (3, 1))
        held = seen["held"][0]
        self.assertEqual((held["job"], held["name"], held["user"], held["cores"], held["instances"]),
                         (holder, "holder", "ada", 2, 1))  # fmt: skip
        self.assertEqual([job["job"] for job in seen["waiting"]], [sooner, later])
        self.assertIn("holds", seen["waiting"][0]["reason"])
        # Another user learns that the machine is held, not by what, nor from the sentence.
        others = self.cluster(service, bob)
        self.assertEqual([(job["job"], job["name"], job["user"], job["cores"]) for job in others["held"]],
                         [(None, None, None, 2)])  # fmt: skip
        self.assertEqual([job["reason"] for job in others["waiting"]], ["", ""])
        self.assertEqual(len(self.cluster(service, ada)["waiting"]), 2)


if __name__ == "__main__":
    unittest.main()
