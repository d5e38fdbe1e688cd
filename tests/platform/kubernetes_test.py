"""Jobs on Kubernetes: `cohort serve` against a test API server that misbehaves, pods as processes, and the documents
of `cohort submit --print kubernetes` against the schemas of three versions.

    kubernetes_test.py FAILING_PROGRAM MEMBER_PROGRAM
"""

import json
import pathlib
import re
import subprocess
import sys
import time
import unittest

import api_service
import kubernetes_server
from api_service import COHORT, PATIENCE
from kubernetes_server import CUT, END, GONE, LOSE, WAIT, Fault
from needed_packages import need

FAILING, MEMBER = (str(pathlib.Path(word).resolve()) for word in sys.argv[1:3])
VERSIONS = ("1.31", "1.33", "1.37")
COUNT = "import sys, time\nfor i in range({lines}):\n    print('line', i, flush=True)\n    time.sleep({pause})\n"


def read_if_there(file):
    return file.read_text() if file.exists() else ""


class ClusterTest(api_service.ServiceTest):
    def setUp(self):
        super().setUp()
        self.cluster = kubernetes_server.Cluster(self.folder / "cluster")
        self.addCleanup(self.cluster.close)

    def start(self, *words):
        return self.serve("--kubeconfig", self.cluster.kubeconfig, "--kubernetes-image", "none",
                          "--kubernetes-cohort", COHORT, "--kubernetes-output", "results", *words)

    def submit(self, service, program, **fields):
        return service.submit(program, engine="kubernetes", **fields)

    def log(self, service, job, task="worker:0"):
        file = service.root / f"jobs/{job}/attempts/1/run/logs/{task.replace(':', '-')}.attempt1.log"
        return file.read_text() if file.exists() else ""

    def pod(self, index=0):
        """The newest one of that index that runs."""
        self.wait(lambda: [pod for pod in self.cluster.pods if pod.index == index and pod.process and not pod.ended])
        return [pod for pod in self.cluster.pods if pod.index == index and not pod.ended][-1]

    def wait(self, condition):
        limit = time.monotonic() + PATIENCE
        while not (found := condition()):
            self.assertLess(time.monotonic(), limit, "waited in vain")
            time.sleep(0.02)
        return found

    def wait_for_reason(self, service, job, text):
        return self.wait(lambda: text in service.job(job).get("reason", "") and service.job(job))


