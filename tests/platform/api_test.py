"""The HTTP API of a real `cohort serve`: every operation against openapi.json, roles, refusals, start and end."""

import hashlib
import io
import os
import pathlib
import pwd
import re
import shlex
import shutil
import sqlite3
import ssl
import subprocess
import sys
import tarfile
import unittest

from api_service import (COHORT, DOCUMENT, PATIENCE, ServiceTest, check_answer, check_schema, have_tls,
                         operation_of, schema_named)  # fmt: skip

RESULTS = """
import os, pathlib, sys
for name in ("COHORT_OUTPUT", "SM_MODEL_DIR"):
    folder = pathlib.Path(os.environ[name])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "result.txt").write_text(name)
os.symlink("/etc", pathlib.Path(os.environ["COHORT_OUTPUT"]) / "out")
print("loss=0.5")
"""
WAITS = "import time, sys\nprint('waits', flush=True)\nwhile True: time.sleep(0.05)\n"


class Operations(ServiceTest):
    def call(self, method, path, *arguments, expect=200, **options):
        answer = self.service.call(method, path, *arguments, **options)
        self.assertEqual(answer.status, expect, f"{method} {path}: {answer.body[:500]}")
        check_answer(method, path, answer)
        template, _ = operation_of(method, path)
        self.called.add((method, template))
        return answer

    def test_every_operation_answers_as_the_document_says(self):
        self.called = set()
        self.service = self.serve("--listen", "127.0.0.1:0")
        service = self.call("GET", "/v1/service").json()
        self.assertEqual((service["role"], service["user"]), ("admin", pwd.getpwuid(os.getuid()).pw_name))
        self.assertEqual(self.call("GET", "/v1/openapi.json").json(), DOCUMENT)
        self.sources()
        job = self.job_with_results()
        self.files(job)
        self.failure()
        self.changes(job)
        self.browsers()
        self.tokens()
        everything = {(m.upper(), path) for path, operations in DOCUMENT["paths"].items() for m in operations}
        self.assertEqual(everything - self.called, set())

    def sources(self):
        packed = b"packed" * 1000
        name = hashlib.sha256(packed).hexdigest()
        self.call("HEAD", f"/v1/sources/{name}", expect=404)
        self.call("PUT", f"/v1/sources/{name}", b"other", expect=400)
        self.call("PUT", f"/v1/sources/{name}", packed, expect=201)
        self.call("PUT", f"/v1/sources/{name}", packed, expect=200)
        self.call("HEAD", f"/v1/sources/{name}")
        self.call("PUT", "/v1/sources/x", packed, expect=400)

    def job_with_results(self):
        program = self.script(RESULTS)
        spec = {"program": program, "name": "results", "tags": {"team": "a"},
                "metric_definitions": [{"Name": "loss", "Regex": "loss=([0-9.]+)"}]}  # fmt: skip
        self.call("POST", "/v1/jobs/check", {"spec": spec})
        self.call("POST", "/v1/jobs/check", {"spec": {**spec, "programm": 1}}, expect=400)
        submission = {"spec": spec, "request_id": "once"}
        job = self.call("POST", "/v1/jobs", submission, expect=201).json()["id"]
        self.assertEqual(self.call("POST", "/v1/jobs", submission, expect=201).json()["id"], job)
        ended = self.service.wait_until(job, {"succeeded"})
        self.assertEqual((ended["exit_code"], ended["tags"], ended["attempt"]), (0, {"team": "a"}, 1))
        for name in (job, job[:-1], "results"):
            self.assertEqual(self.call("GET", f"/v1/jobs/{name}").json()["id"], job)
        self.call("GET", "/v1/jobs/nothing", expect=404)
        listed = self.call("GET", "/v1/jobs?state=succeeded&tag=team=a&name=resul&limit=1").json()
        self.assertEqual([one["id"] for one in listed["jobs"]], [job])
        self.assertIsNone(listed["next"])
        self.assertNotIn("latest", listed["jobs"][0])
        for found, query in ((1, "q=RESUL"), (1, f"q={job[3:].upper()}"), (1, "q=TEAM"), (0, "q=nowhere"), (0, "q=%22"),
                             (1, "state=failed&state=succeeded"), (0, "state=failed&state=running,queued")):  # fmt: skip
            self.assertEqual(len(self.call("GET", f"/v1/jobs?{query}").json()["jobs"]), found, query)
        self.call("GET", "/v1/jobs?name=a&name=b", expect=400)
        self.call("GET", "/v1/jobs?state=runing", expect=400)
        self.call("GET", "/v1/jobs?stat=running", expect=400)
        tasks = self.call("GET", f"/v1/jobs/{job}/tasks").json()["tasks"]
        self.assertEqual([task["name"] for task in tasks], ["worker:0"])
        log = self.call("GET", f"/v1/jobs/{job}/logs?task=worker:0")
        self.assertEqual((log.body, log.headers["Cohort-Log-End"]), (b"loss=0.5\n", "true"))
        log = self.call("GET", f"/v1/jobs/{job}/logs?task=worker:0&offset=5&limit=2")
        self.assertEqual((log.body, log.headers["Cohort-Next-Offset"]), (b"0.", "7"))
        self.call("GET", f"/v1/jobs/{job}/logs?task=worker:7", expect=404)
        self.call("GET", f"/v1/jobs/{job}/logs", expect=400)
        for path in ("/v1/events", f"/v1/jobs/{job}/events"):
            events = self.call("GET", path, headers={"Accept": "application/json"}).json()["events"]
            kinds = [event["kind"] for event in events if event["job"] == job]
            self.assertEqual((kinds[0], kinds[-1]), ("submitted", "ended"))
        stream = self.service.stream(f"/v1/jobs/{job}/logs/stream")
        for name, data in stream:
            check_schema(data, schema_named({"log": "LogPiece", "end": "LogEnd"}[name]))
        self.assertEqual((name, data["state"]), ("end", "succeeded"))
        self.called.add(("GET", "/v1/jobs/{job}/logs/stream"))
        metrics = [data for name, data in self.service.stream(f"/v1/jobs/{job}/metrics") if name == "metric"]
        self.assertEqual([(m["name"], m["value"]) for m in metrics], [("loss", 0.5)])
        page = self.call("GET", f"/v1/jobs/{job}/metrics").json()
        self.assertEqual((page["metrics"], page["names"]), (metrics, ["loss"]))
        listed = self.call("GET", "/v1/jobs?latest=1").json()["jobs"][0]
        self.assertEqual(listed["tasks"], 1)
        self.assertEqual(listed["latest"], {"name": "loss", "step": metrics[0]["step"], "value": 0.5, "spark": [0.5]})
        self.scans(job, metrics)
        self.configuration(job, program)
        return job

    def scans(self, job, metrics):
        series = self.call("GET", f"/v1/jobs/{job}/series").json()
        self.assertEqual([(s["name"], s["value"], s["step"]) for s in series["series"]],
                         [("loss", [0.5], [metrics[0]["step"]])])  # fmt: skip
        self.assertEqual(series["last_id"], metrics[-1]["id"])
        self.assertEqual(self.call("GET", f"/v1/jobs/{job}/series?name=a&name=b").json()["series"], [])
        self.call("GET", f"/v1/jobs/{job}/series?points=0", expect=400)
        self.call("GET", f"/v1/jobs/{job}/series?from_step=-1", expect=400)
        log = f"/v1/jobs/{job}/logs"
        index = self.call("GET", f"{log}/index?task=worker:0").json()
        self.assertEqual(index, {"size": 9, "line": 1, "lines": 1, "every": 1000, "first": 0, "offsets": [0], "more": False,
                                 "ended": True})  # fmt: skip
        self.assertEqual(self.call("GET", f"{log}/index?task=worker:0&from=9&line=1").json()["offsets"], [])
        self.call("GET", f"{log}/index?task=worker:7", expect=404)
        self.call("GET", f"{log}/index", expect=400)
        self.call("GET", f"{log}/index?task=worker:0&every=1", expect=400)
        found = self.call("GET", f"{log}/search?task=worker:0&q=LOSS").json()
        self.assertEqual(found["matches"], [{"offset": 0, "line": 0, "text": "loss=0.5", "start": 0, "length": 4}])
        self.assertEqual((found["next"], found["size"]), (None, 9))
        self.assertEqual(self.call("GET", f"{log}/search?task=worker:0&q=LOSS&case=1").json()["matches"], [])
        matches = self.call("GET", f"{log}/search?task=worker:0&q=%5B0-9%5D%24&regex=1").json()["matches"]
        self.assertEqual([(m["start"], m["length"]) for m in matches], [(7, 1)])
        self.call("GET", f"{log}/search?task=worker:0&q=(&regex=1", expect=400)
        self.call("GET", f"{log}/search?task=worker:0", expect=400)

    def configuration(self, job, program):
        detail = self.call("GET", f"/v1/jobs/{job}").json()
        self.assertIn('name = "results"', detail["toml"].replace("'", '"'))
        self.assertEqual(detail["resolved"]["program"], program)
        self.assertTrue(detail["command"].startswith("cohort run "), detail["command"])
        self.assertTrue(detail["command"].endswith(shlex.join(program)), detail["command"])
        self.assertIsNone(detail["weights"])
        fingerprint = "0123456789abcdef" * 4
        spec = {"program": self.script(f"print('weights {fingerprint}')", "trains.py"), "env": {"A": "b c"}}
        trained = self.call("POST", "/v1/jobs", {"spec": spec}, expect=201).json()["id"]
        self.service.wait_until(trained, {"succeeded"})
        detail = self.call("GET", f"/v1/jobs/{trained}").json()
        self.assertEqual((detail["weights"], detail["environment"]["A"]), (fingerprint, "b c"))
        self.assertIn("--env 'A=b c' -- ", detail["command"])
        self.call("DELETE", f"/v1/jobs/{trained}", expect=204)

    def browsers(self):
        link = self.call("POST", "/v1/links", expect=201).json()
        self.assertRegex(link["path"], r"^/login\?code=[A-Za-z0-9_-]{43}$")
        self.assertEqual(self.call("POST", "/v1/listener").json()["address"], self.service.address)
        self.call("POST", "/v1/session", {"token": "ct_wrong"}, expect=401)
        begun = self.call("POST", "/v1/session", {"token": self.service.token}, expect=204)
        self.assertIn("HttpOnly", begun.headers["Set-Cookie"])
        self.call("DELETE", "/v1/session", expect=204)
        cluster = self.call("GET", "/v1/cluster").json()
        self.assertEqual((cluster["held"], cluster["waiting"]), ([], []))
        self.assertEqual(cluster["total"]["cores"], self.call("GET", "/v1/service").json()["machine"]["cores"])

    def files(self, job):
        listed = [file["path"] for file in self.call("GET", f"/v1/jobs/{job}/files").json()["files"]]
        self.assertIn("model/result.txt", listed)
        self.assertIn("output/result.txt", listed)
        self.assertTrue(any(path.startswith("logs/1/") for path in listed), listed)
        result = f"/v1/jobs/{job}/files/model/result.txt"
        self.assertEqual(self.call("GET", result).body, b"SM_MODEL_DIR")
        part = self.call("GET", result, headers={"Range": "bytes=3-7"}, expect=206)
        self.assertEqual((part.body, part.headers["Content-Range"]), (b"MODEL", "bytes 3-7/12"))
        self.assertIn("sandbox", part.headers["Content-Security-Policy"])
        self.call("GET", result, headers={"Range": "bytes=12-"}, expect=416)
        for path in ("output/out/passwd", "output/../../../service.sqlite", "output/%2e%2e/%2e%2e/service.sqlite",
                     "..%2f..%2fservice.sqlite", "output//etc/passwd", "output/%2fetc/passwd", "output/out"):  # fmt: skip
            self.assertIn(self.service.call("GET", f"/v1/jobs/{job}/files/{path}").status, (400, 404), path)
        self.assertEqual(self.service.call("GET", f"/v1/jobs/{job}/files/output/a%00b").status, 400)
        packed = self.call("GET", f"/v1/jobs/{job}/archive?part=model").body
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            self.assertEqual(archive.extractfile("model/result.txt").read(), b"SM_MODEL_DIR")
            self.assertNotIn("output/result.txt", archive.getnames())
        self.call("GET", f"/v1/jobs/{job}/archive?part=all")
        self.call("GET", f"/v1/jobs/{job}/archive?part=x", expect=400)

    def failure(self):
        spec = {"program": self.script("print('step 7', flush=True)\nraise ValueError('bad shape')\n", "fails.py")}
        job = self.call("POST", "/v1/jobs", {"spec": spec}, expect=201).json()["id"]
        ended = self.service.wait_until(job, {"failed"})
        report = self.call("GET", f"/v1/jobs/{job}/failure").json()
        self.assertEqual((report["task"], report["how"]), ("worker:0", "exit code 1"))
        self.assertEqual((report["summary"], report["lines"][-1]), (ended["reason"], "ValueError: bad shape"))
        entries = self.call("GET", f"/v1/jobs/{job}/timeline").json()["entries"]
        self.assertEqual([entry["time"] for entry in entries], sorted(entry["time"] for entry in entries))
        kinds = [(entry["kind"], entry["task"]) for entry in entries]
        for kind in (("submitted", ""), ("task_started", "worker:0"), ("task_ended", "worker:0"), ("ended", "")):
            self.assertIn(kind, kinds)
        task, = self.call("GET", f"/v1/jobs/{job}/tasks?usage=1").json()["tasks"]
        self.assertIsNotNone(task["ended"])
        self.assertIsNone(task["memory"])

    def changes(self, job):
        self.assertTrue(self.call("POST", f"/v1/jobs/{job}/pin", {"pinned": True}).json()["pinned"])
        self.call("POST", f"/v1/jobs/{job}/pin", {"pinned": 1}, expect=400)
        self.call("POST", f"/v1/jobs/{job}/stop", expect=409)
        self.call("POST", f"/v1/jobs/{job}/scale", {"workers": 2}, expect=409)
        self.call("POST", f"/v1/jobs/{job}/scale", {"workers": 0}, expect=400)
        self.call("POST", f"/v1/jobs/{job}/resume", expect=409)
        waiting = self.call("POST", "/v1/jobs", {"spec": {"program": self.script(WAITS, "waits.py")}}, expect=201)
        waiting = waiting.json()["id"]
        self.service.wait_until(waiting, {"running"})
        used = self.call("GET", f"/v1/jobs/{waiting}/tasks?usage=1").json()["tasks"][0]
        self.assertGreater(used["memory"], 1_000_000)
        self.assertGreaterEqual(used["cpu_seconds"], 0)
        self.call("GET", f"/v1/jobs/{waiting}/tasks?usage=2", expect=400)
        self.call("GET", f"/v1/jobs/{waiting}/failure", expect=404)
        self.call("DELETE", f"/v1/jobs/{waiting}", expect=409)
        self.call("POST", f"/v1/jobs/{waiting}/stop")
        self.service.wait_until(waiting, {"stopped"})
        self.call("POST", f"/v1/jobs/{waiting}/resume")
        self.service.wait_until(waiting, {"running"})
        self.call("POST", f"/v1/jobs/{waiting}/stop")
        self.service.wait_until(waiting, {"stopped"})
        self.call("DELETE", f"/v1/jobs/{waiting}", expect=204)
        self.call("GET", f"/v1/jobs/{waiting}", expect=404)

    def tokens(self):
        made = self.call("POST", "/v1/tokens", {"user": "ada", "role": "user", "days": 1}, expect=201).json()
        self.assertEqual(self.service.call("GET", "/v1/service", token=made["token"]).json()["user"], "ada")
        rotated = self.call("POST", f"/v1/tokens/{made['id']}/rotate").json()
        self.assertEqual(rotated["id"], made["id"])
        self.assertEqual(self.service.call("GET", "/v1/service", token=made["token"]).status, 401)
        self.assertIn(made["id"], [token["id"] for token in self.call("GET", "/v1/tokens").json()["tokens"]])
        self.call("DELETE", f"/v1/tokens/{made['id']}", expect=204)
        self.call("DELETE", f"/v1/tokens/{made['id']}", expect=404)
        self.assertEqual(self.service.call("GET", "/v1/service", token=rotated["token"]).status, 401)
        self.call("POST", "/v1/tokens", {"user": "ada", "role": "king"}, expect=400)
        # The admin's own token is replaced in its file, too.
        admin = [token for token in self.call("GET", "/v1/tokens").json()["tokens"] if token["role"] == "admin"][0]
        self.call("POST", f"/v1/tokens/{admin['id']}/rotate")
        self.assertNotEqual((self.root / "admin-token").read_text().strip(), self.service.token)


