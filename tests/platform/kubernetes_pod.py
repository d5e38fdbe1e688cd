"""A pod of the test API server (kubernetes_server.py): its object, and the process of its container.

What a container's mounts are to it, a replacement of paths is here: the mount paths of its volumes, in its command
and in the files of its Secret, become folders of the test. Names of pods resolve to 127.0.0.1 through an /etc/hosts
of a mount namespace, where this user may make one.
"""

import base64
import datetime
import os
import pathlib
import signal
import subprocess
import threading
import uuid

PATIENCE = 60
INDEX = "batch.kubernetes.io/job-completion-index"


def now():
    return datetime.datetime.now(datetime.timezone.utc)


def seconds(when):
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")


class Pod:
    """One pod and the process of its container."""

    def __init__(self, cluster, job, index):
        self.cluster, self.job, self.index = cluster, job, index
        self.process, self.lines, self.closed = None, [], False
        name = job["metadata"]["name"]
        self.object = {
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": f"{name}-{index}-{uuid.uuid4().hex[:5]}", "uid": str(uuid.uuid4()),
                         "creationTimestamp": now().isoformat(),
                         "labels": {**job["spec"]["template"]["metadata"]["labels"], INDEX: str(index)}},
            "spec": {"nodeName": f"node{index}"},
            "status": {"phase": "Pending"},
        }  # fmt: skip

    @property
    def name(self):
        return self.object["metadata"]["name"]

    @property
    def ended(self):
        return self.object["status"]["phase"] in ("Succeeded", "Failed")

    def container(self):
        return self.job["spec"]["template"]["spec"]["containers"][0]

    def wait_reason(self, status):
        """It stays pending, with this status."""
        self.object["status"].update(status)
        self.cluster.pod_changed(self)

    def mounts(self):
        """Mount path: folder."""
        places, template = {}, self.job["spec"]["template"]["spec"]
        volumes = {volume["name"]: volume for volume in template["volumes"]}
        for mount in self.container()["volumeMounts"]:
            place = self.cluster.folder / self.name / mount["name"]
            if "persistentVolumeClaim" in (volume := volumes[mount["name"]]):
                place = self.cluster.folder / "claims" / volume["persistentVolumeClaim"]["claimName"]
                place /= mount.get("subPath", "")
            place.mkdir(parents=True, exist_ok=True)
            places[mount["mountPath"]] = str(place)
        places[self.container()["terminationMessagePath"]] = str(self.cluster.folder / self.name / "message")
        del places["/dev/shm"]
        return places

    def start(self):
        """False while its Secret is not there."""
        template, places = self.job["spec"]["template"]["spec"], self.mounts()

        def mounted(text):
            for path, place in places.items():
                text = text.replace(path, place)
            return text

        for volume in template["volumes"]:
            if "secret" not in volume:
                continue
            secret = self.cluster.objects["secrets"].get(volume["secret"]["secretName"])
            if secret is None:
                return False
            for name, data in secret["data"].items():
                data = base64.b64decode(data)
                if name.endswith(".json"):
                    data = mounted(data.decode()).encode()
                (self.cluster.folder / self.name / volume["name"] / name).write_bytes(data)
        words = [mounted(word) for word in self.container()["command"]]
        if self.cluster.names:
            hosts = "127.0.0.1 localhost\n" + "".join(
                f"127.0.0.1 {self.job['metadata']['name']}-{i}.{template['subdomain']}\n" for i in range(16))
            file = self.cluster.folder / self.name / "hosts"
            file.write_text(hosts)
            words = ["unshare", "--mount", "sh", "-c", f"mount --bind {file} /etc/hosts && exec \"$@\"", "sh", *words]
        failed = [pod for pod in self.cluster.of(self.job) if pod.index == self.index and pod is not self
                  and not pod.object["status"].get("conditions")]  # an eviction is no failure of its own
        env = {"PATH": os.environ["PATH"], "HOME": str(self.cluster.folder), "JOB_COMPLETION_INDEX": str(self.index),
               self.container()["env"][0]["name"]: str(len(failed)),  # job-index-failure-count
               "TMPDIR": str(self.cluster.folder / self.name)}
        self.cluster.starts[self.job["metadata"]["name"], self.index] += 1
        self.process = subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        start_new_session=True)
        self.began = seconds(now())
        self.object["status"] = {"phase": "Running", "containerStatuses": [
            {"name": "task", "image": self.container()["image"], "state": {"running": {"startedAt": self.began}}}]}
        self.cluster.pod_changed(self)
        threading.Thread(target=self.read, daemon=True).start()
        return True

    def read(self):
        for line in self.process.stdout:
            with self.cluster.changed:
                self.lines.append((now(), line))
                self.cluster.changed.notify_all()
        self.process.stdout.close()
        code = self.process.wait()
        if self.index in self.cluster.late:
            with self.cluster.changed:
                self.cluster.changed.wait_for(lambda: "deletionTimestamp" in self.object["metadata"], PATIENCE)
        self.end(128 - code if code < 0 else code)

    def end(self, code, reason=None, **status):
        with self.cluster.changed:
            self.closed = True
            if not self.ended:
                terminated = {"exitCode": code, "reason": reason or ("Error" if code else "Completed"),
                              "startedAt": self.began, "finishedAt": seconds(now()),
                              "message": self.message(code)}
                self.object["status"].update(
                    phase="Failed" if code else "Succeeded",
                    containerStatuses=[{"name": "task", "state": {"terminated": terminated}}], **status)
            self.cluster.pod_changed(self)
        self.cluster.pod_ended(self)

    def message(self, code):
        """As the kubelet makes it: of a log that stands in for a file 80 lines and 2,048 bytes at most."""
        file = pathlib.Path(self.cluster.folder, self.name, "message")
        said = file.read_text() if file.exists() else ""
        if not said and code and self.container()["terminationMessagePolicy"] == "FallbackToLogsOnError":
            return b"".join(line for _, line in self.lines[-80:])[-2048:].decode(errors="replace")
        return said[:4096]

    def kill(self, sign):
        if self.process and self.process.poll() is None:
            try:
                os.killpg(self.process.pid, sign)
            except ProcessLookupError:
                pass

    def out_of_memory(self):
        with self.cluster.changed:
            self.kill(signal.SIGKILL)
            self.process.wait()
            self.end(137, "OOMKilled")

    def evict(self):
        """The kubelet's: the container's state is gone, too."""
        with self.cluster.changed:
            self.object["status"].update(
                phase="Failed", reason="Evicted", message="The node was low on resource: memory.",
                conditions=[{"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"}],
                containerStatuses=[])
            self.kill(signal.SIGKILL)
            self.cluster.pod_changed(self)