class Jobs(ClusterTest):
    def test_a_job_of_three_pods_trains_together(self):
        if not self.cluster.names:
            self.skipTest("this user may make no mount namespace")
        service = self.start()
        job = self.submit(service, [FAILING, "ends", "0", "5"], instance_count=3)
        found = service.wait_until(job, {"succeeded"})
        self.assertEqual(found["exit_code"], 0)
        for rank in range(3):
            self.assertEqual(self.log(service, job, f"worker:{rank}"), f"rank {rank} of 3 has 1\n")
        made, = [path for method, path in self.cluster.requests if method == "POST" and path.endswith("/jobs")]
        self.assertIn("/namespaces/training/", made)
        secrets = json.dumps(list(self.cluster.objects["jobs"].values()))
        self.assertNotIn(json.loads((service.root / f"jobs/{job}/attempts/1/kubernetes.json").read_text())["secret"],
                         secrets)

    def test_the_pod_that_failed_first_is_the_root_cause(self):
        if not self.cluster.names:
            self.skipTest("this user may make no mount namespace")
        service = self.start()
        job = self.submit(service, [FAILING, "plain", "1", "5"], instance_count=3)
        found = service.wait_until(job, {"failed"})
        self.assertRegex(found["reason"], r"^worker/1 on node1 .*sample 30 is broken")

    def test_a_pod_that_is_gone_before_its_log_was_read_leaves_its_last_lines(self):
        self.cluster.faults = [Fault("GET", "/log", 404)] * 10000
        service = self.start()
        job = self.submit(service, self.script("import sys\nprint('at step 7', flush=True)\nsys.exit('no data')\n"))
        found = service.wait_until(job, {"failed"})
        self.assertRegex(found["reason"], "^worker/0 on node0 failed with exit code 1 .*: no data$")
        self.assertEqual(self.log(service, job), "cohort: the pod was removed before the rest of this log was read\n"
                                                 "at step 7\nno data\n")  # fmt: skip

    def test_the_end_of_a_pod_that_was_removed_with_the_failed_job_is_known(self):
        """The Job controller takes pods away that it does not know to have failed: here the one that failed first."""
        if not self.cluster.names:
            self.skipTest("this user may make no mount namespace")
        self.cluster.late = {1}
        self.cluster.faults = [Fault("GET", "/jobs/", WAIT)]
        service = self.start()
        job = self.submit(service, [FAILING, "plain", "1", "5"], instance_count=3)
        found = service.wait_until(job, {"failed"})
        self.assertRegex(found["reason"], r"^worker/1 on node1 .*sample 30 is broken")

    def test_pods_that_were_ended_with_the_job_are_not_its_cause(self):
        service = self.start()
        job = self.submit(service, self.script(
            "import os, sys, time\nif os.environ['TASK_INDEX'] == '1':\n    sys.exit('no data')\ntime.sleep(600)\n"),
            instance_count=3)  # fmt: skip
        self.assertRegex(service.wait_until(job, {"failed"})["reason"], "^worker/1 on node1 failed .*: no data$")

    def test_an_elastic_job_grows_and_shrinks(self):
        if not self.cluster.names:
            self.skipTest("this user may make no mount namespace")
        service, until = self.start(), self.folder / "until"
        job = self.submit(service, [MEMBER, "--until", str(until)], elastic={"min": 1, "max": 3})
        service.wait_until(job, {"running"})
        self.pod(1)
        for workers in (None, 2, 3):
            if workers:
                self.assertEqual(service.call("POST", f"/v1/jobs/{job}/scale", {"workers": workers}).status, 200)
            wanted = [str(workers or 3)]  # in the newest view: there may be others on the way
            self.wait(lambda: re.findall(r"with (\d+) members", self.log(service, job))[-1:] == wanted)
        until.write_text("")
        service.wait_until(job, {"succeeded"})

    def test_what_is_missing_is_said_and_not_tried_again(self):
        service = self.start()
        job = self.submit(service, ["absent-program"], restarts=3)
        self.assertIn("absent-program", service.wait_until(job, {"failed"})["reason"])
        self.assertEqual(sum(self.cluster.starts.values()), 1)

    def test_a_source_folder_and_results_travel(self):
        service, code = self.start(), self.folder / "code"
        code.mkdir()
        (code / "train.py").write_text("import os\nfrom helper import word\nprint(word)\n"
                                       "open(os.environ['COHORT_OUTPUT'] + '/result', 'w').write(word)\n")
        (code / "helper.py").write_text("word = 'found'\n")
        job, = subprocess.run([COHORT, "submit", "--engine", "kubernetes", "--source-dir", code, "--entry-point", "train.py"],
                              env={"COHORT_SERVICE": f"unix:{service.socket}", "PATH": "/usr/bin:/bin", "HOME": str(self.folder)},
                              capture_output=True, text=True, check=True).stdout.split()  # fmt: skip
        service.wait_until(job, {"succeeded"})
        self.assertEqual(self.log(service, job), "found\n")
        self.assertEqual((self.cluster.folder / f"claims/results/{job}/result").read_text(), "found")