class Rights(ServiceTest):
    def test_roles_decide_what_each_may(self):
        service = self.serve("--listen", "127.0.0.1:0")
        token = {name: service.call("POST", "/v1/tokens", {"user": name, "role": role}).json()["token"]
                 for name, role in (("vic", "viewer"), ("ada", "user"), ("bob", "user"), ("amy", "admin"))}  # fmt: skip
        spec = {"program": [sys.executable, "-c", "pass"], "name": "adas", "env": {"PASSWORD": "hush"}}
        job = service.call("POST", "/v1/jobs", {"spec": spec}, token["ada"]).json()["id"]
        service.wait_until(job, {"succeeded"})
        sha = hashlib.sha256(b"x").hexdigest()
        own = service.call("GET", "/v1/tokens", token=token["ada"]).json()["tokens"]
        self.assertEqual([one["user"] for one in own], ["ada"])
        # request -> what a viewer, the job's owner, another user and an admin get
        table = {
            ("GET", "/v1/service"): (200, 200, 200, 200),
            ("GET", "/v1/jobs"): (200, 200, 200, 200),
            ("GET", f"/v1/jobs/{job}"): (200, 200, 404, 200),
            ("GET", f"/v1/jobs/{job}/tasks"): (200, 200, 404, 200),
            ("GET", f"/v1/jobs/{job}/logs?task=worker:0"): (200, 200, 404, 200),
            ("GET", f"/v1/jobs/{job}/logs/stream"): (200, 200, 404, 200),
            ("GET", f"/v1/jobs/{job}/logs/index?task=worker:0"): (200, 200, 404, 200),
            ("GET", f"/v1/jobs/{job}/logs/search?task=worker:0&q=x"): (200, 200, 404, 200),
            ("GET", f"/v1/jobs/{job}/metrics"): (200, 200, 404, 200),
            ("GET", f"/v1/jobs/{job}/series"): (200, 200, 404, 200),
            ("GET", "/v1/cluster"): (200, 200, 200, 200),
            ("POST", "/v1/links"): (201, 201, 201, 201),
            ("POST", "/v1/listener"): (403, 403, 403, 200),
            ("DELETE", "/v1/session"): (204, 204, 204, 204),
            ("GET", f"/v1/jobs/{job}/files"): (200, 200, 404, 200),
            ("GET", f"/v1/jobs/{job}/files/output/x"): (404, 404, 404, 404),
            ("GET", f"/v1/jobs/{job}/archive"): (200, 200, 404, 200),
            ("POST", "/v1/jobs/check"): (403, 200, 200, 200),
            ("POST", f"/v1/jobs/{job}/pin"): (403, 200, 404, 200),
            ("POST", f"/v1/jobs/{job}/stop"): (403, 409, 404, 409),
            ("POST", f"/v1/jobs/{job}/resume"): (403, 409, 404, 409),
            ("POST", f"/v1/jobs/{job}/scale"): (403, 409, 404, 409),
            ("HEAD", f"/v1/sources/{sha}"): (403, 404, 404, 404),
            ("PUT", f"/v1/sources/{sha}"): (403, 201, 200, 200),
            ("POST", "/v1/tokens"): (403, 403, 403, 201),
            ("DELETE", "/v1/tokens/none"): (403, 403, 403, 404),
            ("POST", f"/v1/tokens/{own[0]['id']}/rotate"): (404, 200, 404, 200),
            ("DELETE", f"/v1/jobs/{job}"): (403, 404, 404, 204),
        }
        bodies = {"check": {"spec": spec}, "pin": {"pinned": True}, "scale": {"workers": 1},
                  "tokens": {"user": "eve", "role": "viewer"}, sha: b"x"}  # fmt: skip
        for (method, path), expected in table.items():
            body = bodies.get(path.rpartition("/")[2]) if method in ("POST", "PUT") else None
            for name, status in zip(("vic", "ada", "bob", "amy"), expected):
                if method == "DELETE" and path.endswith(job) and name == "ada":
                    continue  # the owner may: then nothing is left for the others
                answer = service.call(method, path, body, token[name])
                self.assertEqual(answer.status, status, f"{method} {path} by {name}: {answer.body[:300]}")
                check_answer(method, path, answer)
                if name == "ada" and path.endswith("rotate"):
                    token["ada"] = answer.json()["token"]

    def test_others_jobs_are_neither_listed_nor_named_and_secrets_are_hidden_from_viewers(self):
        service = self.serve("--listen", "127.0.0.1:0")
        ada, bob, vic = (service.call("POST", "/v1/tokens", {"user": name, "role": role}).json()["token"]
                         for name, role in (("ada", "user"), ("bob", "user"), ("vic", "viewer")))  # fmt: skip
        program = [sys.executable, "-c", "pass"]
        first = service.submit(program, ada, name="same", env={"PASSWORD": "hush"})
        second = service.submit(program, bob, name="same")
        self.assertEqual([job["id"] for job in service.call("GET", "/v1/jobs", token=ada).json()["jobs"]], [first])
        self.assertEqual(service.call("GET", "/v1/jobs?user=bob", token=ada).json()["jobs"], [])
        self.assertEqual(service.job("same", ada)["id"], first)
        self.assertEqual(service.job("same", bob)["id"], second)
        self.assertEqual(service.call("GET", "/v1/jobs/same", token=vic).status, 409)
        pages = service.call("GET", "/v1/events", token=bob, headers={"Accept": "application/json"}).json()
        self.assertEqual({event["job"] for event in pages["events"]}, {second})
        self.assertEqual(service.job(first, ada)["spec"]["env"], {"PASSWORD": "hush"})
        self.assertEqual(service.job(first, vic)["spec"]["env"], {"PASSWORD": "(hidden)"})
        self.assertIn("hush", service.job(first, ada)["command"])
        self.assertNotIn(b"hush", service.call("GET", f"/v1/jobs/{first}", token=vic).body)

    def test_a_token_ends_when_it_expires_and_one_with_fewer_rights_cannot_renew_one_with_more(self):
        service = self.serve("--listen", "127.0.0.1:0")
        weak, strong = (service.call("POST", "/v1/tokens", {"user": "ada", "role": role}).json()
                        for role in ("viewer", "admin"))  # fmt: skip
        self.assertEqual(service.call("POST", f"/v1/tokens/{strong['id']}/rotate", token=weak["token"]).status, 404)
        self.assertEqual(service.call("POST", f"/v1/tokens/{weak['id']}/rotate", token=weak["token"]).status, 200)
        with sqlite3.connect(self.root / "service.sqlite", timeout=10) as database:
            database.execute("UPDATE tokens SET expires = 1 WHERE id = ?", (strong["id"],))
        self.assertEqual(service.call("GET", "/v1/service", token=strong["token"]).status, 401)

    @unittest.skipUnless(os.getuid() == 0 and shutil.which("setpriv"), "needs root")
    def test_another_user_gets_nothing_from_the_socket(self):
        service = self.serve()
        ask = ("import socket, sys\ns = socket.socket(socket.AF_UNIX)\ns.settimeout(30)\n"
               "s.connect(sys.argv[1])\ns.sendall(b'GET /v1/service HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n')\n"
               "print(s.recv(100))")  # fmt: skip
        words = ["setpriv", "--reuid=65534", "--clear-groups", sys.executable, "-c", ask, service.socket]
        self.folder.chmod(0o755)
        done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE)
        self.assertIn("PermissionError", done.stderr)
        self.root.chmod(0o755)
        pathlib.Path(service.socket).chmod(0o666)
        done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE)
        self.assertIn("HTTP/1.1 401", done.stdout, done.stderr)


