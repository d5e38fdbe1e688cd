"""TensorFlow programs that know nothing of Cohort: they read TF_CONFIG."""

import os
import signal
import unittest

from framework import FrameworkTest


class MultiWorkerMirrored(FrameworkTest):
    def assert_trained_together(self, result):
        ends = [self.fields(result, f"worker/{index}", f"trained worker/{index}") for index in range(2)]
        for end in ends:
            self.assertEqual(end["replicas"], "2")
            self.assertLess(float(end["error"]), 0.01)  # right only when both workers' samples counted
        self.assertEqual(ends[0]["weights"], ends[1]["weights"])

    def test_keras_fit_ends_with_equal_weights_on_both_workers(self):
        self.assert_trained_together(self.run_program("-n", 2, *self.program("tf_multi_worker_keras.py")))

    def test_a_proxy_that_is_not_there_does_not_break_the_job(self):
        nowhere = "http://127.0.0.1:9"
        proxies = {name: nowhere for name in ("http_proxy", "https_proxy", "grpc_proxy", "HTTP_PROXY", "HTTPS_PROXY")}
        exceptions = {name: "example.org" for name in ("no_proxy", "NO_PROXY", "no_grpc_proxy")}
        result = self.run_program("-n", 2, *self.program("tf_multi_worker_keras.py"), env=proxies | exceptions)
        self.assert_trained_together(result)

    def test_a_killed_worker_is_the_root_cause(self):
        job = self.start("-n", 2, *self.program("tf_multi_worker_keras.py", "--epochs", 1000000))
        tasks = self.wait_for_tasks(2)
        self.wait_for_log("worker/1", "epoch 0 loss")
        [pid] = [task["pid"] for task in tasks if task["index"] == 1]
        os.kill(pid, signal.SIGKILL)
        result = self.finish(job)
        self.assert_root_cause(result, "worker/1", 128 + signal.SIGKILL)
        self.assertEqual(result.record()["root_cause"]["signal"], "SIGKILL")
        self.assertIn("SIGKILL", result.last_line)
        self.assertLess(self.seconds_from_end_of(result, "worker/1"), 15)


class ParameterServer(FrameworkTest):
    def test_the_job_ends_by_itself_though_its_servers_never_return(self):
        result = self.run_program("-n", 2, "--ps", 1, "--coordinator", *self.program("tf_parameter_server.py"))
        end = self.fields(result, "chief/0", "trained")
        self.assertEqual(end["workers"], "2")
        self.assertLess(float(end["error"]), 0.02)
        self.assertIn(b"weights live on /job:ps/", result.log("chief/0"))
        self.assertLess(self.seconds_from_end_of(result, "chief/0"), 15)
        states = {f"{t['type']}/{t['index']}": t["state"] for t in result.record()["tasks"]}
        self.assertEqual(states, {"chief/0": "succeeded", "worker/0": "stopped", "worker/1": "stopped",
                                  "ps/0": "stopped"})  # fmt: skip


if __name__ == "__main__":
    unittest.main()