class Misbehaviour(ClusterTest):
    def test_nothing_is_lost_or_doubled_when_the_server_misbehaves(self):
        self.cluster.faults = [
            Fault("POST", "/jobs$", 429, {"Retry-After": "1"}),
            Fault("POST", "/jobs$", LOSE),  # it is made; the next try meets 409
            Fault("POST", "/secrets$", 503), Fault("POST", "/services$", LOSE),
            Fault("GET", "watch=1", GONE), Fault("GET", "watch=1", END), Fault("GET", "watch=1", 410),
            Fault("GET", "watch=1", 500), Fault("GET", "watch=1", CUT), Fault("GET", "/jobs/", 500),
            Fault("GET", "/log", CUT), Fault("GET", "/log", CUT), Fault("GET", "/log", 500), Fault("GET", "/log", CUT),
        ]  # fmt: skip
        service = self.start()
        job = self.submit(service, self.script(COUNT.format(lines=600, pause=0.003)))
        service.wait_until(job, {"succeeded"})
        self.assertEqual(self.log(service, job), "".join(f"line {i}\n" for i in range(600)))
        self.assertEqual(sum(self.cluster.starts.values()), 1)
        self.assertEqual(self.cluster.faults, [])

    def test_a_token_that_expired_is_read_anew(self):
        service = self.start()
        job = self.submit(service, self.script(COUNT.format(lines=200, pause=0.01)))
        self.pod()
        self.cluster.tokens = {"renewed"}
        self.cluster.faults = [Fault("GET", "watch=1", END), Fault("GET", "/log", CUT)]
        self.cluster.token_file.write_text("renewed\n")
        service.wait_until(job, {"succeeded"})
        self.assertEqual(self.log(service, job).count("\n"), 200)

    def test_a_killed_service_finds_its_pods_and_their_lines_again(self):
        service = self.start()
        job = self.submit(service, self.script(COUNT.format(lines=300, pause=0.01)))
        self.wait(lambda: self.log(service, job).count("\n") > 20)
        service.process.kill()
        service.process.wait()
        again = self.start()
        again.wait_until(job, {"succeeded"})
        self.assertEqual(self.log(again, job), "".join(f"line {i}\n" for i in range(300)))
        self.assertEqual(sum(self.cluster.starts.values()), 1)

    def test_a_log_that_was_read_stays_when_the_service_is_killed_and_the_pod_goes(self):
        service, until = self.start(), self.folder / "until"
        job = self.submit(service, self.script(
            f"import os, time\nprint('all', flush=True)\nwhile os.environ['TASK_INDEX'] == '1' and "
            f"not os.path.exists({str(until)!r}):\n    time.sleep(0.05)\n"), instance_count=2)  # fmt: skip
        logs = service.root / f"jobs/{job}/attempts/1/run/logs"
        self.wait(lambda: '"is_whole":true' in read_if_there(logs / "worker-0.attempt1.log.position"))
        service.process.kill()
        service.process.wait()
        gone, = [pod.name for pod in self.cluster.pods if pod.index == 0]
        self.cluster.faults = [Fault("GET", f"/{gone}/log", 404)] * 10000
        again = self.start()
        again.wait_until(job, {"running"})
        until.write_text("")
        again.wait_until(job, {"succeeded"})
        self.assertEqual(self.log(again, job), "all\n")
        self.assertEqual(list(logs.glob("*.position")), [])

    def test_a_pod_that_no_node_takes_says_why_and_can_be_stopped(self):
        self.cluster.pending = {"conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
             "message": "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."}]}
        service = self.start()
        job = self.submit(service, ["true"])
        self.assertEqual(self.wait_for_reason(service, job, "Insufficient nvidia.com/gpu")["state"], "starting")
        service.call("POST", f"/v1/jobs/{job}/stop")
        service.wait_until(job, {"stopped"})
        self.assertEqual(self.cluster.objects, {"jobs": {}, "secrets": {}, "services": {}})

    def test_an_image_that_cannot_be_pulled_is_named(self):
        self.cluster.pending = {"containerStatuses": [
            {"name": "task", "image": "registry/absent:1",
             "state": {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}}]}
        service = self.start()
        self.wait_for_reason(service, self.submit(service, ["true"]), "the image 'registry/absent:1' cannot be had")

    def test_memory_that_ran_out_is_named(self):
        service = self.start()
        job = self.submit(service, ["sleep", "600"])
        self.pod().out_of_memory()
        found = service.wait_until(job, {"failed"})
        self.assertRegex(found["reason"], "worker/0 on node0 was killed by signal 9 .*out of memory")

    def test_an_evicted_pod_is_replaced_and_does_not_count(self):
        service = self.start()
        job = self.submit(service, self.script(
            "import os, time\nmark = os.environ['COHORT_OUTPUT'] + '/mark'\n"
            "again = os.path.exists(mark)\nopen(mark, 'w')\nprint('again' if again else 'first', flush=True)\n"
            "time.sleep(0 if again else 600)\n"))  # fmt: skip
        self.wait(lambda: (self.cluster.folder / f"claims/results/{job}/mark").exists())
        self.pod().evict()
        service.wait_until(job, {"succeeded"})
        self.assertEqual(self.cluster.starts.total(), 2)
        self.assertEqual(service.call("GET", f"/v1/jobs/{job}/logs?task=worker:0").status, 200)

    def test_a_stop_gives_the_program_its_grace_and_keeps_its_last_lines(self):
        service = self.start()
        job = self.submit(service, self.script(
            "import signal, sys, time\ndef end(*_):\n    print('saved', flush=True)\n    sys.exit(0)\n"
            "signal.signal(signal.SIGTERM, end)\nprint('ready', flush=True)\ntime.sleep(600)\n"))  # fmt: skip
        self.wait(lambda: "ready" in self.log(service, job))
        service.call("POST", f"/v1/jobs/{job}/stop")
        service.wait_until(job, {"stopped"})
        self.assertEqual(self.log(service, job), "ready\nsaved\n")

    def test_a_server_that_is_gone_is_the_reason_that_is_shown(self):
        self.cluster.server.shutdown()
        self.cluster.server.server_close()
        service = self.start()
        job = self.submit(service, ["true"])
        self.wait_for_reason(service, job, "the Kubernetes API server at https://127.0.0.1")
        service.process.kill()  # it may be that a Job was made: the job stays until the server says
        service.process.wait()

    def test_a_job_that_was_made_without_an_answer_is_stopped_all_the_same(self):
        self.cluster.faults = [Fault("POST", "/jobs$", LOSE)] + [Fault("POST", "/jobs$", 503)] * 1000
        service = self.start()
        job = self.submit(service, ["sleep", "600"])
        self.wait(lambda: self.cluster.objects["jobs"])
        self.wait_for_reason(service, job, "told to refuse (503)")
        service.call("POST", f"/v1/jobs/{job}/stop")
        service.wait_until(job, {"stopped"})
        self.wait(lambda: not self.cluster.objects["jobs"])


