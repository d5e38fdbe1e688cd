"""Helpers for the tests of `cohort serve`: a real service, requests, streams, and the OpenAPI document."""

import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest

SOURCE = pathlib.Path(__file__).parents[2]
BIN = pathlib.Path(os.environ.get("COHORT_BIN_DIR", SOURCE / "build/bin")).resolve()
COHORT = str(BIN / "cohort")
DOCUMENT = json.loads((SOURCE / "src/cohort/service/api/openapi.json").read_text())
PATIENCE = 180 if "san" in BIN.parent.name else 60
ENDED = {"succeeded", "failed", "stopped"}


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=PATIENCE)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Answer:
    def __init__(self, response):
        self.status, self.headers, self.body = response.status, response.headers, response.read()

    def json(self):
        return json.loads(self.body)


class Service:
    """A `cohort serve` of its own root folder."""

    def __init__(self, root, *words, env=None):
        self.root = pathlib.Path(root)
        environment = {k: v for k, v in os.environ.items() if not k.startswith("COHORT_")}
        self.process = subprocess.Popen(
            [COHORT, "serve", "--root", str(root), *map(str, words)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**environment, **(env or {})},
        )  # fmt: skip
        self.address = self.token = None
        watch = threading.Timer(PATIENCE, self.process.kill)
        watch.start()
        lines = 4 if "--listen" in words else 2
        self.said = [self.process.stdout.readline().rstrip("\n") for _ in range(lines)]
        watch.cancel()
        if not self.said[-1]:
            self.process.wait()
            raise AssertionError(f"the service does not start: {self.process.stderr.read()}")
        self.socket = self.said[1].removeprefix("listens at unix:")
        if lines == 4:
            self.address = self.said[2].removeprefix("listens at ")
            self.token = pathlib.Path(self.said[3].removeprefix("token of an admin: ")).read_text().strip()
        # What it writes later is read on: a full pipe must not stop the service.
        self.errors = []
        threading.Thread(target=lambda: self.errors.extend(self.process.stderr), daemon=True).start()

    def connection(self, tcp=False, context=None):
        if not tcp:
            return UnixConnection(self.socket)
        host, _, port = self.address.partition("://")[2].rpartition(":")
        if self.address.startswith("https"):
            return http.client.HTTPSConnection(host, int(port), timeout=PATIENCE, context=context)
        return http.client.HTTPConnection(host, int(port), timeout=PATIENCE)

    def call(self, method, path, body=None, token=None, tcp=None, headers=None, context=None):
        """`body`: bytes as they are, other things as JSON. With a token, over TCP."""
        connection = self.connection(token is not None if tcp is None else tcp, context)
        try:
            self.send(connection, method, path, body, token, headers)
            return Answer(connection.getresponse())
        finally:
            connection.close()

    @staticmethod
    def send(connection, method, path, body=None, token=None, headers=None):
        sent = dict(headers or {})
        if token is not None:
            sent.setdefault("Authorization", f"Bearer {token}")
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            sent.setdefault("Content-Type", "application/json")
        connection.request(method, path, body, sent)

    def stream(self, path, token=None, headers=None):
        return Stream(self, path, token, headers)

    def submit(self, program, token=None, **fields):
        answer = self.call("POST", "/v1/jobs", {"spec": {"program": program, **fields}}, token)
        if answer.status != 201:
            raise AssertionError(f"{answer.status}: {answer.body}")
        return answer.json()["id"]

    def job(self, job, token=None):
        return self.call("GET", f"/v1/jobs/{job}", token=token).json()

    def wait_until(self, job, states):
        limit = time.monotonic() + PATIENCE
        while (found := self.job(job))["state"] not in states:
            if time.monotonic() > limit or (found["state"] in ENDED):
                raise AssertionError(f"{job} is not {states}: {found}")
            time.sleep(0.02)
        return found

    def stop(self):
        """Ends the service in order; its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(PATIENCE)
        self.process.stdout.close()
        return code


class Stream:
    """Server-sent events, read one after the other."""

    def __init__(self, service, path, token=None, headers=None):
        self.connection = service.connection(token is not None)
        service.send(self.connection, "GET", path, None, token, {"Accept": "text/event-stream", **(headers or {})})
        self.response = self.connection.getresponse()
        assert self.response.status == 200, self.response.read()
        assert self.response.headers["Content-Type"] == "text/event-stream"
        self.last_id = None

    def __iter__(self):
        event = {}
        for line in self.response:
            line = line.decode().rstrip("\n")
            if line:
                name, _, value = line.partition(":")
                if name:
                    event[name] = value.removeprefix(" ")
                continue
            self.last_id = event.get("id", self.last_id)
            if "data" in event:
                yield event["event"], json.loads(event["data"])
            event = {}
        self.close()

    def take(self, count):
        found = []
        for event in self:
            found.append(event)
            if len(found) == count:
                break
        return found

    def close(self):
        self.response.close()
        self.connection.close()


class ServiceTest(unittest.TestCase):
    """Gives each test a folder of its own; services are ended after it, and jobs that still run."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="cohort-api-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.root = self.folder / "home"

    def serve(self, *words, env=None):
        service = Service(self.root, *words, env=env)
        self.addCleanup(self.end, service)
        return service

    def end(self, service):
        if service.process.poll() is None:
            for job in service.call("GET", "/v1/jobs?state=queued,starting,running").json()["jobs"]:
                service.call("POST", f"/v1/jobs/{job['id']}/stop")
            limit = time.monotonic() + PATIENCE
            while service.call("GET", "/v1/jobs?state=queued,starting,running,stopping").json()["jobs"]:
                if time.monotonic() > limit:
                    break
                time.sleep(0.02)
        service.stop()
        service.process.stderr.close()

    def script(self, text, name="task.py"):
        path = self.folder / name
        path.write_text(text)
        return [sys.executable, str(path)]

    def refused(self, *words):
        """What `cohort serve` says when it does not start; its exit code is 2."""
        done = subprocess.run([COHORT, "serve", "--root", str(self.root), *words], capture_output=True, text=True,
                              timeout=PATIENCE)  # fmt: skip
        self.assertEqual(done.returncode, 2, done.stderr)
        return done.stderr


