"""A Slurm cluster for tests: munged, slurmctld and three slurmd on this machine, in namespaces of their own.

usage: slurm_cluster.py COMMAND...    runs the command where there is such a cluster

The program that uses it runs once more inside of new network, mount and process namespaces (`enter`): the nodes n1, n2 and
n3 have names and addresses there, ports and the socket of munge are free, and all processes end with the namespace.
"""

import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time

NODES = ["n1", "n2", "n3"]
NEEDED = ["munged", "munge", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scancel", "scontrol", "unshare", "ip"]
INSIDE = "COHORT_TEST_IN_SLURM"
PATIENCE = 60
UNSHARE = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


def enter():
    """Runs this program again inside of namespaces; returns there. Ends with 77 and the reason where that cannot be."""
    if os.environ.get(INSIDE):
        reap_orphans_in_parent()
        return
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    missing = [name for name in NEEDED if not shutil.which(name)]
    if missing:
        skip(f"no {', '.join(missing)}: see tests/platform/install-servers")
    if os.geteuid() != 0:
        skip("the daemons of Slurm and their namespaces need root")
    tried = subprocess.run([*UNSHARE, "true"], capture_output=True, text=True)
    if tried.returncode:
        skip(f"no namespaces can be made here: {tried.stderr}")
    os.environ[INSIDE] = "1"
    os.execvp(UNSHARE[0], [*UNSHARE, sys.executable, *sys.argv])


def reap_orphans_in_parent():
    """The first process of a namespace gets the orphans of all others; Slurm waits until they are gone."""
    child = os.fork()
    while child:
        ended, status = os.wait()
        if ended == child:
            os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


class Cluster:
    """One cluster, in a folder of its own. `close` ends its daemons."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.daemons = {}
        self.configuration = self.folder / "slurm.conf"
        self.make_network()
        self.start_munge()
        self.configuration.write_text(self.text())
        os.environ["SLURM_CONF"] = str(self.configuration)
        self.start_controller()
        for node in NODES:
            self.start_node(node)
        self.wait_for(lambda: self.nodes() == {node: "idle" for node in NODES}, "all nodes to be idle")

    def make_network(self):
        run("mount", "--make-rprivate", "/")
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", "nodes", "type", "bridge")  # mpirun passes over lo
        run("ip", "link", "set", "nodes", "up")
        lines = ["127.0.0.1 localhost"]
        for number, node in enumerate(NODES, 1):
            run("ip", "address", "add", f"10.78.0.{number}/24", "dev", "nodes")
            lines.append(f"10.78.0.{number} {node}")
        hosts = self.folder / "hosts"
        hosts.write_text("\n".join([*lines, f"127.0.1.1 {socket.gethostname()}", ""]))
        run("mount", "--bind", str(hosts), "/etc/hosts")

    def start_munge(self):
        os.makedirs("/run/munge", exist_ok=True)
        run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run/munge")
        key = self.folder / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(os.urandom(128))
        self.start("munged", ["munged", "-F", f"--key-file={key}", f"--log-file={self.folder}/munged.log", "--force",
                              f"--seed-file={self.folder}/munge.seed", "--pid-file=/run/munge/munged.pid"])
        self.wait_for(lambda: subprocess.run(["munge", "-n"], capture_output=True).returncode == 0, "munged")

    def text(self):
        folder, host = self.folder, socket.gethostname()
        for name in ("state", "spool"):
            (folder / name).mkdir()
        # cred_expire is also how long a job waits that was put back into the queue.
        return f"""ClusterName=tests
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort=16817
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=cred_expire=5
CryptoType=crypto/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
ReturnToService=2
SlurmdTimeout=300
KillWait=3
MinJobAge=300
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0,sched_min_interval=0
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobRequeue=1
EnforcePartLimits=ALL
SlurmdParameters=config_overrides
NodeName=n1 NodeHostname={host} NodeAddr=n1 Port=17901 CPUs=4 RealMemory=1000
NodeName=n2 NodeHostname={host} NodeAddr=n2 Port=17902 CPUs=4 RealMemory=1000
NodeName=n3 NodeHostname={host} NodeAddr=n3 Port=17903 CPUs=4 RealMemory=1000
PartitionName=main Nodes=n[1-3] Default=YES PriorityTier=1 PreemptMode=REQUEUE OverSubscribe=NO State=UP
PartitionName=urgent Nodes=n[1-3] PriorityTier=10 OverSubscribe=NO State=UP
PartitionName=small Nodes=n1 MaxNodes=1 PriorityTier=1 State=UP
PartitionName=members Nodes=n1 AllowAccounts=members State=UP
"""

    def start(self, name, command):
        log = open(self.folder / f"{name}.said", "ab")
        self.daemons[name] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        log.close()

    def start_node(self, node):
        self.start(f"slurmd-{node}", ["slurmd", "-D", "-N", node])

    def start_controller(self):
        if "slurmctld" not in self.daemons or self.daemons["slurmctld"].poll() is not None:
            self.start("slurmctld", ["slurmctld", "-D"])

    def stop_controller(self):
        self.daemons["slurmctld"].terminate()
        self.daemons["slurmctld"].wait(PATIENCE)

    def kill(self, name):
        self.daemons[name].kill()
        self.daemons[name].wait()

    def nodes(self):
        said = run("sinfo", "--noheader", "--Node", "--format=%N %t", check=False)
        return dict(line.split() for line in said.splitlines() if line)

    def mend(self):
        """All nodes as at the beginning."""
        for node in NODES:
            if self.daemons[f"slurmd-{node}"].poll() is not None:
                self.start_node(node)
        run("scontrol", "update", f"nodename={','.join(NODES)}", "state=resume", check=False)
        self.wait_for(lambda: set(self.nodes().values()) <= {"idle", "mix", "alloc"}, "all nodes to be back")

    def jobs(self):
        """Slurm's jobs that have not ended: id to state."""
        said = run("squeue", "--noheader", "--format=%A %T", check=False)
        return dict(line.split() for line in said.splitlines() if line)

    def wait_for(self, condition, what):
        limit = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > limit:
                logs = [path.read_text(errors="replace")[-2000:] for path in self.folder.glob("slurm*.log")]
                raise AssertionError(f"waited in vain for {what}: {self.nodes()}\n" + "\n".join(logs))
            time.sleep(0.05)

    def close(self):
        for process in reversed(self.daemons.values()):
            if process.poll() is None:
                process.terminate()
        for process in self.daemons.values():
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def run(*words, check=True, **more):
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, **more)
    if check and done.returncode:
        raise AssertionError(f"{' '.join(words)}: {done.stderr}")
    return done.stdout


if __name__ == "__main__":
    enter()
    with tempfile.TemporaryDirectory(prefix="cohort-slurm-") as place:
        cluster = Cluster(place)
        try:
            code = subprocess.run(sys.argv[1:]).returncode
        finally:
            cluster.close()
    sys.exit(code)
