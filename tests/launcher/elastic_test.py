"""Elastic jobs: workers that die come back, the job goes on, grows and shrinks, and says what happened."""

import json
import os
import re
import signal
import subprocess
import time
import unittest

from launcher import BIN, COHORT, LauncherTest, PATIENCE

MEMBER = str(BIN.parent / "tests" / "member_program")


class ElasticTest(LauncherTest):
    def run_elastic(self, workers, *words, options=()):
        return self.run_job("-n", workers, "--elastic", *options, "--", MEMBER, *words)

    def start_elastic(self, workers, *words, options=()):
        """A job that trains until end() is called."""
        process = self.start("-n", workers, "--elastic", *options, "--", MEMBER, "--until", self.folder / "end",
                             "--stage-ms", 5, *words)
        self.addCleanup(lambda: process.poll() is None and (process.kill(), process.communicate()))
        return process

    def end(self, process):
        (self.folder / "end").touch()
        return self.finish(process)

    def record(self):
        try:
            return json.loads((self.output / "job.json").read_text())
        except (OSError, ValueError):
            return {"tasks": [], "elastic": None}

    def events(self, kind=None):
        try:
            lines = (self.output / "membership.jsonl").read_text().splitlines()
        except OSError:
            return []
        events = [json.loads(line) for line in lines]
        return [event for event in events if kind in (None, event["event"])]

    def wait_for_view(self, *tasks):
        """The event of a view that trains and has exactly the named runs, as in "worker/0.0"."""
        def found():
            installed = self.events("installed")
            if not installed or {m.rsplit(".", 1)[0] for m in installed[-1]["members"]} != set(tasks):
                return None
            resumed = [event for event in self.events("resumed") if event["view"] == installed[-1]["view"]]
            return installed[-1] if resumed else None
        return self.wait_for(found, f"a view of {tasks}")

    def pid(self, index):
        return self.record()["tasks"][index]["pid"]

    def cohort(self, *words):
        return subprocess.run([COHORT, *map(str, words)], capture_output=True, text=True, timeout=PATIENCE,
                              env=self.environment(), cwd=self.folder)