class Documents(unittest.TestCase):
    def printed(self, form, *words):
        done = subprocess.run([COHORT, "submit", "--print", form, *words], capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [json.loads(text) for text in re.split(r"^---$", done.stdout, flags=re.M)[1:]]

    FULL = ("--image", "registry/train:1", "--kubernetes-namespace", "training", "--kubernetes-pull-secret", "pull",
            "--kubernetes-output", "results", "--kubernetes-volume", "mnist:/data/mnist:ro",
            "--kubernetes-node-selector", "gpu=h200", "--kubernetes-queue", "team", "--max-run", "3600",
            "--instance-count", "4", "--instance-type", "8x64gx2", "--", "./train")  # fmt: skip

    def test_the_documents_are_valid_in_three_versions(self):
        import kubernetes_validate

        elastic = self.printed("kubernetes", "--image", "i", "--elastic", "1:4", "--", "./train")
        servers = self.printed("kubernetes", "--image", "i", "--instance-count", "2", "--distribution",
                               "parameter_server", "--", "./train")
        for document in [*self.printed("kubernetes", *self.FULL), *elastic, *servers,
                         *self.printed("kubernetes-account", "--kubernetes-namespace", "training", "--", "x")]:
            for version in VERSIONS:
                kubernetes_validate.validate(document, version, strict=True)

    def test_a_full_description_is_in_the_job(self):
        secret, service, job = self.printed("kubernetes", *self.FULL)
        self.assertEqual(job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"], "team")
        spec, pod = job["spec"], job["spec"]["template"]["spec"]
        self.assertEqual((spec["completions"], spec["parallelism"], spec["activeDeadlineSeconds"]), (4, 4, 3600))
        self.assertEqual(pod["nodeSelector"], {"gpu": "h200"})
        self.assertEqual(pod["imagePullSecrets"], [{"name": "pull"}])
        resources = pod["containers"][0]["resources"]
        self.assertEqual(resources["requests"]["cpu"], "8")
        self.assertEqual(resources["limits"], {"memory": str(64 << 30), "nvidia.com/gpu": "2"})
        self.assertEqual(service["metadata"]["name"], pod["subdomain"])
        variable, = pod["containers"][0]["env"]
        self.assertEqual(list(variable["valueFrom"]), ["fieldRef"])  # no value of the job
        jobset = self.printed("kubernetes-jobset", *self.FULL)[-1]
        self.assertEqual(jobset["kind"], "JobSet")

    def test_servers_do_not_keep_a_job_from_its_end(self):
        job = self.printed("kubernetes", "--image", "i", "--instance-count", "2", "--distribution", "parameter_server",
                           "--", "./train")[-1]  # fmt: skip
        self.assertEqual(job["spec"]["completions"], 4)
        self.assertEqual(job["spec"]["successPolicy"], {"rules": [{"succeededIndexes": "0-1"}]})


if __name__ == "__main__":
    need("kubernetes_validate")
    sys.argv[1:] = sys.argv[3:]
    unittest.main(verbosity=2)
