"""The page of a real `cohort serve`: its files, one-time links, sessions of browsers, and attacks on them."""

import gzip
import http.client
import json
import os
import sqlite3
import ssl
import subprocess
import sys
import time
import unittest

from api_service import COHORT, PATIENCE, ServiceTest, have_tls

HTML = {"Accept": "text/html,application/xhtml+xml"}
PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Browser:
    """Keeps cookies, and says its Origin, as the page's own requests do."""

    def __init__(self, service, context=None):
        self.service, self.context = service, context
        self.origin = service.address
        self.cookie = None

    def call(self, method, path, body=None, **headers):
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.cookie:
            sent["Cookie"] = self.cookie
        if method != "GET":
            sent.setdefault("Origin", self.origin)
        sent = {name: value for name, value in sent.items() if value is not None}
        answer = self.service.call(method, path, body, tcp=True, headers=sent, context=self.context)
        if "Set-Cookie" in answer.headers:
            self.cookie = answer.headers["Set-Cookie"].partition(";")[0]
        return answer

    def status(self, method="GET", path="/v1/service", body=None, **headers):
        return self.call(method, path, body, **headers).status

    def follow(self, path):
        return self.call("GET", path, Accept="text/html")


class PageTest(ServiceTest):
    def listening(self, *words):
        return self.serve("--listen", "127.0.0.1:0", *words)

    def link(self, service, token=None):
        answer = service.call("POST", "/v1/links", token=token)
        self.assertEqual(answer.status, 201, answer.body)
        return answer.json()["path"]

    def token(self, service, user="ada", role="user"):
        return service.call("POST", "/v1/tokens", {"user": user, "role": role}).json()

    def assert_page_headers(self, answer):
        for name, value in PAGE_HEADERS.items():
            self.assertEqual(answer.headers.get_all(name), [value], name)


