"""Jobs on several hosts (network namespaces): tasks there, hosts that come and go, links that are cut.

usage: remote_hosts_test.py MEMBER_PROGRAM
Exit 77, with the reason, where this user may not make network namespaces.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "network"))
from launcher import COHORT, PYTHON, LauncherTest  # noqa: E402
from namespaces import ThreeHosts, skip_where_impossible  # noqa: E402

MEMBER = str(pathlib.Path(sys.argv.pop(1)).resolve()) if len(sys.argv) > 1 else ""
REMOTE_SHELL = str(pathlib.Path(__file__).with_name("remote_shell.py"))
SILENCE = 10  # seconds after which `cohort host-task` takes the launcher for lost


class RemoteHosts(ThreeHosts, LauncherTest):
    def setUp(self):
        super().setUp()
        shell = self.folder / "shell"  # names of hosts are addresses
        shell.write_text(f'#!/bin/sh\nhost=$1; shift\nexec ip netns exec {self.network.prefix}$((${{host##*.}} - 1)) "$@"\n')
        shell.chmod(0o700)
        self.shell = str(shell)
        self.until = self.folder / "until"
        self.hosts = self.folder / "hosts"

    def address(self, host, slots=1):
        return f"{self.network.address(host)}:{slots}"

    def command(self, *words):
        """cohort run on host 0."""
        return self.network.enter(0) + [COHORT, "run", "--output", str(self.output), *map(str, words)]

    def start_elastic(self, hosts, *options, shell=None, program=()):
        script = self.folder / "discover"
        script.write_text(f"#!/bin/sh\ncat {self.hosts}\n")
        script.chmod(0o700)
        self.name_hosts(hosts)
        process = self.start("-n", "1:3", "--elastic", "--grace", 1, "--host-discovery-script", script,
                             "--remote-shell", shell or self.shell, *options, "--", MEMBER, "--until", self.until, *program)
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        """Of a test that failed."""
        if process.poll() is None:
            process.kill()
            print(process.communicate()[1].decode(), file=sys.stderr)

    def name_hosts(self, hosts):
        new = self.folder / "hosts.new"
        new.write_text("".join(self.address(host) + "\n" for host in hosts))
        new.rename(self.hosts)

    def members(self):
        """Of the newest view."""
        path = self.output / "membership.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        views = [event for event in map(json.loads, lines) if event["event"] == "installed"]
        return views[-1]["members"] if views else []

    def wait_for_members(self, count):
        self.wait_for(lambda: len(self.members()) == count, f"a view of {count} members")

    def task(self, index):
        return json.loads((self.output / "job.json").read_text())["tasks"][index]

    def programs(self, index):
        """Processes of the program of worker/index, wherever they run."""
        found = []
        for pid in self.processes():
            try:
                variables = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                program = pathlib.Path(f"/proc/{pid}/exe").resolve()
            except OSError:
                continue
            if f"COHORT_TASK_INDEX={index}".encode() in variables and str(program) == MEMBER:
                found.append(pid)
        return found

    def finish_well(self, process):
        self.until.touch()
        result = self.finish(process)
        self.assertEqual(result.code, 0, result.stderr)
        return result

    def test_each_task_runs_on_its_host(self):
        hosts = ",".join(self.address(host) for host in range(3))
        result = self.run_job("-n", 3, "--hosts", hosts, "--remote-shell", self.shell, "--env", "SAID=by hand", "--",
                              "sh", "-c", "ip -4 -o addr show dev eth0; echo $SAID; echo $TF_CONFIG; "
                              "wc -c < /dev/fd/$COHORT_SECRET_FD")
        self.assertEqual(result.code, 0, result.stderr)
        for host in range(3):
            log = result.log(f"worker/{host}").decode()
            self.assertIn(self.network.address(host) + "/24", log)
            self.assertIn("by hand\n", log)
            self.assertIn("\n65\n", log)  # the secret: 64 digits and a line end
            for other in range(3):
                self.assertIn(self.network.address(other), log.replace("/24", ""))
        self.assertEqual([task["host"] for task in result.record()["tasks"]][1:],
                         [self.network.address(1), self.network.address(2)])

    def test_the_end_of_a_remote_task_is_the_programs(self):
        words = ["--hosts", f"{self.address(1)}", "--remote-shell", self.shell, "--", "sh", "-c"]
        failed = self.run_job(*words, "echo last words; exit 7")
        self.assertEqual(failed.code, 7, failed.stderr)
        self.assertIn("last words", failed.last_line)
        self.assertIn(self.network.address(1), failed.last_line)
        killed = self.run_job(*words, "kill -9 $$")
        self.assertEqual((killed.code, killed.record()["tasks"][0]["signal"]), (137, "SIGKILL"), killed.stderr)
        missing = self.run_job("--hosts", f"{self.address(1)}", "--remote-shell", self.shell, "--remote-cohort",
                               "/no/such/cohort", "--", "true")
        self.assertNotEqual(missing.code, 0)
        self.assertIn("/no/such/cohort", missing.stderr)

    def test_remote_tasks_are_asked_to_stop(self):
        process = self.start("--hosts", self.address(2), "--remote-shell", self.shell, "--", "sh", "-c",
                             "trap 'echo asked; exit 0' TERM; echo ready; while :; do sleep 0.05; done")
        self.wait_for_log("worker/0", "ready")
        process.send_signal(signal.SIGTERM)
        result = self.finish(process)
        self.assertEqual(result.code, 143, result.stderr)
        self.assertIn(b"asked", result.log("worker/0"))

    def test_a_killed_launcher_leaves_no_process_on_other_hosts(self):
        process = self.start("--hosts", self.address(2), "--remote-shell", self.shell, "--", "sh", "-c",
                             "echo ready; sleep 1000")
        self.wait_for_log("worker/0", "ready")
        process.kill()
        process.communicate()
        self.assert_nothing_left()

    def test_workers_come_and_go_with_their_hosts(self):
        process = self.start_elastic([0])
        self.wait_for_members(1)
        self.name_hosts([0, 1, 2])
        self.wait_for_members(3)
        self.assertEqual(self.task(2)["host"], self.network.address(2))
        self.name_hosts([0, 2])
        self.wait_for_members(2)
        self.name_hosts([0, 1, 2])
        self.wait_for_members(3)
        result = self.finish_well(process)
        self.assertIn("worker/1 (pid", result.stderr)
        self.assertIn("has lost its slot", result.stderr)

    def test_a_host_that_goes_when_training_is_over_is_not_waited_for(self):
        process = self.start_elastic([0, 1, 2], program=("--after-ms", 4000))
        self.wait_for_members(3)
        self.until.touch()
        self.wait_for(lambda: '"over"' in (self.output / "membership.jsonl").read_text(), "the end of training")
        self.name_hosts([0])
        self.finish_well(process)

    def test_the_secret_is_on_no_command_line_and_in_no_environment(self):
        process = self.start_elastic([0, 1])
        self.wait_for_members(2)
        (program,) = self.programs(1)
        variables = dict(line.split(b"=", 1) for line in pathlib.Path(f"/proc/{program}/environ").read_bytes().split(b"\0")
                         if b"=" in line)
        with open(f"/proc/{program}/fd/{int(variables[b'COHORT_SECRET_FD'])}", "rb") as file:
            secret = os.pread(file.fileno(), 64, 0)
        self.assertEqual(len(secret), 64)
        pids = self.processes()
        self.assertGreater(len(pids), 4)
        for pid in pids:
            for file in "cmdline", "environ":
                try:
                    self.assertNotIn(secret, pathlib.Path(f"/proc/{pid}/{file}").read_bytes())
                except OSError:
                    continue
        self.finish_well(process)

    def test_a_cut_host_ends_its_program_and_the_others_go_on(self):
        for host in (1, 2):
            server = subprocess.Popen(self.network.enter(host) + [PYTHON, REMOTE_SHELL, "serve"], stdout=subprocess.PIPE,
                                      env={k: v for k, v in os.environ.items() if not k.startswith("COHORT_")})
            self.addCleanup(server.stdout.close)
            self.addCleanup(server.wait)
            self.addCleanup(server.kill)
            server.stdout.readline()
        # Programs there have their server's environment, but for what the launcher adds.
        process = self.start_elastic([0, 1], "--env", f"LAUNCHER_TEST={self.folder.name}",
                                     shell=f"{PYTHON} {REMOTE_SHELL}")
        self.wait_for_members(2)
        (program,) = self.programs(1)
        self.network.cut(1)
        cut = time.monotonic()
        self.wait_for_members(1)
        self.assertLess(time.monotonic() - cut, 8)
        self.wait_for(lambda: not self.runs(program), "the end of the program on the cut host")
        self.assertGreater(time.monotonic() - cut, SILENCE - 3)
        self.assertLess(time.monotonic() - cut, SILENCE + 8)
        self.assertIsNone(process.poll())
        self.network.mend(1)
        self.wait_for_members(2)
        self.finish_well(process)


if __name__ == "__main__":
    skip_where_impossible()
    unittest.main()
