"""A small service of the tests: it answers the requests of the Python SDK from a script, and notes them."""

import contextlib
import hashlib
import http.server
import io
import json
import os
import pathlib
import socketserver
import sys
import tarfile
import tempfile
import threading
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "python"))

JOB = {"id": "20261116-190102-7f3a9c", "name": "train", "state": "succeeded", "reason": "", "exit_code": 0,
       "notes": [], "spec": {}, "tasks": [{"name": "worker:0"}]}  # fmt: skip


class Break(Exception):
    """Raised by a script: the connection ends without another byte."""


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def address_string(self):
        return "client"

    def log_message(self, *_):
        pass

    def answer(self, status, content=b"", kind="application/json", **headers):
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if data and self.command != "HEAD":
            self.wfile.write(data)

    def refuse(self, status, message, advice=None):
        self.answer(status, {"error": {"message": message, "advice": advice}})

    def stream(self, text):
        """The beginning of an event stream, or more of it."""
        if not getattr(self, "streaming", False):
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            self.streaming = self.close_connection = True
        self.wfile.write(text.encode())
        self.wfile.flush()

    def handle_any(self):
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.partition("?")[0]
        self.server.requests.append((self.command, self.path, self.body, dict(self.headers)))
        try:
            self.server.script(self, self.command, path)
        except Break:
            self.close_connection = True

    do_GET = do_POST = do_PUT = do_HEAD = do_DELETE = handle_any


class UnixServer(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


class TcpServer(socketserver.ThreadingMixIn, socketserver.TCPServer):
    daemon_threads = True


class SdkTest(unittest.TestCase):
    """Gives each test an empty folder, a clean environment, and a service on a Unix socket in it."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="cohort-sdk-")
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        saved = dict(os.environ)
        self.addCleanup(lambda: (os.environ.clear(), os.environ.update(saved)))
        for name in [name for name in os.environ if name.startswith("COHORT_")]:
            del os.environ[name]
        os.environ["COHORT_HOME"] = str(self.folder / "home")
        self.addCleanup(os.chdir, os.getcwd())

    def serve(self, script=None, tcp=False):
        """Starts a service that calls script(handler, method, path) for each request, which may leave it to
        the usual answers with usual(...). The SDK finds it by COHORT_SERVICE."""
        place = ("127.0.0.1", 0) if tcp else str(self.folder / "fake.sock")
        server = (TcpServer if tcp else UnixServer)(place, Handler)
        server.script, server.requests, server.sources, server.job = script or usual, [], {}, dict(JOB)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        self.addCleanup(lambda: (server.shutdown(), thread.join(), server.server_close()))
        os.environ["COHORT_SERVICE"] = f"http://127.0.0.1:{server.server_address[1]}" if tcp else f"unix:{place}"
        return server

    def code(self, **files):
        """A source folder with files NAME=CONTENT; `_` in a name is a dot."""
        folder = self.folder / "code"
        folder.mkdir(exist_ok=True)
        for name, content in files.items():
            (folder / name.replace("_", ".")).write_text(content)
        return folder


def quietly(call, *arguments, **named):
    """What the call returned, printed, and said on standard error."""
    printed, said = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(said):
        result = call(*arguments, **named)
    return result, printed.getvalue(), said.getvalue()


def log_event(number, text, task="worker:0"):
    return f"event: log\nid: c{number}\ndata: {json.dumps({'task': task, 'attempt': 1, 'offset': 0, 'text': text})}\n\n"


def end_event(job):
    data = {name: job[name] for name in ("state", "exit_code", "reason")}
    return f"event: end\nid: end\ndata: {json.dumps(data)}\n\n"


def usual(handler, method, path):
    """What the service answers when the script says nothing else."""
    server, job = handler.server, handler.server.job
    base = f"/v1/jobs/{job['id']}"
    if path.startswith("/v1/sources/"):
        digest = path.rpartition("/")[2]
        if method == "HEAD":
            return handler.answer(200 if digest in server.sources else 404)
        if hashlib.sha256(handler.body).hexdigest() != digest:
            return handler.refuse(400, "the source is not what its name says")
        server.sources[digest] = handler.body
        return handler.answer(201, {})
    if (method, path) == ("POST", "/v1/jobs"):
        server.spec = json.loads(handler.body)["spec"]
        return handler.answer(201, job)
    if path == base + "/logs/stream":
        handler.stream(log_event(1, "one line\n"))
        return handler.stream(end_event(job))
    if path == "/v1/service":
        return handler.answer(200, {"root": "/somewhere"})
    if path == base:
        return handler.answer(200, job)
    handler.refuse(404, f"there is no {path}")


def archive_of(files):
    """A tar archive of {name: content} as the service sends one; text is where a link leads."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            if isinstance(data, str):
                member.type, member.linkname, data = tarfile.SYMTYPE, data, b""
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return content.getvalue()