class Files(PageTest):
    def test_the_page_needs_no_login_and_its_rules_are_on_every_answer(self):
        service = self.listening()
        index = service.call("GET", "/", tcp=True, headers=HTML)
        self.assertEqual((index.status, index.headers["Content-Type"]), (200, "text/html; charset=utf-8"))
        self.assertIn(b"<!doctype html>", index.body.lower())
        for path in ("/jobs/20261118-1/logs?task=worker:0", "/compare?job=a&job=b", "/cluster", "/login", "/v2"):
            answer = service.call("GET", path, tcp=True, headers=HTML)
            self.assertEqual((answer.status, answer.body), (200, index.body), path)
            self.assert_page_headers(answer)
        self.assertEqual(service.call("HEAD", "/", tcp=True, headers=HTML).status, 200)
        packed = service.call("GET", "/", tcp=True, headers={**HTML, "Accept-Encoding": "gzip, br"})
        self.assertEqual(packed.headers["Content-Encoding"], "gzip")
        self.assertEqual(gzip.decompress(packed.body), index.body)
        missing = service.call("GET", "/assets/none.js", tcp=True, headers=HTML)
        self.assertEqual(missing.status, 404)
        self.assert_page_headers(missing)
        # The API and what changes things stay closed; names that lead elsewhere are refused.
        self.assertEqual(service.call("GET", "/v1/jobs", tcp=True, headers=HTML).status, 401)
        self.assertEqual(service.call("GET", "/v1/nothing", tcp=True, headers=HTML).status, 401)
        self.assertEqual(service.call("POST", "/", {}, tcp=True).status, 401)
        self.assertEqual(service.call("GET", "/", tcp=True, headers={**HTML, "Host": "evil.example"}).status, 403)
        linked = {**HTML, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
        self.assertEqual(service.call("GET", "/jobs/1", tcp=True, headers=linked).status, 200)

    def test_a_folder_is_served_instead_and_nothing_outside_of_it(self):
        page = self.folder / "page"
        (page / "assets").mkdir(parents=True)
        (page / "index.html").write_text("mine")
        (page / "assets/app-12ab.js").write_text("script")
        (self.folder / "secret").write_text("secret")
        (page / "assets/link").symlink_to(self.folder / "secret")
        (page / "assets/out").symlink_to(self.folder)
        service = self.listening("--page-dir", page)
        self.assertEqual(service.call("GET", "/", tcp=True).body, b"mine")
        script = service.call("GET", "/assets/app-12ab.js", tcp=True)
        self.assertEqual((script.body, script.headers["Content-Type"]), (b"script", "text/javascript; charset=utf-8"))
        self.assertIn("immutable", script.headers["Cache-Control"])
        for path in ("/assets/../../secret", "/assets/%2e%2e/%2e%2e/secret", "/assets/..%2f..%2fsecret", "/../secret",
                     "/%2e%2e/secret", "/assets/link", "/assets/out/secret", "//secret", "/assets/%2fetc%2fpasswd",
                     "/assets/a%00b", "/assets/%zz"):  # fmt: skip
            for headers in ({}, HTML):
                answer = service.call("GET", path, tcp=True, headers=headers)
                self.assertIn((answer.status, answer.body == b"mine"), ((400, False), (404, False), (200, True)), path)
                self.assertNotIn(b"secret", answer.body.replace(b"/secret", b""), path)
        self.assertIn("is not a folder", self.refused("--page-dir", str(self.folder / "none")))


class Links(PageTest):
    def test_a_link_signs_a_browser_in_once(self):
        service = self.listening()
        browser = Browser(service)
        self.assertEqual(browser.status(), 401)
        path = self.link(service)
        # A preview of it does not use it up.
        self.assertNotIn("Set-Cookie", service.call("HEAD", path, tcp=True, headers=HTML).headers)
        answer = browser.follow(path + "&next=%2Fjobs%2F1%3Ftab%3Dlogs")
        self.assertEqual((answer.status, answer.headers["Location"]), (303, "/jobs/1?tab=logs"))
        self.assert_page_headers(answer)
        self.assertEqual(answer.headers["Cache-Control"], "no-store")
        name, *flags = [part.strip() for part in answer.headers["Set-Cookie"].split(";")]
        port = service.address.rpartition(":")[2]
        self.assertRegex(name, rf"^cohort_session_{port}=[A-Za-z0-9_-]{{43}}$")
        self.assertEqual(set(flags), {"HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=43200"})
        self.assertEqual(browser.call("GET", "/v1/service").json()["role"], "admin")
        # A second use and a guess give no session.
        for other in (path, path[:-1], path + "x", "/login?code=" + "A" * 43, "/login?code=x&next=%2Fjobs"):
            second = Browser(service)
            answer = second.follow(other)
            self.assertEqual((answer.status, answer.headers["Location"]), (303, "/login?link=invalid"), other)
            self.assertNotIn("Set-Cookie", answer.headers)
            self.assertEqual(second.status(), 401)

    def test_a_link_leads_to_no_other_place(self):
        service = self.listening()
        path = self.link(service)
        for place in ("%2F%2Fevil.example", "%2F%5Cevil.example", "https%3A%2F%2Fevil.example", "evil", "%2Fa%0D%0AX%3A+y",
                      "javascript%3Aalert(1)", "%2F%09%2Fevil.example", "%2Fa+b", "%2F" + "x" * 3000):  # fmt: skip
            browser = Browser(service)
            answer = browser.follow(f"{path}&next={place}")
            self.assertEqual(answer.status, 400, place)
            self.assert_page_headers(answer)
            self.assertIsNone(browser.cookie)
        self.assertEqual(Browser(service).follow(path).headers["Location"], "/")

    def test_pages_of_others_cannot_use_a_link(self):
        service = self.listening()
        path = self.link(service)
        for headers in ({"Sec_Fetch_Site": "cross-site"}, {"Origin": "https://evil.example"}, {"Host": "evil.example"}):
            self.assertEqual(Browser(service).status("GET", path, **headers), 403, headers)
        self.assertEqual(Browser(service).follow(path).status, 303)

    def test_a_link_has_the_rights_of_its_maker(self):
        service = self.listening()
        made = self.token(service, "vic", "viewer")
        browser = Browser(service)
        browser.follow(self.link(service, made["token"]))
        info = browser.call("GET", "/v1/service").json()
        self.assertEqual((info["user"], info["role"]), ("vic", "viewer"))
        self.assertEqual(browser.status("POST", "/v1/tokens", {"user": "x", "role": "admin"}), 403)
        self.assertEqual(browser.status("POST", "/v1/listener"), 403)
        second = Browser(service)  # a link of a session is worth no more than that
        second.follow(browser.call("POST", "/v1/links").json()["path"])
        self.assertEqual(second.call("GET", "/v1/service").json()["role"], "viewer")
        service.call("DELETE", f"/v1/tokens/{made['id']}")
        self.assertEqual((browser.status(), second.status()), (401, 401))


class Sessions(PageTest):
    def signed_in(self, service, token):
        browser = Browser(service)
        answer = browser.call("POST", "/v1/session", {"token": token})
        self.assertEqual(answer.status, 204, answer.body)
        return browser

    def test_changes_need_the_page_s_own_origin(self):
        service = self.listening()
        browser = self.signed_in(service, service.token)
        check = ("POST", "/v1/jobs/check", {"spec": {"program": ["true"]}})
        self.assertEqual(browser.status(*check), 200)
        for origin in (None, "https://evil.example", "null", service.address.replace("http", "https"),
                       service.address + "0", "http://127.0.0.1"):  # fmt: skip
            self.assertEqual(browser.status(*check, Origin=origin), 403, origin)
            self.assertEqual(browser.status("DELETE", "/v1/session", Origin=origin), 403, origin)
        self.assertEqual(browser.status(*check, Sec_Fetch_Site="cross-site"), 403)
        self.assertEqual(browser.status("GET", "/v1/jobs", Sec_Fetch_Site="same-site"), 403)
        text = browser.call("POST", "/v1/session", b'{"token": "x"}', Content_Type="text/plain")
        self.assertEqual(text.status, 415)
        self.assertEqual(browser.status(*check), 200)

    def test_a_session_ends_with_its_token_and_when_it_is_signed_out(self):
        service = self.listening()
        tokens = [self.token(service, "ada") for _ in range(4)]
        removed, rotated, expired, left = (self.signed_in(service, token["token"]) for token in tokens)
        self.assertEqual({one.status() for one in (removed, rotated, expired, left)}, {200})
        service.call("DELETE", f"/v1/tokens/{tokens[0]['id']}")
        service.call("POST", f"/v1/tokens/{tokens[1]['id']}/rotate")
        with sqlite3.connect(self.root / "service.sqlite", timeout=10) as database:
            database.execute("UPDATE tokens SET expires = 1 WHERE id = ?", (tokens[2]["id"],))
        self.assertEqual([one.status() for one in (removed, rotated, expired, left)], [401, 401, 401, 200])
        cookie = left.cookie
        gone = left.call("DELETE", "/v1/session")
        self.assertEqual((gone.status, "Max-Age=0" in gone.headers["Set-Cookie"]), (204, True))
        left.cookie = cookie
        self.assertEqual(left.status(), 401)

    def test_a_stream_of_a_session_is_broken_off_when_it_ends(self):
        service = self.listening()
        made = self.token(service, "vic", "viewer")
        browser = self.signed_in(service, made["token"])
        connection = service.connection(tcp=True)
        connection.request("GET", "/v1/events", headers={"Cookie": browser.cookie, "Accept": "text/event-stream"})
        response = connection.getresponse()
        self.assertEqual(response.status, 200)
        service.call("DELETE", f"/v1/tokens/{made['id']}")
        with self.assertRaises((http.client.IncompleteRead, ConnectionError)):
            response.read()
        connection.close()

    def test_a_session_outlives_the_service_for_twelve_hours(self):
        service = self.listening()
        browser = self.signed_in(service, service.token)
        port = service.address.rpartition(":")[2]
        service.stop()
        service.process.stderr.close()
        try:
            again = self.serve("--listen", f"127.0.0.1:{port}")
        except AssertionError as error:
            if "in use" not in str(error):
                raise
            self.skipTest("another program took the port meanwhile")
        browser.service = again
        self.assertEqual(browser.status(), 200)
        with sqlite3.connect(self.root / "service.sqlite", timeout=10) as database:
            self.assertEqual(database.execute("SELECT count(*) FROM sessions").fetchone(), (1,))
            database.execute("UPDATE sessions SET expires = 1")
        self.assertEqual(browser.status(), 401)

    @unittest.skipUnless(have_tls(), "needs openssl")
    def test_under_tls_the_cookie_is_for_this_host_alone(self):
        certificate, key = self.folder / "cert.pem", self.folder / "key.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                        "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate],
                       check=True, capture_output=True)  # fmt: skip
        service = self.listening("--tls-cert", certificate, "--tls-key", key)
        browser = Browser(service, ssl.create_default_context(cafile=certificate))
        answer = browser.call("POST", "/v1/session", {"token": service.token})
        self.assertEqual(answer.status, 204, answer.body)
        cookie = answer.headers["Set-Cookie"]
        self.assertTrue(cookie.startswith("__Host-cohort_session"), cookie)
        self.assertIn("; Secure", cookie)
        self.assertEqual(browser.status(), 200)
        self.assertEqual(browser.status("POST", "/v1/links"), 201)

    def test_sign_in_is_limited_in_rate(self):
        service = self.listening()
        connection = service.connection(tcp=True)
        statuses, begin = [], time.monotonic()
        while len(statuses) < 1000 and 429 not in statuses:
            service.send(connection, "POST", "/v1/session", {"token": "ct_guess"}, headers={"Origin": service.address})
            answer = connection.getresponse()
            answer.read()
            statuses.append(answer.status)
        connection.close()
        # 200 at once and 50 a second; a machine that is slower than that never gets there.
        allowed = 200 + 50 * (time.monotonic() - begin)
        self.assertTrue(statuses[-1] == 429 or len(statuses) <= allowed, f"{len(statuses)} of {allowed}")
        self.assertLessEqual(set(statuses[:-1]), {401})
        # Those who are signed in go on.
        self.assertEqual(service.call("POST", "/v1/links", token=service.token).status, 201)


