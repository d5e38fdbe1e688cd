"""Attacks on the key-value store that `cohort run --horovod` serves: it answers, and its memory stays bounded."""

import http.client
import os
import socket
import time
import unittest

from attack import OTHER_USER, PYTHON, SANITIZED, AttackTest, connect, environment_of, memory_of

MOST_GROWTH = (512 if SANITIZED else 64) << 20  # AddressSanitizer keeps freed memory for a while
PATIENT = "import os, sys, time\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.02)\n"


class Rendezvous(AttackTest):
    def setUp(self):
        super().setUp()
        self.process = self.start("-n", 1, "--horovod", "--", PYTHON, self.script(PATIENT), self.folder / "end")
        environment = environment_of(self.wait_for_tasks(1)[0]["pid"])
        self.port = int(environment["HOROVOD_GLOO_RENDEZVOUS_PORT"])
        self.before = memory_of(self.process.pid)
        self.assertEqual(self.ask("PUT", "/global/0", b"honest")[0], 200)

    def tearDown(self):
        self.assertEqual(self.ask("GET", "/global/0"), (200, b"honest"))
        self.assertLess(memory_of(self.process.pid) - self.before, MOST_GROWTH)
        (self.folder / "end").touch()
        result = self.finish(self.process)
        self.assertEqual(result.code, 0, result.stderr)

    def ask(self, method, path, body=None):
        server = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        server.request(method, path, body)
        reply = server.getresponse()
        answer = reply.status, reply.read()
        server.close()
        return answer

    def flood(self, head, more, most=128 << 20, seconds=10):
        """Sends without end; returns how many bytes the server let it."""
        sent, limit = 0, time.monotonic() + seconds
        with connect(self.port, 2) as one:
            try:
                one.sendall(head)
                while sent < most and time.monotonic() < limit:
                    one.sendall(more)
                    sent += len(more)
                    self.assertLess(memory_of(self.process.pid) - self.before, MOST_GROWTH)
            except (ConnectionError, socket.timeout):
                pass
        return sent

    def test_what_has_no_end_is_cut_off(self):
        chunked = b"PUT /x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
        for name, head, more in (
                ("a chunked body to a path without a handler", chunked, chunk),
                ("a chunked body to a key", chunked.replace(b"/x", b"/global/1"), chunk),
                ("headers", b"GET /global/0 HTTP/1.1\r\n", b"a: b\r\n" * 1000),
                ("a request line", b"GET /", b"x" * 65536),
                ("a chunk's size", chunked + b"1;", b"x" * 65536)):  # fmt: skip
            with self.subTest(name):
                self.assertLess(self.flood(head, more), 32 << 20)

    def test_requests_that_are_refused_leave_nothing(self):
        large = b"x" * (1 << 19)
        statuses = [self.ask("PUT", f"/fill{i}/key", large)[0] for i in range(40)]
        self.assertEqual(set(statuses), {200, 507})
        for i in range(200):
            self.assertEqual(self.ask("PUT", f"/scope{i}{'s' * 900}/key", large)[0], 507)
        for i in range(200):
            self.assertEqual(self.ask("DELETE", f"/global/{i}{'k' * 900}")[0], 200)

    def test_slow_connections_do_not_keep_a_client_out(self):
        slow = []
        for _ in range(3000):
            one = connect(self.port)
            one.sendall(b"GET /glo")
            slow.append(one)
        begin = time.monotonic()
        self.assertEqual(self.ask("GET", "/global/0"), (200, b"honest"))
        self.assertLess(time.monotonic() - begin, 10)
        for one in slow:
            one.close()

    @unittest.skipIf(os.geteuid() != 0, "needs root, to become another user")
    def test_another_user_is_refused(self):
        child = os.fork()
        if child == 0:
            refused = 0
            try:
                os.setgroups([])
                os.setgid(OTHER_USER)
                os.setuid(OTHER_USER)
                for method in ("PUT", "GET", "DELETE"):
                    try:
                        self.ask(method, "/global/0", b"poison")
                    except (ConnectionError, http.client.HTTPException):
                        refused += 1
            finally:
                os._exit(refused)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 3)


if __name__ == "__main__":
    unittest.main()