class Deaths(ElasticTest):
    def test_a_killed_worker_is_started_again_alone_and_joins_the_next_view(self):
        process = self.start_elastic("2:3")
        self.wait_for_view("worker/0.0", "worker/1.0", "worker/2.0")
        others = [self.pid(0), self.pid(2)]
        killed = self.pid(1)
        os.kill(killed, signal.SIGKILL)
        self.wait_for_view("worker/0.0", "worker/1.1", "worker/2.0")
        self.assertEqual([self.pid(0), self.pid(2)], others)
        result = self.end(process)
        self.assertEqual(result.code, 0, result.stderr)

        evicted = self.events("evicted")
        self.assertEqual([(e["member"], e["reason"]) for e in evicted],
                         [("worker/1.0.0", f"pid {killed} was killed by signal 9 (SIGKILL)")])
        without = [e for e in self.events("installed") if len(e["members"]) == 2]
        self.assertEqual([e["members"] for e in without], [["worker/0.0.0", "worker/2.0.0"]])
        resumed = next(e for e in self.events("resumed") if e["view"] == without[0]["view"])
        self.assertTrue(resumed["redone"])
        self.assertLess(resumed["stood_still_ms"], 5000)
        self.assertGreater(resumed["step"], 0)
        for event in self.events():
            self.assertRegex(event["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
            self.assertGreaterEqual(event["seconds"], 0)
        self.assertEqual(self.events()[-1]["event"], "over")

        self.assertRegex(result.stderr, rf"worker/1 \(pid {killed}\) was killed by signal 9 \(SIGKILL\) after .* s; "
                                        r"starting it again \(restart 1 of 10\)")
        self.assertRegex(result.stderr, rf"view \d+: worker/1: pid {killed} was killed by signal 9 \(SIGKILL\); "
                                        "2 workers go on\n")
        self.assertRegex(result.stderr, r"view \d+ trains: stood still \d+ ms, step \d+ was done again\n")
        self.assertRegex(result.stderr, r"view \d+: worker/1 joined; 3 workers\n")
        self.assertRegex(result.log("worker/1").decode(),
                         rf"--- cohort: pid {killed} was killed by signal 9 \(SIGKILL\) after .*; started again alone")
        record = result.record()
        self.assertEqual([task["restarts"] for task in record["tasks"]], [0, 1, 0])
        # A process that starts takes no core from the step that the others make first.
        self.assertGreaterEqual(record["tasks"][1]["started"], resumed["time"])
        elastic = record["elastic"]
        self.assertEqual((elastic["least"], elastic["most"], elastic["wanted"], elastic["phase"]), (2, 3, 3, "over"))
        self.assertEqual(sorted(member["task"] for member in elastic["members"]), ["worker/0", "worker/1", "worker/2"])

    def test_used_up_restarts_leave_the_job_going_while_enough_can_run(self):
        result = self.run_elastic("1:3", "--stages", 400, "--fail-worker", 1, "--fail-signal", signal.SIGSEGV,
                                  options=["--max-restarts", 2])
        self.assertEqual(result.code, 0, result.stderr)
        self.assertIn("has been started again 2 times already", result.stderr)
        tasks = result.record()["tasks"]
        self.assertEqual([task["restarts"] for task in tasks], [0, 2, 0])
        self.assertEqual([task["state"] for task in tasks], ["succeeded", "failed", "succeeded"])

    def test_too_few_left_fail_the_job_with_the_root_cause(self):
        result = self.run_elastic("2:2", "--stages", 100000, "--fail-worker", 1, "--fail-code", 7,
                                  options=["--max-restarts", 1])
        self.assertEqual(result.code, 7, result.stderr)
        record = result.record()
        self.assertEqual((record["state"], record["root_cause"]["index"]), ("failed", 1))
        self.assertIn("worker/1 is not started again, and only 1 worker can still run, but the job needs at least 2",
                      record["failure"])
        self.assertRegex(result.last_line, r"cohort: worker/1 on .* failed with exit code 7 after .*: fails at join")

    def test_a_usage_error_of_all_fails_at_once(self):
        result = self.run_elastic("1:4", "--no-such-option")
        self.assertEqual(result.code, 2, result.stderr)
        self.assertLess(result.seconds, 10)
        self.assertEqual([task["restarts"] for task in result.record()["tasks"]], [0, 0, 0, 0])
        self.assertIn("a usage error, so it is not started again", result.stderr)
        self.assertIn("--no-such-option", result.last_line)

    def test_one_that_cannot_take_part_is_left_out_and_is_not_waited_for(self):
        result = self.run_elastic("1:3", "--stages", 20, "--fail-worker", 2, "--fail-code", 2, "--fail", "start")
        self.assertEqual(result.code, 0, result.stderr)
        self.assertLess(result.seconds, 20)
        self.assertEqual(result.record()["tasks"][2]["restarts"], 0)
        self.assertEqual(len(self.events("installed")[0]["members"]), 2)

    def test_who_ends_with_0_before_the_end_is_warned_of_and_not_started_again(self):
        result = self.run_elastic("1:2", "--stages", 300, "--fail-worker", 1, "--fail-code", 0)
        self.assertEqual(result.code, 0, result.stderr)
        self.assertRegex(result.stderr, r"worker/1 \(pid \d+\) ended with exit code 0 before the training was over; "
                                        "the job goes on without it")
        self.assertEqual(result.record()["tasks"][1]["restarts"], 0)

    def test_a_program_that_takes_no_part_fails_in_words(self):
        result = self.run_job("-n", "2:2", "--elastic", "--", "true")
        self.assertEqual(result.code, 1)
        self.assertRegex(result.stderr, "failed after .* s: worker/[01] ended early, and only 1 worker can still run")

    def test_a_preempted_worker_comes_back_and_is_not_charged(self):
        process = self.start_elastic("1:2", options=["--max-restarts", 0])
        self.wait_for_view("worker/0.0", "worker/1.0")
        time.sleep(2.2)  # a worker that goes sooner is charged
        os.kill(self.pid(1), signal.SIGTERM)
        self.wait_for_view("worker/0.0", "worker/1.1")
        result = self.end(process)
        self.assertEqual(result.code, 0, result.stderr)
        self.assertIn("(preempted, not counted)", result.stderr)

    def test_a_stopped_worker_is_shut_out_and_comes_again_by_itself(self):
        process = self.start_elastic("1:3", options=["--lease", 0.5])
        self.wait_for_view("worker/0.0", "worker/1.0", "worker/2.0")
        stopped = self.pid(2)
        os.kill(stopped, signal.SIGSTOP)
        self.wait_for_view("worker/0.0", "worker/1.0")
        os.kill(stopped, signal.SIGCONT)
        view = self.wait_for_view("worker/0.0", "worker/1.0", "worker/2.0")
        self.assertIn("worker/2.0.1", view["members"])
        self.assertEqual(self.pid(2), stopped)
        result = self.end(process)
        self.assertEqual(result.code, 0, result.stderr)
        self.assertIn("is suspended (SIGSTOP)", result.stderr)
        self.assertRegex(result.stderr, r"worker/2 \(pid \d+\) was shut out: nothing was heard of it")

    def test_who_was_started_otherwise_is_refused_in_words_and_left_out(self):
        result = self.run_elastic("1:2", "--stages", 20, "--odd-worker", 1)
        self.assertEqual(result.code, 0, result.stderr)
        self.assertEqual(len(self.events("refused")), 1)
        self.assertRegex(result.stderr, r"worker/[01]\.0\.0 cannot take part: .*batch")
        self.assertEqual(sum(task["restarts"] for task in result.record()["tasks"]), 0)


class Sizes(ElasticTest):
    def test_scale_down_and_up(self):
        process = self.start_elastic("1:4")
        all_four = [f"worker/{i}.0" for i in range(4)]
        self.wait_for_view(*all_four)
        down = self.cohort("scale", self.output, 2)
        self.assertEqual(down.returncode, 0, down.stderr)
        self.assertIn("scaled from 4 to 2 by request", down.stdout)
        self.assertRegex(down.stdout, r"view \d+: 2 of 2 workers")
        # The last to come goes first.
        left = {m.rsplit(".", 1)[0] for m in self.events("installed")[-1]["members"]}
        self.assertEqual(len(left), 2)
        self.wait_for_view(*left)
        self.wait_for(lambda: sorted(t["state"] for t in self.record()["tasks"]) == ["running"] * 2 + ["succeeded"] * 2,
                      "dismissed workers to end")
        up = self.cohort("scale", self.output, 3)
        self.assertEqual(up.returncode, 0, up.stderr)
        back = next(i for i in range(4) if f"worker/{i}.0" not in left)
        self.wait_for_view(*left, f"worker/{back}.1")
        result = self.end(process)
        self.assertEqual(result.code, 0, result.stderr)
        self.assertEqual(len(self.events("dismissed")), 2)
        self.assertIn(b"dismissed", result.log(f"worker/{back}"))
        self.assertNotIn("warning", result.stderr)
        self.assertEqual(result.record()["elastic"]["wanted"], 3)

    def test_what_cannot_be_is_refused_with_the_limits(self):
        process = self.start_elastic("2:3")
        self.wait_for_view("worker/0.0", "worker/1.0", "worker/2.0")
        for number in (1, 4):
            refused = self.cohort("scale", self.output, number)
            self.assertEqual(refused.returncode, 2)
            self.assertIn(f"{number} workers are outside of 2 to 3", refused.stderr)
        self.assertEqual(self.cohort("scale", self.output, 0).returncode, 2)
        self.assertEqual(self.cohort("scale", self.output).returncode, 2)
        self.assertIn("3 workers are wanted already", self.cohort("scale", self.output, 3, "--no-wait").stdout)
        self.assertEqual(self.end(process).code, 0)
        ended = self.cohort("scale", self.output, 2)
        self.assertEqual(ended.returncode, 2)
        self.assertIn("has ended (succeeded)", ended.stderr)

    def test_scaling_tries_those_again_that_were_out(self):
        process = self.start_elastic("1:2", options=["--max-restarts", 0])
        self.wait_for_view("worker/0.0", "worker/1.0")
        os.kill(self.pid(1), signal.SIGKILL)
        self.wait_for_view("worker/0.0")
        self.assertEqual(self.cohort("scale", self.output, 2).returncode, 0)
        self.wait_for_view("worker/0.0", "worker/1.1")
        self.assertEqual(self.end(process).code, 0)

    def test_a_job_that_is_not_elastic_is_not_scaled_but_shown(self):
        process = self.start("-n", 2, "--", "sleep", 600)
        self.wait_for_tasks(2)
        refused = self.cohort("scale", self.output, 3)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("is not elastic", refused.stderr)
        shown = self.cohort("status", self.output)
        self.assertRegex(shown.stdout, r"worker/1 +\S+ +\d+ +running +0\n")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(self.finish(process).code, 143)


class Status(ElasticTest):
    def test_status_shows_view_members_step_and_the_last_change(self):
        process = self.start_elastic("1:2")
        self.wait_for_view("worker/0.0", "worker/1.0")
        os.kill(self.pid(1), signal.SIGKILL)
        self.wait_for_view("worker/0.0", "worker/1.1")
        def all_have_told():
            told = json.loads(self.cohort("status", self.output, "--json").stdout)
            return told if all(member["step"] > 0 for member in told["elastic"]["members"]) else None
        told = self.wait_for(all_have_told, "beats of all members")
        self.assertTrue(told["launcher_answers"])
        members = told["elastic"]["members"]
        self.assertEqual([member["task"] for member in members], ["worker/0", "worker/1"])
        self.assertEqual([member["pid"] for member in members], [self.pid(0), self.pid(1)])
        for member in members:
            self.assertTrue(0 <= member["heard_ms_ago"] < 5000, member)
        self.assertEqual(told["elastic"]["last_change"]["reason"], "worker/1 joined")
        self.assertGreaterEqual(told["elastic"]["last_change"]["stood_still_ms"], 0)
        text = self.cohort("status", self.output).stdout
        self.assertRegex(text, r"view \d+ \(training\), 2 of 2 wanted workers \(1 to 2 possible\)")
        self.assertRegex(text, r"step \d+, [\d.]+ samples/s in all")
        self.assertRegex(text, r"worker/1 +\S+ +\d+ +member +\d+ +\d+ +[\d.]+ +\d+\n")
        watch = subprocess.Popen([COHORT, "status", str(self.output), "--watch"], stdout=subprocess.PIPE, text=True,
                                 env=self.environment())
        result = self.end(process)
        self.assertEqual(result.code, 0, result.stderr)
        last = watch.communicate(timeout=PATIENCE)[0]
        self.assertRegex(last, r"job \S+: succeeded, exit code 0, at ")

    def test_a_launcher_that_was_killed_is_said_to_be_gone_and_leaves_nothing(self):
        process = self.start_elastic("1:2")
        self.wait_for_view("worker/0.0", "worker/1.0")
        socket = self.record()["control"]
        self.assertEqual(os.stat(socket).st_mode & 0o777, 0o600)
        process.kill()
        process.communicate(timeout=PATIENCE)
        self.assert_nothing_left()
        self.assertFalse(os.path.exists(socket))
        shown = self.cohort("status", self.output)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertIn(f"its launcher (pid {process.pid}) is gone", shown.stdout)
        self.assertRegex(shown.stdout, r"worker/1 +\S+ +\d+ +member +-")
        refused = self.cohort("scale", self.output, 1)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("is gone: no launcher listens", refused.stderr)

    def test_jobs_are_found_by_id_its_beginning_and_latest(self):
        result = subprocess.run([COHORT, "run", "--", "true"], cwd=self.folder, env=self.environment(),
                                capture_output=True, text=True, timeout=PATIENCE)
        job = re.search(r"job (\S+):", result.stderr).group(1)
        for name in (job, job[:12], "latest", f"cohort-output/{job}"):
            self.assertIn(f"job {job}: succeeded", self.cohort("status", name).stdout)
        self.assertIn("no job 'nowhere'", self.cohort("status", "nowhere").stderr)


class Ends(ElasticTest):
    def test_sigterm_ends_everything(self):
        process = self.start_elastic("1:3")
        self.wait_for_view("worker/0.0", "worker/1.0", "worker/2.0")
        socket = self.record()["control"]
        process.send_signal(signal.SIGTERM)
        result = self.finish(process)
        self.assertEqual(result.code, 143)
        self.assertEqual(result.record()["state"], "stopped")
        self.assertFalse(os.path.exists(socket))

    def test_a_hangup_ends_the_workers_and_does_not_bring_them_back(self):
        process = self.start_elastic("1:3")
        self.wait_for_view("worker/0.0", "worker/1.0", "worker/2.0")
        process.send_signal(signal.SIGHUP)
        result = self.finish(process)
        self.assertEqual(result.code, 129, result.stderr)
        self.assertEqual(result.record()["state"], "stopped")
        self.assertNotIn("starting it again", result.stderr)

    def test_sigterm_while_a_worker_waits_to_be_started_again(self):
        process = self.start("-n", "1:1", "--elastic", "--max-restarts", 1000, "--", MEMBER, "--fail-worker", 0,
                             "--fail-signal", signal.SIGABRT, "--fail", "start")
        self.wait_for(lambda: self.record()["tasks"] and self.record()["tasks"][0]["restarts"] >= 3, "three restarts")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(self.finish(process).code, 143)

    def test_fewer_than_the_least_for_too_long_fail_in_words(self):
        process = self.start_elastic("2:2", options=["--elastic-timeout", 2, "--lease", 0.5])
        self.wait_for_view("worker/0.0", "worker/1.0")
        os.kill(self.pid(1), signal.SIGSTOP)
        result = self.finish(process)
        self.assertEqual(result.code, 1, result.stderr)
        self.assertRegex(result.record()["failure"], "only 1 of at least 2 workers were there for 2 s")

    def test_the_words_of_a_job_lie_in_its_folder(self):
        result = self.run_elastic("1:2", "--stages", 1, options=["--lease", 1.5, "--max-restarts", 4])
        self.assertEqual(result.code, 0, result.stderr)
        words = json.loads((self.output / "job-options.json").read_text())
        self.assertEqual(words["program"], [MEMBER, "--stages", "1"])
        arguments = " ".join(words["arguments"])
        for text in "-n 1:2", "--elastic", "--lease 1.5", "--max-restarts 4", f"--output {self.output}":
            self.assertIn(text, arguments)


class Refusals(ElasticTest):
    def assert_refused(self, words, *expected):
        result = self.run_job(*words, "--", "true")
        self.assertEqual(result.code, 2)
        for text in expected:
            self.assertIn(text, result.stderr)

    def test_a_range_and_elastic_options_need_elastic(self):
        self.assert_refused(["-n", "2:8"], "-n 2:8 is a range, which only elastic jobs have", "--elastic")
        self.assert_refused(["-n", 2, "--lease", 1], "--lease is for elastic jobs only")
        self.assert_refused(["-n", 2, "--elastic-timeout", 1], "--elastic-timeout is for elastic jobs only")

    def test_ranges_and_times_are_checked(self):
        self.assert_refused(["-n", "3:2", "--elastic"], "-n 3:2 is no range of workers")
        self.assert_refused(["-n", "0:2", "--elastic"], "-n 0:2 is no range of workers")
        self.assert_refused(["-n", "2:x", "--elastic"], "--workers '2:x' is not a number")
        self.assert_refused(["-n", "1:2:3", "--elastic"], "--workers '1:2:3' is not a number")
        self.assert_refused(["-n", 2, "--elastic", "--lease", 0], "--lease must be more than 0, at most 604800 seconds, got 0")
        self.assert_refused(["-n", 2, "--elastic", "--max-restarts", -1], "--max-restarts must be at least 0, got -1")

    def test_what_makes_no_sense_together_is_refused_by_name(self):
        for words, name in ((["--ps", 1], "--ps"), (["--evaluator"], "--evaluator"), (["--coordinator"], "--coordinator"),
                            (["--chief-name", "chief"], "--chief-name"), (["--layout", "colocated"], "--layout colocated"),
                            (["--success", "chief"], "--success"), (["--strategy", "mirrored"], "--strategy mirrored")):
            self.assert_refused(["-n", 2, "--elastic", *words], f"--elastic and {name} exclude each other")

    def test_a_job_file_and_a_dry_run_know_it(self):
        path = self.folder / "job.toml"
        path.write_text('workers = "2:3"\nelastic = true\nlease = 1\nprogram = "true"\n')
        result = self.run_job("--config", path, "--dry-run")
        self.assertEqual(result.code, 0, result.stderr)
        shown = result.stdout.decode()
        self.assertEqual(shown.count("COHORT_ELASTIC=2:3"), 3)
        self.assertNotIn("COHORT_INCARNATION", shown)
        self.assertIn("-n 2:8 --elastic", self.cohort("run", "--help").stdout)


if __name__ == "__main__":
    unittest.main()
