"""A Kubernetes API server for tests: Jobs, pods, logs and watches with the semantics that Cohort relies on.

Containers are local processes (kubernetes_pod.py).
The server can be told to misbehave: see `Fault`.

usage: kubernetes_server.py COMMAND...    runs the command where there is such a server, with COHORT_TEST_KUBECONFIG
"""

import collections
import http.server
import json
import os
import pathlib
import re
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import uuid

from kubernetes_pod import PATIENCE, Pod, now, seconds

# What `do` of a fault may be, beside a status to answer with: the request is carried out and its answer is lost;
# a stream ends in the middle of a line; a watch ends, or says that it is too old; the request waits until all Jobs have
# ended.
LOSE, CUT, END, GONE, WAIT = "lose", "cut", "end", "gone", "wait"
Fault = collections.namedtuple("Fault", "method path do headers", defaults=({},))


def has_names():
    return subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode == 0


class Refused(Exception):
    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # a full one makes clients wait for a second


class Cluster:
    """The state, the Job controller and the kubelet, and an HTTPS server in front of them."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.changed = threading.Condition(threading.RLock())
        self.objects = {"jobs": {}, "secrets": {}, "services": {}}
        self.pods, self.version, self.history, self.oldest = [], 1, [], 0
        self.starts = collections.Counter()
        self.tokens, self.faults, self.requests = {"good"}, [], []
        self.pending = None  # a status that keeps new pods from starting
        self.late = set()  # indices of pods whose end the kubelet reports when it was told to end them
        self.names = has_names()
        self.denied = set()  # "verb resource" of an access review
        key, certificate = self.folder / "key.pem", self.folder / "cert.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                        "-keyout", key, "-out", certificate, "-days", "2", "-subj", "/CN=kube",
                        "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.cluster = self
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.token_file = self.folder / "token"
        self.token_file.write_text("good")
        self.kubeconfig = self.folder / "kubeconfig"
        self.kubeconfig.write_text(f"""apiVersion: v1
kind: Config
current-context: test
clusters:
- name: here
  cluster:
    server: https://127.0.0.1:{self.server.server_port}
    certificate-authority: cert.pem
contexts:
- context:
    cluster: here
    user: me
    namespace: training
  name: test
users:
- name: me
  user:
    tokenFile: token