class Refusals(ServiceTest):
    def test_requests_that_are_not_let_in(self):
        service = self.serve("--listen", "127.0.0.1:0")

        def status(headers=None, token=service.token, method="GET", path="/v1/service", body=None):
            answer = service.call(method, path, body, token, tcp=True, headers=headers)
            if answer.status >= 400:
                check_schema(answer.json(), schema_named("Error"))
            return answer.status

        host = service.address.partition("://")[2]
        self.assertEqual(status(), 200)
        self.assertEqual(status(token=None), 401)
        self.assertEqual(status(token="ct_wrong"), 401)
        self.assertEqual(status({"Host": "evil.example"}), 403)
        self.assertEqual(status({"Host": f"localhost:{host.rpartition(':')[2]}"}), 200)
        self.assertEqual(status({"Origin": "https://evil.example"}), 403)
        self.assertEqual(status({"Origin": "null"}), 403)
        self.assertEqual(status({"Origin": f"http://{host}"}), 200)
        post = {"method": "POST", "path": "/v1/jobs/check"}
        self.assertEqual(status(**post, body=b"{}", headers={"Content-Type": "text/plain"}), 415)
        json_type = {"Content-Type": "application/json"}
        self.assertEqual(status(**post, body=b"{", headers=json_type), 400)
        self.assertEqual(status(**post, body=b'{"spec": ' + b"[" * 100000, headers=json_type), 400)
        self.assertEqual(status(**post, body=b" " * (2 << 20), headers=json_type), 413)
        self.assertEqual(status(path="/v1/nothing"), 404)
        self.assertEqual(status(method="DELETE", path="/v1/jobs"), 405)

    def test_changes_are_limited_in_rate_and_reading_is_not(self):
        service = self.serve()
        connection = service.connection()
        statuses = []
        for _ in range(1000):
            service.send(connection, "POST", "/v1/jobs/none/stop")
            answer = connection.getresponse()
            answer.read()
            statuses.append(answer.status)
            if answer.status == 429:
                break
        connection.close()
        self.assertEqual(statuses[-1], 429, len(statuses))
        self.assertEqual(set(statuses[:-1]), {404})
        self.assertGreaterEqual(len(statuses), 200)
        self.assertEqual(answer.headers["Retry-After"], "1")
        self.assertEqual(service.call("GET", "/v1/service").status, 200)

    def test_other_machines_are_served_with_tls_only(self):
        self.assertIn("needs TLS", self.refused("--listen", "0.0.0.0:0"))
        self.assertIn("go together", self.refused("--listen", "127.0.0.1:0", "--tls-cert", "x"))
        if not have_tls():
            return
        certificate, key = self.folder / "cert.pem", self.folder / "key.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                        "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate],
                       check=True, capture_output=True)  # fmt: skip
        service = self.serve("--listen", "0.0.0.0:0", "--tls-cert", certificate, "--tls-key", key)
        self.assertTrue(service.address.startswith("https://0.0.0.0:"), service.address)
        service.address = service.address.replace("0.0.0.0", "127.0.0.1")
        context = ssl.create_default_context(cafile=certificate)
        self.assertEqual(service.call("GET", "/v1/service", token=service.token, context=context).status, 200)
        self.assertEqual(service.call("GET", "/v1/service", tcp=True, context=context).status, 401)
        service.address = service.address.replace("https", "http")
        with self.assertRaises(OSError):
            service.call("GET", "/v1/service", token=service.token)