# The OpenAPI document.
TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
TYPES = {"string": str, "boolean": bool, "object": dict, "array": list, "null": type(None)}


def resolve(schema):
    while "$ref" in schema:
        found = DOCUMENT
        for part in schema["$ref"].lstrip("#/").split("/"):
            found = found[part]
        schema = found
    return schema


def is_of_type(value, kind):
    if kind in ("integer", "number"):
        return not isinstance(value, bool) and isinstance(value, int if kind == "integer" else (int, float))
    return isinstance(value, TYPES[kind])


def check_schema(value, schema, at="answer"):
    """Raises AssertionError where the value is not as the schema (the parts of JSON Schema used here) says."""
    schema = resolve(schema)
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    assert not kinds or any(is_of_type(value, kind) for kind in kinds), f"{at}: {value!r} is no {kinds}"
    assert "enum" not in schema or value in schema["enum"], f"{at}: {value!r} is none of {schema['enum']}"
    if schema.get("format") == "date-time" and value is not None:
        assert TIME.match(value), f"{at}: {value!r} is no time"
    if isinstance(value, list):
        for number, item in enumerate(value):
            check_schema(item, schema.get("items", {}), f"{at}[{number}]")
    if isinstance(value, dict):
        known = schema.get("properties", {})
        missing = [name for name in schema.get("required", []) if name not in value]
        assert not missing, f"{at}: {missing} are missing"
        others = schema.get("additionalProperties", True)
        for name, item in value.items():
            assert name in known or others is not False, f"{at}: {name} is not in the document"
            check_schema(item, known.get(name, others if isinstance(others, dict) else {}), f"{at}.{name}")


def operation_of(method, target):
    """The document's (path, operation) for a request; static segments win."""
    segments = target.partition("?")[0].split("/")
    for path, operations in DOCUMENT["paths"].items():
        pattern = path.split("/")
        fits = len(pattern) == len(segments) or (pattern[-1] == "{path}" and len(segments) > len(pattern))
        if method.lower() in operations and fits:
            if all(p.startswith("{") or p == s for p, s in zip(pattern, segments)):
                return path, operations[method.lower()]
    raise AssertionError(f"{method} {target} is not in the document")


def check_answer(method, target, answer):
    """Raises AssertionError unless the document has this answer."""
    _, operation = operation_of(method, target)
    status = str(answer.status)
    responses = operation["responses"]
    response = resolve(responses.get(status) or responses.get(status[0] + "XX") or {})
    assert response, f"{method} {target}: {status} is not in the document"
    content = response.get("content")
    if not content:
        assert not answer.body, f"{method} {target}: {answer.body!r}"
        return
    if method == "HEAD":
        return
    kind = answer.headers["Content-Type"].partition(";")[0]
    assert kind in content, f"{method} {target}: {kind} is none of {list(content)}"
    if kind == "application/json":
        check_schema(answer.json(), content[kind]["schema"])
    for name in response.get("headers", {}):
        assert name in answer.headers, f"{method} {target}: no header {name}"


def schema_named(name):
    return DOCUMENT["components"]["schemas"][name]


def have_tls():
    return hasattr(ssl, "SSLContext") and shutil.which("openssl")