""")

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        for pod in self.pods:
            pod.kill(signal.SIGKILL)

    # ---- the kubelet and the controller; called with or without the lock ----

    def pod_changed(self, pod, kind="MODIFIED"):
        with self.changed:
            self.version += 1
            pod.object["metadata"]["resourceVersion"] = str(self.version)
            self.history.append((self.version, kind, json.dumps(pod.object), dict(pod.object["metadata"]["labels"])))
            self.changed.notify_all()

    def new_pod(self, job, index):
        pod = Pod(self, job, index)
        self.pods.append(pod)
        self.pod_changed(pod, "ADDED")
        if self.pending:
            pod.wait_reason(self.pending)
        else:
            threading.Thread(target=self.start_pod, args=(pod,), daemon=True).start()

    def start_pod(self, pod):
        while True:
            with self.changed:
                if pod not in self.pods or pod.start():
                    return
            time.sleep(0.01)

    def of(self, job):
        with self.changed:
            return [pod for pod in self.pods if pod.job["metadata"]["uid"] == job["metadata"]["uid"]]

    def run_job(self, job):
        with self.changed:
            there = {pod.index for pod in self.of(job)}
            for index in range(job["spec"]["completions"]):
                if index not in there:
                    self.new_pod(job, index)
            for pod in self.of(job):
                if pod.index >= job["spec"]["completions"]:
                    self.remove_pod(pod)

    def remove_pod(self, pod):
        """TERM, KILL after the grace period; then it is no more."""
        grace = pod.job["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]

        def end():
            pod.kill(signal.SIGTERM)
            limit = time.monotonic() + grace
            while pod.process and not pod.closed and time.monotonic() < limit:
                time.sleep(0.01)
            pod.kill(signal.SIGKILL)
            while pod.process and not pod.closed:
                time.sleep(0.01)
            with self.changed:
                if pod in self.pods:
                    self.pods.remove(pod)
                    self.pod_changed(pod, "DELETED")
        with self.changed:
            if "deletionTimestamp" in pod.object["metadata"]:
                return
            pod.object["metadata"]["deletionTimestamp"] = seconds(now())
            self.pod_changed(pod)
        threading.Thread(target=end, daemon=True).start()

    def pod_ended(self, pod):
        with self.changed:
            job = pod.job
            if job["metadata"]["name"] not in self.objects["jobs"] or job["status"].get("conditions"):
                return
            mine, spec = self.of(job), job["spec"]
            if pod.object["status"]["phase"] == "Failed":
                conditions = pod.object["status"].get("conditions", [])
                codes = [rule["onExitCodes"]["values"] for rule in spec["podFailurePolicy"]["rules"]
                         if "onExitCodes" in rule][0]
                state = (pod.object["status"].get("containerStatuses") or [{"state": {}}])[0]["state"]
                failed = [one for one in mine if one.index == pod.index and one.object["status"]["phase"] == "Failed"
                          and not any(c["type"] == "DisruptionTarget" for c in one.object["status"].get("conditions", []))]
                if state.get("terminated", {}).get("exitCode") in codes:
                    return self.end_job(job, "Failed", "PodFailurePolicy")
                if "deletionTimestamp" in pod.object["metadata"]:
                    return
                if any(c["type"] == "DisruptionTarget" for c in conditions) or \
                        len(failed) <= spec["backoffLimitPerIndex"]:
                    return self.new_pod(job, pod.index)
                if "maxFailedIndexes" in spec:
                    return self.end_job(job, "Failed", "MaxFailedIndexesExceeded")
            done = {one.index for one in mine if one.object["status"]["phase"] == "Succeeded"}
            needed = range(spec["completions"])
            if "successPolicy" in spec:
                first, _, last = spec["successPolicy"]["rules"][0]["succeededIndexes"].partition("-")
                needed = range(int(first), int(last or first) + 1)
            if done.issuperset(needed):
                self.end_job(job, "Complete", "CompletionsReached")

    def job_is_late(self, job):
        with self.changed:
            if not job["status"].get("conditions"):
                self.end_job(job, "Failed", "DeadlineExceeded")

    def end_job(self, job, kind, reason):
        job["status"]["conditions"] = [{"type": "FailureTarget", "status": "True"}]
        for pod in self.of(job):
            if not pod.ended:
                self.remove_pod(pod)

        def finish():
            while any(not pod.ended for pod in self.of(job)):
                time.sleep(0.01)
            with self.changed:
                job["status"]["conditions"] = [{"type": kind, "status": "True", "reason": reason, "message": "so"}]
                self.changed.notify_all()
        threading.Thread(target=finish, daemon=True).start()

    def wait_for_ends(self):
        with self.changed:
            self.changed.wait_for(lambda: all(
                condition["type"] in ("Complete", "Failed") for job in self.objects["jobs"].values()
                for condition in job["status"].get("conditions", [{"type": "none"}])), PATIENCE)  # fmt: skip

    def delete_job(self, name):
        with self.changed:
            job = self.objects["jobs"][name]
            job["metadata"]["deletionTimestamp"] = seconds(now())
            for pod in self.of(job):
                self.remove_pod(pod)

        def finish():
            while self.of(job):
                time.sleep(0.01)
            with self.changed:
                for kind in self.objects.values():
                    for one in [key for key, value in kind.items() if key == name or any(
                            owner["uid"] == job["metadata"]["uid"]
                            for owner in value["metadata"].get("ownerReferences", []))]:
                        del kind[one]
        threading.Thread(target=finish, daemon=True).start()

    # ---- requests ----

    def create(self, kind, thing):
        with self.changed:
            name = thing["metadata"]["name"]
            if name in self.objects[kind]:
                raise Refused(409, f'{kind} "{name}" already exists')
            thing["metadata"]["uid"] = str(uuid.uuid4())
            thing.setdefault("status", {})
            self.objects[kind][name] = thing
            if kind == "jobs":
                self.run_job(thing)
                if limit := thing["spec"].get("activeDeadlineSeconds"):
                    timer = threading.Timer(limit, self.job_is_late, [thing])
                    timer.daemon = True
                    timer.start()
            return thing

    def fault(self, method, path):
        with self.changed:
            for fault in self.faults:
                if fault.method == method and re.search(fault.path, path):
                    self.faults.remove(fault)
                    return fault
        return None


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *words):
        pass

    def handle(self):
        try:
            super().handle()
        except (ssl.SSLError, ConnectionError):
            pass

    def do_GET(self):
        self.answer()

    do_POST = do_PATCH = do_DELETE = do_GET

    def answer(self):
        cluster = self.server.cluster
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        cluster.requests.append((self.command, self.path))
        fault = cluster.fault(self.command, self.path)
        try:
            if self.headers.get("Authorization", "").removeprefix("Bearer ") not in cluster.tokens:
                raise Refused(401, "Unauthorized")
            if fault and isinstance(fault.do, int):
                raise Refused(fault.do, "told to refuse")
            if fault and fault.do == WAIT:
                cluster.wait_for_ends()
            url = urllib.parse.urlsplit(self.path)
            query = {key: value[0] for key, value in urllib.parse.parse_qs(url.query).items()}
            parts = url.path.split("/")
            if url.path.endswith("/log"):
                return self.send_log(parts[-2], query, fault)
            if "watch" in query:
                return self.send_watch(query, fault)
            self.send(200, self.carry_out(url.path, query, body), fault)
        except Refused as refusal:
            self.send(refusal.status, {"kind": "Status", "message": str(refusal)}, fault)

    def carry_out(self, path, query, body):
        cluster = self.server.cluster
        match = re.fullmatch(r"/(?:api/v1|apis/batch/v1)/namespaces/training/(\w+)(?:/([\w.-]+))?", path)
        thing = json.loads(body) if body else {}
        if path.endswith("selfsubjectaccessreviews"):
            asked = thing["spec"]["resourceAttributes"]
            return {"status": {"allowed": f"{asked['verb']} {asked['resource']}" not in cluster.denied}}
        if not match:
            raise Refused(404, f"no such path: {path}")
        kind, name = match.groups()
        with cluster.changed:
            if kind == "pods":
                wanted = dict([query["labelSelector"].split("=")])
                found = [pod.object for pod in cluster.pods if wanted.items() <= pod.object["metadata"]["labels"].items()]
                return json.loads(json.dumps({"metadata": {"resourceVersion": str(cluster.version)}, "items": found}))
            if kind == "events":
                return {"items": []}
            if self.command == "POST":
                return cluster.create(kind, thing)
            if name not in cluster.objects[kind]:
                raise Refused(404, f'{kind} "{name}" not found')
            if self.command == "DELETE":
                assert thing["propagationPolicy"] == "Foreground", thing
                cluster.delete_job(name)
            elif self.command == "PATCH":
                assert self.headers["Content-Type"] == "application/merge-patch+json"
                spec = cluster.objects[kind][name]["spec"]
                if thing["spec"]["completions"] != thing["spec"]["parallelism"]:
                    raise Refused(422, "completions is immutable")
                spec.update(thing["spec"])
                cluster.run_job(cluster.objects[kind][name])
            return json.loads(json.dumps(cluster.objects[kind][name]))

    def send(self, status, body, fault=None):
        if fault and fault.do == LOSE:
            self.close_connection = True
            return self.connection.close()
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for name, value in (fault.headers if fault else {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def begin_stream(self):
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def piece(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def cut(self):
        self.close_connection = True
        self.connection.close()

    def send_watch(self, query, fault):
        cluster, version = self.server.cluster, int(query["resourceVersion"])
        wanted = dict([query["labelSelector"].split("=")])
        self.begin_stream()
        if fault and fault.do == GONE:
            self.piece(json.dumps({"type": "ERROR", "object": {"code": 410, "reason": "Expired"}}).encode() + b"\n")
        sent = 0
        limit = time.monotonic() + int(query["timeoutSeconds"])
        while not (fault and fault.do in (END, GONE)) and time.monotonic() < limit:
            with cluster.changed:
                found = [entry for entry in cluster.history if entry[0] > version]
                if not found:
                    cluster.changed.wait(0.5)
                    continue
            for version, kind, text, labels in found:
                if wanted.items() <= labels.items():
                    line = b'{"type": "%s", "object": %s}\n' % (kind.encode(), text.encode())
                    sent += 1
                    if fault and fault.do == CUT and sent == 2:
                        self.piece(line[: len(line) // 2])
                        return self.cut()
                    self.piece(line)
        self.wfile.write(b"0\r\n\r\n")

    def send_log(self, name, query, fault):
        cluster = self.server.cluster
        with cluster.changed:
            found = [pod for pod in cluster.pods if pod.name == name]
        if not found:
            raise Refused(404, f'pods "{name}" not found')
        pod = found[0]
        if pod.process is None:
            raise Refused(400, "container is waiting to start: ContainerCreating")
        since, at, sent = query.get("sinceTime", ""), 0, 0
        self.begin_stream()
        while True:
            with cluster.changed:
                lines, closed = pod.lines[at:], pod.closed
                if not lines and not closed:
                    cluster.changed.wait(0.5)
                    continue
            at += len(lines)
            for when, line in lines:
                if seconds(when) < since:
                    continue
                data = when.strftime("%Y-%m-%dT%H:%M:%S.%f000Z ").encode() + line
                sent += 1
                if fault and fault.do == CUT and sent == 40:
                    self.piece(data[:35])
                    return self.cut()
                self.piece(data)
            if closed and not lines:
                break
        self.wfile.write(b"0\r\n\r\n")


if __name__ == "__main__":
    if not has_names():
        print("skipped: this user may make no mount namespace")
        sys.exit(77)
    with tempfile.TemporaryDirectory(prefix="cohort-kubernetes-") as place:
        cluster = Cluster(place)
        try:
            code = subprocess.run(sys.argv[1:], env={**os.environ, "COHORT_TEST_KUBECONFIG": str(cluster.kubeconfig)}).returncode
        finally:
            cluster.close()
    sys.exit(code)
