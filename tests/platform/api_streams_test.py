"""Streams of a real `cohort serve`: events, logs and metrics are taken up again where they broke off."""

import http.client
import sys
import threading
import time
import unittest

from api_service import PATIENCE, ServiceTest, check_schema, schema_named

LINES = 40000
WRITES_FAST = f"""
import sys
for i in range({LINES}):
    sys.stdout.write(f"line {{i}} " + "x" * 60 + "\\n")
"""


def text_of(stream, most=None):
    """What log events say until the end, or until so many of them came."""
    text, last = [], None
    for number, (name, data) in enumerate(stream, 1):
        last = name
        if name == "log":
            check_schema(data, schema_named("LogPiece"))
            text.append(data["text"])
        if number == most:
            break
    return "".join(text), last


class Tokens(ServiceTest):
    def test_a_stream_ends_with_the_token_of_its_reader(self):
        service = self.serve("--listen", "127.0.0.1:0")
        made = [service.call("POST", "/v1/tokens", {"user": name, "role": "viewer"}).json() for name in ("eve", "vic")]
        job = service.submit([sys.executable, "-c", "import time; time.sleep(600)"])
        service.wait_until(job, {"running"})
        paths = ("/v1/events", f"/v1/jobs/{job}/logs/stream", f"/v1/jobs/{job}/metrics")
        streams = [service.stream(path, token["token"]) for token in made for path in paths]
        stays = service.stream("/v1/events", service.token)
        service.call("DELETE", f"/v1/tokens/{made[0]['id']}")
        service.call("POST", f"/v1/tokens/{made[1]['id']}/rotate")
        for stream in streams:
            with self.assertRaises(http.client.IncompleteRead):  # within PATIENCE; else a timeout
                while stream.response.read1():
                    pass
            stream.close()
        service.call("POST", f"/v1/jobs/{job}/stop")
        self.assertIn("ended", (event["kind"] for _, event in stays))
        stays.close()


class Streams(ServiceTest):
    def setUp(self):
        super().setUp()
        self.service = self.serve()

    def test_followers_lose_nothing_while_a_task_writes_fast(self):
        job = self.service.submit(self.script(WRITES_FAST), name="fast")
        expected = "".join(f"line {i} " + "x" * 60 + "\n" for i in range(LINES))
        found = {}

        def follow_on(name, pause):
            stream = self.service.stream(f"/v1/jobs/{job}/logs/stream")
            text = []
            for kind, data in stream:
                time.sleep(pause)
                text.append(data["text"] if kind == "log" else "")
            found[name] = "".join(text)
            stream.close()

        def break_off_and_go_on(name):
            text, last, kind = [], None, None
            while kind != "end":
                path = f"/v1/jobs/{job}/logs/stream"
                stream = self.service.stream(path, headers={"Last-Event-ID": last} if last else {})
                part, kind = text_of(stream, 5)
                last = stream.last_id or last
                text.append(part)
                stream.close()
            found[name] = "".join(text)

        followers = [threading.Thread(target=follow_on, args=(f"quick {i}", 0)) for i in range(4)]
        followers.append(threading.Thread(target=follow_on, args=("slow", 0.02)))
        followers.append(threading.Thread(target=break_off_and_go_on, args=("again and again",)))
        for follower in followers:
            follower.start()
        for follower in followers:
            follower.join(PATIENCE)
        self.assertEqual({name for name, text in found.items() if text == expected}, set(found))
        self.assertEqual(len(found), 6)

    def test_logs_are_followed_across_attempts_from_a_time_or_the_last_lines_on(self):
        program = self.script(
            "import os, sys\nprint('first')\nprint('second')\n"
            f"sys.exit(0 if os.path.exists({str(self.folder / 'mended')!r}) else 3)\n"
        )
        job = self.service.submit(program)
        self.service.wait_until(job, {"failed"})
        text, last = text_of(self.service.stream(f"/v1/jobs/{job}/logs/stream"))
        self.assertEqual((text, last), ("first\nsecond\n", "end"))
        (self.folder / "mended").touch()
        self.service.call("POST", f"/v1/jobs/{job}/resume")
        text, _ = text_of(self.service.stream(f"/v1/jobs/{job}/logs/stream"))
        self.assertEqual(text, "first\nsecond\n" * 2)
        self.assertEqual(self.service.job(job)["state"], "succeeded")
        text, _ = text_of(self.service.stream(f"/v1/jobs/{job}/logs/stream?tail=1&task=worker:0"))
        self.assertEqual(text, "second\n")
        text, _ = text_of(self.service.stream(f"/v1/jobs/{job}/logs/stream?since=3600"))
        self.assertEqual(text, "first\nsecond\n" * 2)
        for query in ("since=yesterday", "tail=x", "after=x", "task=worker:9"):
            self.assertIn(self.service.call("GET", f"/v1/jobs/{job}/logs/stream?{query}").status, (400, 404), query)

    def test_events_are_taken_up_again_behind_the_last_id(self):
        stream = self.service.stream("/v1/events")
        job = self.service.submit([sys.executable, "-c", "pass"])
        first = stream.take(1)
        check_schema(first[0][1], schema_named("Event"))
        stream.close()
        self.service.wait_until(job, {"succeeded"})
        again = self.service.stream("/v1/events", headers={"Last-Event-ID": stream.last_id})
        events = first
        for event in again:
            events.append(event)
            if event[1]["kind"] == "ended":
                break
        again.close()
        self.assertEqual({name for name, _ in events}, {"job"})
        ids = [data["id"] for _, data in events]
        self.assertEqual(ids, sorted(set(ids)))
        page = self.service.call("GET", "/v1/events", headers={"Accept": "application/json"}).json()
        self.assertEqual(page["events"], [data for _, data in events])
        rest = self.service.call("GET", f"/v1/events?after={ids[0]}&limit=1", headers={"Accept": "application/json"})
        self.assertEqual(rest.json(), {"events": [events[1][1]], "next": ids[1]})

    def test_metrics_are_taken_up_again_behind_the_last_id(self):
        program = self.script("for i in range(20): print(f'step {i} loss={i / 4}', flush=True)\n")
        job = self.service.submit(program, metric_definitions=[{"Name": "loss", "Regex": "loss=([0-9.]+)"}])
        stream = self.service.stream(f"/v1/jobs/{job}/metrics")
        first = stream.take(7)
        stream.close()
        rest = list(self.service.stream(f"/v1/jobs/{job}/metrics", headers={"Last-Event-ID": stream.last_id}))
        self.assertEqual(rest[-1][0], "end")
        check_schema(rest[-1][1], schema_named("LogEnd"))
        metrics = [data for _, data in first + rest[:-1]]
        for metric in metrics:
            check_schema(metric, schema_named("Metric"))
        self.assertEqual([metric["value"] for metric in metrics], [i / 4 for i in range(20)])


if __name__ == "__main__":
    unittest.main()