class StartAndEnd(ServiceTest):
    def test_one_service_works_with_a_root_and_leaves_its_jobs_running(self):
        service = self.serve()
        self.assertRegex(self.refused(), rf"process {service.process.pid}\b")
        record = self.root / "service.json"
        self.assertEqual((record.stat().st_mode & 0o777, self.root.stat().st_mode & 0o777), (0o600, 0o700))
        self.assertIn(f'"pid": {service.process.pid}', record.read_text())
        end = self.folder / "end"
        job = service.submit(self.script(f"import os, time\nwhile not os.path.exists({str(end)!r}): time.sleep(0.02)\n"))
        service.wait_until(job, {"running"})
        self.assertEqual(service.stop(), 0)
        self.assertFalse(record.exists() or os.path.exists(service.socket))
        again = self.serve()
        self.assertEqual(again.job(job)["state"], "running")
        end.touch()
        self.assertEqual(again.wait_until(job, {"succeeded"})["attempt"], 1)

    def test_one_whose_folder_is_removed_accepts_nothing_and_ends(self):
        service = self.serve("--listen", "127.0.0.1:0", "--idle-exit", 1)
        self.root.rename(self.folder / "elsewhere")
        answer = service.call("POST", "/v1/jobs", {"spec": {"program": ["true"]}}, service.token)
        self.assertEqual(answer.status, 503, answer.body)
        self.assertIn("was removed", answer.json()["error"]["message"])
        self.assertEqual(service.process.wait(PATIENCE), 0)

    @unittest.skipUnless(shutil.which("prlimit"), "needs prlimit")
    def test_a_limit_on_the_size_of_files_is_as_a_full_disk(self):
        service = self.serve()
        size = (self.root / "service.sqlite-wal").stat().st_size + (1 << 20)
        subprocess.run(["prlimit", f"--fsize={size}", "--pid", str(service.process.pid)], check=True)
        large = os.urandom(2 * size)
        answer = service.call("PUT", f"/v1/sources/{hashlib.sha256(large).hexdigest()}", large)
        self.assertEqual(answer.status, 503, answer.body)
        self.assertEqual(service.call("GET", "/v1/service").status, 200)

    def test_one_on_demand_ends_when_it_is_not_needed(self):
        service = self.serve("--on-demand", "--idle-exit", 1)
        job = service.submit([sys.executable, "-c", "import time; time.sleep(1.5)"])
        self.assertEqual(service.process.wait(PATIENCE), 0)
        self.assertFalse((self.root / "service.json").exists())
        again = self.serve()
        self.assertEqual(again.job(job)["state"], "succeeded")

    def test_a_damaged_run_store_and_another_users_folder_are_refused(self):
        self.serve().stop()
        (self.root / "service.sqlite").write_bytes(b"not a database" * 1000)
        said = self.refused()
        self.assertIn("service.sqlite", said)
        self.assertRegex(said, r"\. [A-Z]")  # and what to do
        shutil.rmtree(self.root)
        if os.getuid() == 0:
            self.root.mkdir()
            os.chown(self.root, 65534, 65534)
            self.assertIn("belongs to user 65534", self.refused())

    def test_a_long_path_has_its_socket_elsewhere(self):
        self.root = self.folder / ("long" * 40)
        service = self.serve(env={"XDG_RUNTIME_DIR": str(self.folder)})
        self.assertTrue(service.socket.startswith(f"{self.folder}/cohort/"), service.socket)
        self.assertEqual(service.call("GET", "/v1/service").json()["root"], str(self.root))

    def test_help_has_examples(self):
        done = subprocess.run([COHORT, "serve", "--help"], capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, 0)
        self.assertTrue(re.search(r"cohort serve --listen", done.stdout))


if __name__ == "__main__":
    unittest.main()