class Open(PageTest):
    def cohort(self, *words):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("COHORT_") and "DISPLAY" not in k}
        return subprocess.run([COHORT, *words], capture_output=True, text=True, timeout=PATIENCE,
                              env={**environment, "COHORT_HOME": str(self.root)})  # fmt: skip

    def follow(self, link):
        host, _, path = link.removeprefix("http://").partition("/")
        self.assertTrue(host.startswith("127.0.0.1:"), link)
        connection = http.client.HTTPConnection(host, timeout=PATIENCE)
        connection.request("GET", "/" + path, headers=HTML)
        answer = connection.getresponse()
        answer.read()
        connection.close()
        return host, answer

    def test_a_service_on_its_socket_listens_on_loopback_when_the_page_is_opened(self):
        service = self.serve()
        self.assertIsNone(service.address)
        job = service.submit([sys.executable, "-c", "pass"], name="mine")
        service.wait_until(job, {"succeeded"})
        done = self.cohort("open", "mine", "--print")
        self.assertEqual(done.returncode, 0, done.stderr)
        host, answer = self.follow(done.stdout.strip())
        self.assertEqual((answer.status, answer.headers["Location"]), (303, f"/jobs/{job}"))
        connection = http.client.HTTPConnection(host, timeout=PATIENCE)
        connection.request("GET", "/v1/service", headers={"Cookie": answer.headers["Set-Cookie"].partition(";")[0]})
        info = json.loads(connection.getresponse().read())
        connection.close()
        self.assertEqual(info["role"], "admin")
        # The same listener the next time, and all jobs without a name.
        again, answer = self.follow(self.cohort("open", "--print").stdout.strip())
        self.assertEqual((again, answer.headers["Location"]), (host, "/"))
        unknown = self.cohort("open", "nothing")
        self.assertEqual(unknown.returncode, 2, unknown.stderr)
        self.assertEqual(unknown.stdout, "")

    def test_the_next_service_is_where_open_pages_look_for_it(self):
        service = self.serve()
        host, answer = self.follow(self.cohort("open", "--print").stdout.strip())
        cookie = answer.headers["Set-Cookie"].partition(";")[0]
        service.stop()
        service.process.stderr.close()
        again = self.serve()
        # It listens there when it has said where its socket is; unless another program was quicker.
        try:
            connection = http.client.HTTPConnection(host, timeout=PATIENCE)
            connection.request("GET", "/v1/service", headers={"Cookie": cookie})
            self.assertEqual(connection.getresponse().status, 200)
            connection.close()
        except (AssertionError, OSError, http.client.HTTPException):
            self.end(again)
            if any("is not at port" in line for line in again.errors):
                self.skipTest("another program took the port meanwhile")
            raise
        self.assertTrue(self.cohort("open", "--print").stdout.startswith(f"http://{host}/login?"))

    def test_the_service_says_where_its_page_is(self):
        service = self.listening()
        self.assertEqual(service.process.stdout.readline(), f"page: {service.address}/ (to sign in: cohort open)\n")
        link = self.cohort("open").stdout.strip()
        self.assertTrue(link.startswith(service.address + "/login?code="), link)
        self.assertEqual(self.follow(link)[1].status, 303)


if __name__ == "__main__":
    unittest.main()
