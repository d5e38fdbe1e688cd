"""The command line: layouts, environments, dry run, job files, and every mistake that is refused."""

import json
import os
import subprocess
import unittest

from launcher import COHORT, LauncherTest

PRINT_ENVIRONMENT = """
import glob, json, os, sys, time
print(json.dumps({"env": dict(os.environ), "argv": sys.argv[1:]}), flush=True)
# Servers are stopped as soon as the last worker has left: wait until all tasks have printed.
folder = os.environ["COHORT_OUTPUT"]
open(f"{folder}/{os.environ['TASK_TYPE']}-{os.environ['TASK_INDEX']}.printed", "w").close()
expected = sum(map(len, json.loads(os.environ["TF_CONFIG"])["cluster"].values()))
while len(glob.glob(f"{folder}/*.printed")) < expected: time.sleep(0.01)
"""


class Environments(LauncherTest):
    def environments(self, *words, env=None):
        """What each task found: {"worker/0": {"env": ..., "argv": ...}}."""
        result = self.run_job(*words, *self.python(PRINT_ENVIRONMENT), env=env)
        self.assertEqual(result.code, 0, result.stderr)
        found = {}
        for task in result.record()["tasks"]:
            name = f"{task['type']}/{task['index']}"
            found[name] = json.loads(result.log(name))
        return found

    def test_every_task_gets_all_dialects(self):
        found = self.environments("-n", 2, "--ps", 1, "--strategy", "parameter_server")
        self.assertEqual(set(found), {"worker/0", "worker/1", "ps/0"})
        worker = found["worker/1"]["env"]
        config = json.loads(worker["TF_CONFIG"])
        self.assertEqual(config["task"], {"type": "worker", "index": 1})
        self.assertEqual(config["environment"], "cloud")
        self.assertEqual(len(config["cluster"]["worker"]), 2)
        self.assertEqual(len(config["cluster"]["ps"]), 1)
        expected = {"TASK_TYPE": "worker", "TASK_INDEX": "1", "RANK": "1", "WORLD_SIZE": "2",
                    "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "0",
                    "TORCHELASTIC_RESTART_COUNT": "0", "HOROVOD_RANK": "1", "HOROVOD_SIZE": "2",
                    "HOROVOD_LOCAL_RANK": "1", "HOROVOD_CONTROLLER": "gloo",
                    "COHORT_TASK_TYPE": "worker", "COHORT_TASK_INDEX": "1", "COHORT_RANK": "1",
                    "COHORT_SIZE": "2", "COHORT_STRATEGY": "parameter_server",
                    "COHORT_OUTPUT": str(self.output)}
        for name, value in expected.items():
            self.assertEqual(worker.get(name), value, name)
        for name in ("MASTER_ADDR", "MASTER_PORT", "COHORT_JOB", "COHORT_STORE", "TORCHELASTIC_RUN_ID"):
            self.assertIn(name, worker)
        for name in ("HOROVOD_GLOO_RENDEZVOUS_PORT", "COHORT_HOROVOD_RENDEZVOUS"):
            self.assertNotIn(name, worker)
        server = found["ps/0"]["env"]
        self.assertNotIn("RANK", server)
        self.assertEqual(server["CUDA_VISIBLE_DEVICES"], "")

    def test_horovods_rendezvous_runs_only_where_it_is_asked_for(self):
        worker = self.environments("-n", 1, "--horovod")["worker/0"]["env"]
        self.assertEqual(worker["COHORT_HOROVOD_RENDEZVOUS"], f"127.0.0.1:{worker['HOROVOD_GLOO_RENDEZVOUS_PORT']}")
        refused = self.run_job("-n", 1, "--horovod", "--hosts", "node1", "--", "true")
        self.assertEqual(refused.code, 2)
        self.assertIn("--horovod and hosts exclude each other", refused.stderr)

    def test_the_secret_is_not_in_the_environment_or_on_the_command_line(self):
        result = self.run_job("-n", 1, *self.python("""
import os
secret = os.pread(int(os.environ["COHORT_SECRET_FD"]), 4096, 0).decode().strip()
assert len(secret) >= 32
everything = " ".join(os.environ.values()) + open("/proc/self/cmdline").read()
assert secret not in everything
"""))
        self.assertEqual(result.code, 0, result.stderr)

    def test_colocated_layout(self):
        found = self.environments("-n", 4, "--layout", "colocated", "--chief-name", "master")
        self.assertEqual(set(found), {"master/0", "worker/0", "worker/1", "worker/2",
                                      "ps/0", "ps/1", "ps/2", "ps/3"})
        cluster = json.loads(found["master/0"]["env"]["TF_CONFIG"])["cluster"]
        self.assertEqual([len(cluster[job]) for job in ("master", "worker", "ps")], [1, 3, 4])
        self.assertEqual(found["master/0"]["env"]["RANK"], "0")

    def test_chief_name_makes_the_first_worker_the_chief(self):
        found = self.environments("-n", 4, "--chief-name", "chief")
        self.assertEqual(set(found), {"chief/0", "worker/0", "worker/1", "worker/2"})
        self.assertEqual(found["worker/2"]["env"]["RANK"], "3")

    def test_a_coordinator_has_no_rank(self):
        found = self.environments("-n", 2, "--ps", 1, "--coordinator", "--success", "all-workers")
        self.assertNotIn("RANK", found["chief/0"]["env"])
        self.assertEqual(found["worker/1"]["env"]["WORLD_SIZE"], "2")

    def test_scheduler_args_are_appended(self):
        found = self.environments("-n", 2, "--ps", 1, "--scheduler-args")
        text = " ".join(found["worker/1"]["argv"]).replace("=", " ")
        self.assertIn("--job_name worker", text)
        self.assertIn("--task_index 1", text)
        self.assertRegex(text, r"--ps_hosts 127\.0\.0\.1:\d+")
        self.assertRegex(text, r"--worker_hosts 127\.0\.0\.1:\d+,127\.0\.0\.1:\d+")

    def test_roles_of_an_outer_job_do_not_leak_in(self):
        found = self.environments("-n", 1, "--ps", 1, env={
            "TF_CONFIG": "garbage{", "RANK": "7", "WORLD_SIZE": "9", "OMPI_COMM_WORLD_RANK": "3"})
        self.assertEqual(found["worker/0"]["env"]["RANK"], "0")
        json.loads(found["worker/0"]["env"]["TF_CONFIG"])
        self.assertNotIn("RANK", found["ps/0"]["env"])
        self.assertNotIn("OMPI_COMM_WORLD_RANK", found["worker/0"]["env"])

    def test_proxies_are_bypassed_stripped_or_kept(self):
        proxy = {"http_proxy": "http://proxy:3128", "no_proxy": "intern.example"}
        env = self.environments("-n", 1, env=proxy)["worker/0"]["env"]
        self.assertEqual(env["http_proxy"], "http://proxy:3128")
        for name in ("no_proxy", "NO_PROXY", "no_grpc_proxy"):
            self.assertIn("127.0.0.1", env[name].split(","))
            self.assertIn("localhost", env[name].split(","))
        self.assertIn("intern.example", env["no_proxy"].split(","))
        self.output = self.folder / "strip"
        env = self.environments("-n", 1, "--proxy", "strip", env=proxy)["worker/0"]["env"]
        self.assertNotIn("http_proxy", env)
        self.output = self.folder / "keep"
        env = self.environments("-n", 1, "--proxy", "keep", env=proxy)["worker/0"]["env"]
        self.assertEqual(env["no_proxy"], "intern.example")

    def test_threads_are_shared_out_unless_already_set(self):
        cores = len(os.sched_getaffinity(0))
        env = self.environments("-n", 2, env={"OMP_NUM_THREADS": "13"})["worker/0"]["env"]
        self.assertEqual(env["OMP_NUM_THREADS"], "13")
        self.output = self.folder / "unset"
        base = {k: v for k, v in os.environ.items()}
        os.environ.pop("OMP_NUM_THREADS", None)
        self.addCleanup(os.environ.update, base)
        env = self.environments("-n", 2)["worker/0"]["env"]
        self.assertEqual(env["OMP_NUM_THREADS"], str(max(1, cores // 2)))
        self.output = self.folder / "asked"
        env = self.environments("-n", 2, "--threads-per-task", 5)["worker/0"]["env"]
        self.assertEqual(env["OMP_NUM_THREADS"], "5")

    def test_gpus_are_dealt_out(self):
        found = self.environments("-n", 2, "--ps", 1, "--gpus-per-worker", 2,
                                  env={"CUDA_VISIBLE_DEVICES": "4,5,6,7"})
        self.assertEqual(found["worker/0"]["env"]["CUDA_VISIBLE_DEVICES"], "4,5")
        self.assertEqual(found["worker/1"]["env"]["CUDA_VISIBLE_DEVICES"], "6,7")
        self.assertEqual(found["ps/0"]["env"]["CUDA_VISIBLE_DEVICES"], "")

    def test_env_reaches_every_task(self):
        found = self.environments("-n", 2, "--env", "A=1", "--env", "B=x=y")
        for task in found.values():
            self.assertEqual((task["env"]["A"], task["env"]["B"]), ("1", "x=y"))


class DryRun(LauncherTest):
    def test_prints_environment_and_command_and_starts_nothing(self):
        result = subprocess.run(
            self.command("-n", 2, "--ps", 1, "--dry-run", "--", "touch", self.folder / "started"),
            env=self.environment(), cwd=self.folder, capture_output=True, text=True, timeout=60)
        self.assertEqual(result.returncode, 0, result.stderr)
        for text in ("# worker/0 on", "# worker/1 on", "# ps/0 on", "TF_CONFIG=", "WORLD_SIZE=2",
                     f"touch {self.folder}/started"):
            self.assertIn(text, result.stdout)
        self.assertFalse((self.folder / "started").exists())
        self.assertFalse(self.output.exists())

    def test_the_printed_command_runs_in_a_shell(self):
        text = subprocess.run(self.command("-n", 1, "--dry-run", "--", "sh", "-c", "echo rank=$RANK"),
                              env=self.environment(), cwd=self.folder, capture_output=True,
                              text=True, timeout=60).stdout
        ran = subprocess.run(["sh", "-c", text], capture_output=True, text=True, timeout=60)
        self.assertEqual(ran.stdout, "rank=0\n")


    def test_what_a_task_must_not_see_is_taken_out(self):
        text = subprocess.run(
            self.command("--proxy", "strip", "--dry-run", "--", "sh", "-c", "echo [$http_proxy]"),
            env=self.environment(http_proxy="http://proxy:3128"), cwd=self.folder,
            capture_output=True, text=True, timeout=60).stdout
        ran = subprocess.run(["sh", "-c", text], env=self.environment(http_proxy="http://proxy:3128"),
                             capture_output=True, text=True, timeout=60)
        self.assertEqual(ran.stdout, "[]\n")


class JobFile(LauncherTest):
    def write(self, text):
        path = self.folder / "job.toml"
        path.write_text(text)
        return path

    def test_keys_are_those_of_the_command_line_which_wins(self):
        path = self.write('workers = 3\nps = 1\nchief_name = "chief"\ngrace = 1.5\n'
                          'program = ["sh", "-c", "echo $WORD $TASK_TYPE"]\n[env]\nWORD = "hey"\n')
        result = self.run_job("--config", path, "--ps", 0, "--env", "WORD=ho")
        self.assertEqual(result.code, 0, result.stderr)
        record = result.record()
        self.assertEqual([t["type"] for t in record["tasks"]], ["chief", "worker", "worker"])
        self.assertEqual(result.log("chief/0"), b"ho chief\n")

    def assert_refused(self, text, *expected):
        path = self.write(text)
        result = subprocess.run([COHORT, "run", "--config", str(path), "--", "true"],
                                capture_output=True, text=True, cwd=self.folder, timeout=60)
        self.assertEqual(result.returncode, 2, result.stderr)
        for words in expected:
            self.assertIn(words, result.stderr)

    def test_false_turns_a_flag_off_and_is_no_number(self):
        path = self.write('evaluator = false\nprogram = "true"\n')
        result = self.run_job("--config", path)
        self.assertEqual(len(result.record()["tasks"]), 1, result.stderr)
        self.assert_refused("workers = false", "job.toml", "--workers")

    def test_hosts_of_the_command_line_replace_those_of_the_file(self):
        path = self.write('hosts = ["localhost:1"]\nprogram = "true"\n')
        result = subprocess.run(self.command("--config", path, "--hosts", "localhost:2", "-n", 3),
                                capture_output=True, text=True, cwd=self.folder, timeout=60)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("2 slots, but 3 workers", result.stderr)

    def test_a_folder_is_refused(self):
        result = subprocess.run([COHORT, "run", "--config", str(self.folder), "--", "true"],
                                capture_output=True, text=True, cwd=self.folder, timeout=60)
        self.assertEqual(result.returncode, 2)
        self.assertIn("is a folder", result.stderr)

    def test_an_unknown_key_is_refused_with_the_nearest_known_one(self):
        self.assert_refused("workers = 2\nwrokers = 3\n", "job.toml line 2", "unknown key 'wrokers'",
                            "Did you mean 'workers'?")

    def test_broken_toml_is_refused_with_its_place(self):
        self.assert_refused("workers = [2\nps = 1\n", "job.toml line 2")

    def test_a_wrong_value_is_refused_with_the_files_name(self):
        self.assert_refused('workers = "four"\n', "job.toml", "four")

    def test_a_missing_file_is_named(self):
        result = subprocess.run([COHORT, "run", "--config", "nowhere.toml", "--", "true"],
                                capture_output=True, text=True, timeout=60)
        self.assertEqual(result.returncode, 2)
        self.assertIn("nowhere.toml", result.stderr)


class Mistakes(LauncherTest):
    def assert_refused(self, words, *expected):
        result = subprocess.run(self.command(*words), env=self.environment(), cwd=self.folder,
                                capture_output=True, text=True, timeout=60)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        for text in expected:
            self.assertIn(text, result.stderr)
        self.assert_nothing_left()

    def test_program_not_found(self):
        self.assert_refused(["--", "no-such-program"], "no-such-program", "not found in PATH")
        self.assert_refused(["--", "./no-such-program"], "'./no-such-program' not found")

    def test_program_not_executable(self):
        script = self.script("print(1)", "train.py")
        self.assert_refused(["--", script], "is not executable", f"cohort run -- python3 {script}")

    def test_program_without_interpreter(self):
        script = self.script("echo no shebang", "script")
        os.chmod(script, 0o755)
        self.assert_refused(["-n", 2, "--", script], "#!")
        script = self.script("#!/no/such/interpreter\n", "script2")
        os.chmod(script, 0o755)
        self.assert_refused(["--", script], "interpreter")

    def test_no_program(self):
        self.assert_refused(["-n", 2], "no program to run", "--")
        self.assert_refused(["-n", 2, "python3", "x.py"], "unexpected 'python3'", "behind --")

    def test_zero_workers(self):
        self.assert_refused(["-n", 0, "--", "true"], "--workers must be at least 1, got 0", "-n 1")

    def test_numbers_out_of_range(self):
        for value in ("nan", "inf", "1e30", "-1"):
            self.assert_refused([f"--grace={value}", "--", "true"], f"--grace must be from 0 to 604800 seconds, got {value.replace('1e30', '1e+30')}")
        self.assert_refused(["-n", 4, "--gpus-per-worker", 1000000, "--", "true"], "needs 4000000 GPUs")

    def test_a_current_folder_that_was_deleted(self):
        gone = self.folder / "gone"
        gone.mkdir()
        result = subprocess.run(
            ["sh", "-c", f'cd {gone}; rmdir {gone}; exec "$@"', "sh", *self.command("--", "./nowhere")],
            capture_output=True, text=True, timeout=60)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("current folder has been deleted", result.stderr)

    def test_a_ps_strategy_without_ps(self):
        self.assert_refused(["--strategy", "parameter_server", "--", "true"], "--ps is 0", "--ps 1")

    def test_output_folder_that_cannot_be_made(self):
        blocker = self.script("", "file")
        self.output = os.path.join(blocker, "out")
        self.assert_refused(["--", "true"], blocker, "--output DIR")

    def test_an_unknown_option_names_the_nearest(self):
        self.assert_refused(["--wokers", 2, "--", "true"], "--wokers", "--workers")

    def test_hosts_are_checked_before_anything_starts(self):
        self.assert_refused(["--hosts", "node1.invalid:4,node2.invalid:4", "--", "true"],
                            "node1.invalid", "--address")
        self.assert_refused(["--hosts", "node1:1", "--address", "10.0.0.1", "--remote-shell", "'ssh", "--", "true"],
                            "is not closed")
        self.assert_refused(["--hosts", "-oProxyCommand=x", "--", "true"], "no name of a host")
        hostfile = self.script("# cluster\nlocalhost slots=2\nfarhost\n", "hosts")
        self.assert_refused(["--hostfile", hostfile, "--", "true"], "farhost")
        self.assert_refused(["--hosts", "me@localhost", "--", "true"], "user name", "localhost")
        self.assert_refused(["-n", 4, "--hosts", "localhost:2", "--", "true"], "2 slots", "4 workers")

    @unittest.skipUnless(os.geteuid() == 0, "a network of its own needs root")
    def test_a_loopback_interface_that_is_down(self):
        command = ["unshare", "-n", *self.command("-n", 2, "--", "true")]
        result = subprocess.run(command, env=self.environment(), cwd=self.folder,
                                capture_output=True, text=True, timeout=60)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("ip link set lo up", result.stderr)

    def test_contradictions(self):
        self.assert_refused(["--coordinator", "--layout", "colocated", "--", "true"], "--coordinator")
        self.assert_refused(["-n", 2, "--ps", 3, "--layout", "colocated", "--", "true"], "--ps is 3")
        self.assert_refused(["--chief-name", "master", "--evaluator", "--", "true"], "master")
        self.assert_refused(["--chief-name", "boss", "--", "true"], "boss", "chief")
        self.assert_refused(["--show", "wroker:0", "--", "true"], "wroker")
        self.assert_refused(["--env", "NOVALUE", "--", "true"], "NOVALUE")
        self.assert_refused(["-n", 2, "--gpus-per-worker", 4, "--", "true"], "needs 8 GPUs")
        self.assert_refused(["--strategy", "paramter_server", "--", "true"], "Did you mean parameter_server?")
        self.assert_refused(["--show", "worker:2", "-n", 2, "--", "true"], "worker:2", "from 0 to 1")
        self.assert_refused(["--show", "ps", "--", "true"], "--show ps", "has 0")

    def test_values_that_are_not_numbers_or_out_of_range(self):
        self.assert_refused(["-n", "many", "--", "true"], "--workers 'many' is not a number")
        self.assert_refused(["--grace", "--", "true"], "--grace needs a value")
        self.assert_refused(["--threads-per-task", 0, "--", "true"], "--threads-per-task must be at least 1, got 0")
        self.assert_refused(["--gpus-per-worker", -1, "--", "true"], "--gpus-per-worker must be at least 0, got -1")
        job = self.script("[env]\nGOOD = 1\nBAD = true\n", "job.toml")
        self.assert_refused(["--config", job, "--", "true"], "line 3", "env.BAD", "quotes")


class Commands(unittest.TestCase):
    def cohort(self, *words):
        return subprocess.run([COHORT, *words], capture_output=True, text=True, timeout=60)

    def test_version_and_help(self):
        self.assertRegex(self.cohort("--version").stdout, r"^cohort \d+\.\d+\.\d+\n$")
        self.assertIn("Examples:", self.cohort("--help").stdout)
        text = self.cohort("run", "--help").stdout
        self.assertIn("Examples:", text)
        for option in ("--workers", "--ps", "--evaluator", "--chief-name", "--coordinator",
                       "--layout", "--strategy", "--output", "--success", "--grace",
                       "--max-restarts", "--task-restarts", "--env", "--scheduler-args", "--gpus-per-worker",
                       "--threads-per-task", "--proxy", "--dry-run", "--config", "--hosts",
                       "--hostfile", "--show"):
            self.assertIn(option, text)
        self.assertEqual(self.cohort().returncode, 2)
        self.assertIn("cohort run?", self.cohort("rn").stderr)

    def test_doctor_examines_the_machine(self):
        result = self.cohort("doctor", "--json")
        self.assertEqual(result.returncode, 0, result.stdout)
        subjects = {finding["subject"] for finding in json.loads(result.stdout)}
        self.assertLessEqual({"cores", "memory", "open files", "ports", "LibTorch", "MPI", "GPUs"},
                             subjects)
        self.assertIn("ready", self.cohort("doctor").stdout)
        self.assertEqual(self.cohort("doctor", "--jsno").returncode, 2)

    def test_completion_is_a_script_that_completes(self):
        script = self.cohort("completion", "bash").stdout
        script += '\nCOMP_WORDS=(cohort run --max-re); COMP_CWORD=2; _cohort; echo "${COMPREPLY[@]}"'
        result = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60)
        self.assertEqual(result.stdout.split(), ["--max-restarts"])
        script += '\nCOMP_WORDS=(cohort run --layout ""); COMP_CWORD=3; _cohort; echo "${COMPREPLY[@]}"'
        result = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60)
        self.assertEqual(result.stdout.splitlines()[-1], "separate colocated")
        self.assertIn("complete -c cohort", self.cohort("completion", "fish").stdout)
        self.assertEqual(self.cohort("completion", "tcsh").returncode, 2)


if __name__ == "__main__":
    unittest.main()
