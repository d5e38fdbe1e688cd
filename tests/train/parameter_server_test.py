"""mnist with parameter servers, as a person starts it: the bits of an all-reduce in synchronous training,
a loss that falls in the others; checkpoints that the strategies share; servers and workers that are killed."""

import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "launcher"))
from launcher import BIN, COHORT, PATIENCE, LauncherTest  # noqa: E402

MNIST, RESNET, LOOP = (str(BIN / name) for name in ("mnist", "resnet_cifar", "custom_loop"))
SERVERS = ["--distribution_strategy", "parameter_server"]
SHORT = ["--virtual_shards", "4", "--batch_size", "32", "--max_steps", "6"]


class ServerTest(LauncherTest):
    def run_workers(self, *words):
        """The job's screen; its folder is moved aside."""
        result = self.run_job(*words)
        self.assertEqual(result.code, 0, result.stderr[-3000:])
        return self.put_away(result)

    def put_away(self, result):
        self.left = self.folder / f"left-{len(list(self.folder.glob('left-*')))}"
        shutil.move(self.output, self.left)
        return result.stdout.decode()

    def weights(self, text):
        found = re.findall(r"weights ([0-9a-f]{64})", text)
        self.assertEqual(len(found), 1, text[-2000:])
        return found[0]

    def alone(self, *words):
        done = subprocess.run([MNIST, *map(str, words)], capture_output=True, text=True, timeout=PATIENCE * 3,
                              env=self.environment(), cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        return done.stdout

    def last_loss(self, folder):
        lines = [json.loads(line) for line in (folder / "logs" / "worker-0.jsonl").read_text().splitlines()]
        return [line["loss"] for line in lines if "loss" in line][-1]


class TheSameBits(ServerTest):
    def test_as_with_all_reduce_and_alone(self):
        alone = self.weights(self.alone(*SHORT))
        mirrored = self.run_workers("-n", 2, "--", MNIST, *SHORT)
        self.assertEqual(self.weights(mirrored), alone)
        for workers, servers in ((2, 2), (1, 1), (3, 2)):
            text = self.run_workers("-n", workers, "--ps", servers, "--", MNIST, *SERVERS, *SHORT)
            self.assertEqual(self.weights(text), alone, f"{workers} workers, {servers} servers")

    def test_over_tcp(self):
        text = self.run_workers("-n", 2, "--ps", 2, "--", MNIST, *SERVERS, *SHORT, "--ps_shared_memory=false")
        self.assertEqual(self.weights(text), self.weights(self.alone(*SHORT)))

    def test_more_gradients_an_update_than_workers(self):
        words = ["--batch_size", "32", "--max_steps", "4"]
        text = self.run_workers("-n", 2, "--ps", 1, "--", MNIST, *SERVERS, *words,
                                "--replicas_to_aggregate", 4)
        self.assertEqual(self.weights(text), self.weights(self.alone(*words, "--virtual_shards", "4")))

    def test_colocated(self):
        text = self.run_workers("-n", 2, "--layout", "colocated", "--", MNIST, *SERVERS, *SHORT)
        self.assertEqual(self.weights(text), self.weights(self.alone(*SHORT)))

    def test_by_hand_in_several_terminals(self):
        ports = []
        for _ in range(4):
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                ports.append(f"localhost:{probe.getsockname()[1]}")
        cluster = {"worker": ports[:2], "ps": ports[2:]}
        started = [subprocess.Popen(
            [MNIST, *SERVERS, *SHORT], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=self.environment(TF_CONFIG=json.dumps({"cluster": cluster, "task": {"type": kind, "index": i}})))
            for kind in ("ps", "worker") for i in range(2)]
        texts = []
        for process in started:
            stdout, stderr = process.communicate(timeout=PATIENCE * 3)
            self.assertEqual(process.returncode, 0, stderr[-2000:])
            texts.append(stdout)
        self.assertEqual(self.weights(texts[2]), self.weights(self.alone(*SHORT)))

    def test_checkpoints_go_from_one_strategy_to_the_other(self):
        straight = self.weights(self.alone(*SHORT))
        half = [*SHORT[:-1], "3"]
        for first, second in ((SERVERS, []), ([], SERVERS)):
            model = self.folder / f"model{len(first)}"
            self.run_workers("-n", 2, "--ps", 2, "--", MNIST, *first, *half, "--model_dir", model)
            text = self.run_workers("-n", 2, "--ps", 2, "--", MNIST, *second, *SHORT, "--model_dir", model, "--resume")
            self.assertEqual(self.weights(text), straight, f"{first} then {second}")


class OtherPolicies(ServerTest):
    WORDS = ["--batch_size", "64", "--max_steps", "60", "--learning_rate", "0.02"]

    def check_learns(self, *words):
        self.run_workers("-n", 2, "--ps", 2, "--", MNIST, *SERVERS, *self.WORDS, *words)
        self.assertLess(self.last_loss(self.left), 1.8)
        return json.loads((self.left / "ps-stats.json").read_text())

    def test_async(self):
        stats = self.check_learns("--sync_replicas=false")
        self.assertGreater(sum(stats["staleness"].values()), 0)

    def test_bounded(self):
        self.check_learns("--staleness", 2)

    def test_backup_workers(self):
        self.run_workers("-n", 3, "--ps", 1, "--", MNIST, *SERVERS, *self.WORDS, "--replicas_to_aggregate", 2)
        self.assertLess(self.last_loss(self.left), 1.8)


class Faults(ServerTest):
    # Long enough to be hit in the middle, short enough for a small machine.
    WORDS = ["--virtual_shards", "4", "--batch_size", "64", "--max_steps", "120"]

    def begin(self, words, log=None):
        process = self.start("-n", 2, "--ps", 2, "--", MNIST, *SERVERS, *words)
        log = log or self.output / "logs" / "worker-0.jsonl"
        self.wait_for(lambda: log.exists() and log.read_text(), "training")
        return process, {f"{t['type']}/{t['index']}": t["pid"] for t in self.wait_for_tasks(4)}

    def check_survives(self, kill, *delays):
        unfailed = self.weights(self.run_workers("-n", 2, "--ps", 2, "--", MNIST, *SERVERS, *self.WORDS))
        for delay in delays:
            process, pids = self.begin(self.WORDS)
            time.sleep(delay)
            os.kill(pids[kill], signal.SIGKILL)
            result = self.finish(process)
            self.assertEqual(result.code, 0, result.stderr[-3000:])
            self.assertEqual(self.weights(self.put_away(result)), unfailed, f"{kill} killed after {delay} s")

    def test_a_killed_server_loses_nothing(self):
        self.check_survives("ps/1", 0.1, 0.5, 0.9)

    def test_a_killed_worker_comes_back(self):
        self.check_survives("worker/1", 0.1, 0.5, 0.9)

    def test_a_killed_chief_comes_back(self):
        unfailed = self.weights(self.run_workers("-n", 2, "--ps", 2, "--", MNIST, *SERVERS, *self.WORDS))
        process, pids = self.begin(self.WORDS)
        time.sleep(0.5)
        os.kill(pids["worker/0"], signal.SIGKILL)
        result = self.finish(process)
        self.assertEqual(result.code, 0, result.stderr[-3000:])
        self.assertIn(unfailed, self.put_away(result))

    def test_servers_with_a_log_go_on_when_the_job_is_resumed(self):
        words = [*self.WORDS, "--ps_durability", "disk"]
        unfailed = self.weights(self.run_workers("-n", 2, "--ps", 2, "--", MNIST, *SERVERS, *words))
        for again in ("cohort resume", "--resume"):
            asked = [*words, "--model_dir", self.folder / "model", "--resume"] if again == "--resume" else words
            log = (self.folder / "model" if again == "--resume" else self.output) / "logs" / "worker-0.jsonl"
            process, _ = self.begin(asked, log)
            self.wait_for(lambda: '"step":50' in log.read_text().replace(" ", ""), "50 steps")
            process.kill()
            process.communicate()
            self.assert_nothing_left()
            if again == "--resume":
                result = self.run_job("-n", 2, "--ps", 2, "--", MNIST, *SERVERS, *asked)
            else:
                result = self.finish(subprocess.Popen([COHORT, "resume", self.output], stdout=subprocess.PIPE,
                                                      stderr=subprocess.PIPE, env=self.environment()))
            self.assertEqual(result.code, 0, f"{again}: {result.stderr[-3000:]}")
            text = self.put_away(result)
            self.assertIn("goes on after step", text, again)
            self.assertEqual(self.weights(text), unfailed, again)

    def test_a_stopped_worker_does_not_stop_the_others_in_async(self):
        process, pids = self.begin(["--sync_replicas=false", "--batch_size", "600", "--max_steps", "80"])
        os.kill(pids["worker/1"], signal.SIGSTOP)
        try:
            log = self.output / "logs" / "worker-0.attempt1.log"
            self.wait_for(lambda: any(int(step) >= 60 for step in re.findall(r" (\d+)/100 ", log.read_text())),
                          "worker 0 near its end")
        finally:
            os.kill(pids["worker/1"], signal.SIGCONT)
        self.assertEqual(self.finish(process).code, 0)

    def test_a_late_worker_goes_on_where_the_others_are(self):
        process = self.start("-n", 3, "--ps", 1, "--", MNIST, *SERVERS, "--batch_size", "96", "--max_steps", "200",
                             "--replicas_to_aggregate", 2)
        logs = [self.output / "logs" / f"worker-{i}.jsonl" for i in range(3)]

        def steps(worker, event):  # every fiftieth has a line
            lines = logs[worker].read_text().splitlines() if logs[worker].exists() else []
            return [row["step"] for row in map(json.loads, lines) if row.get("event") == event]

        self.wait_for(lambda: all(steps(i, "begin") for i in range(3)), "training")
        slow = next(t["pid"] for t in self.wait_for_tasks(4) if (t["type"], t["index"]) == ("worker", 2))
        os.kill(slow, signal.SIGSTOP)
        try:
            self.wait_for(lambda: any(step >= 100 for i in (0, 1) for step in steps(i, "step")), "the others at 100")
        finally:
            os.kill(slow, signal.SIGCONT)
        result = self.finish(process)
        self.assertEqual(result.code, 0, result.stderr[-3000:])
        self.assertEqual([steps(i, "end") for i in range(3)], [[200]] * 3)
        self.assertTrue(all(step > 100 for step in steps(2, "step")), steps(2, "step"))
        self.assertLess(self.last_loss(self.output), 2.5)


class Refusals(ServerTest):
    def test_what_does_not_fit_is_named(self):
        for words, complaint in [
                ([*SERVERS], "cohort run --ps N"),
                ([*SERVERS, "--num_replicas", "2"], "--num_replicas is 2"),
                ([*SERVERS, "--sync_replicas=true", "--staleness", "3"], "--staleness is 3"),
                (["--staleness", "x"], "--staleness is 'x'"),
                (["--distribution_strategy", "off", "--staleness", "3"], "--staleness is a flag of parameter_server"),
                ([*SERVERS, "--dry_run"], "--num_ps"),
                ([*SERVERS, "--dry_run", "--num_ps", "2", "--clip_norm", "1"], "clip_norm 1")]:
            done = subprocess.run([MNIST, *words], capture_output=True, text=True, timeout=PATIENCE,
                                  env=self.environment(), cwd=self.folder)
            self.assertEqual(done.returncode, 2, f"{words}: {done.stderr}")
            self.assertIn(complaint, done.stderr)

    def test_a_loop_with_collectives_of_its_own_is_told(self):
        result = self.run_job("-n", 2, "--ps", 1, "--", LOOP, *SERVERS, "--max_steps", 1)
        self.assertNotEqual(result.code, 0)
        self.assertIn("workers form no group", result.stderr)


class DryRun(ServerTest):
    def test_prints_the_placement_and_trains_nothing(self):
        text = self.alone(*SERVERS, "--dry_run", "--num_ps", "2")
        self.assertIn("conv1.bias", text)
        self.assertNotIn("weights ", text)
        under_the_launcher = self.run_workers("-n", 1, "--ps", 2, "--", MNIST, *SERVERS, "--dry-run")
        self.assertIn("conv1.bias", under_the_launcher)


if __name__ == "__main__":
    unittest.main()
