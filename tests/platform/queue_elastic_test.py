"""An elastic job of a real service: it takes what is free, gives back what another job waits for, and takes it again."""

import time
import unittest

from api_service import BIN, PATIENCE, ServiceTest

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


if __name__ == "__main__":
    unittest.main()
