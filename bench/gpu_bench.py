"""How fast one GPU trains with Cohort, beside Python's eager loop and torch.compile on the same GPU.

Sections, each 20 to 60 s on an H200; --only chooses some:
  resnet128, resnet1024   ResNet-20 end to end with CIFAR-10's files and augmentation, --fast
  resnet_f32              the same at batch 128 in f32, one kernel at a time
  gpt                     GPT-2 of 124 M parameters, runs of 1024 tokens, --fast
  ranks                   2 and 4 processes on the one GPU (MPS), global batch 1024, beside torch DDP
  allreduce               64 MB between 2 processes on the one GPU (MPS), by each way, beside NCCL by torch
  deterministic           what the same bits cost: ResNet-20 and GPT with --deterministic true and false
  train                   ResNet-20 to the end: the original recipe of 182 epochs, and a shorter one (not by default)
  memory                  the most GPU memory of a process, beside Python's
  syncs                   calls by which the host waits for the GPU, a step

Speeds are the program's own, of each epoch after the first two; peers have their data on the GPU and no augmentation.
Verified: losses fall, and those of the first epoch, or of GPT's last steps, agree with the peer's. Without a GPU there
is nothing to measure: it says so and ends. --device cpu tries the sections with a few small steps; its figures mean
nothing.
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from jobs import ROOT
from targets import Targets

LIMIT = 300  # seconds for one program
PEER = ROOT / "bench" / "gpu" / "peer.py"
FILES = [f"data_batch_{i}.bin" for i in range(1, 6)]
IMAGES, IMAGE_BYTES = 10000, 3072  # of a file
VOCABULARY, SEQUENCE = 50304, 1024
WORDS = 64  # tokens that occur in the text: a model soon knows that, and its loss is their entropy
PEAK_FLOPS, GPT_FLOPS = 989e12, 6 * 124e6 + 12 * 12 * 768 * SEQUENCE  # of an H200 in bf16; a token's
SHARED_GPU = {"NCCL_MULTI_RANK_GPU_ENABLE": "1", "NCCL_NVLS_ENABLE": "0", "NCCL_MAX_CTAS": "4"}
PREFIX = re.compile(r"^\S+:\w+/\d+ ", re.MULTILINE)  # of a task's line


def fail(text):
    sys.exit(f"gpu_bench: {text}")


def has_gpu():
    if not shutil.which("nvidia-smi"):
        return False
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True)
    return listed.returncode == 0 and "GPU" in listed.stdout


def gpu_memory():
    """Bytes in use on the first GPU."""
    query = ["nvidia-smi", "-i", "0", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    return int(subprocess.run(query, capture_output=True, text=True, check=True).stdout) << 20


def run(command, environment=None):
    """Its standard output and standard error; ends the benchmark where it fails."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=LIMIT,
                          env={**os.environ, **(environment or {})})
    if done.returncode != 0:
        fail(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return PREFIX.sub("", done.stdout), done.stderr


class Epochs:
    """What a training program says at its end: a table of its epochs, and the totals."""

    def __init__(self, text):
        self.rows, columns = [], None
        for line in text.splitlines():
            if line.startswith("epoch ") and "samples/s" in line:
                columns = re.split(r"\s{2,}", line.strip())
            elif line.startswith(("best ", "total ")):
                columns = None
            elif columns and re.match(r"\s*\d", line):
                self.rows.append(dict(zip(columns, line.split())))
        total = re.search(r"^total .*?([\d.]+) samples/s", text, re.MULTILINE)
        waiting = re.search(r"([\d.]+)% waiting for data", text)
        if not total or not waiting:
            fail(f"no totals in what the program printed:\n{text[-2000:]}")
        self.total, self.waiting = float(total[1]), float(waiting[1]) / 100

    def column(self, name):
        """Of the epochs that are no warm-up; of all where there are no more."""
        rows = self.rows[2:] or self.rows
        return [float(row[name].rstrip("%")) for row in rows if name in row]

    def speeds(self):
        return self.column("samples/s") or [self.total]

    def data_share(self):
        shares = self.column("data")
        return statistics.median(shares) / 100 if shares else self.waiting

    def losses(self):
        return [float(row["loss"]) for row in self.rows]


class Bench:
    def __init__(self, arguments, folder):
        self.bin, self.python, self.device = arguments.bin.resolve(), arguments.python, arguments.device
        self.nccl, self.seconds, self.folder, self.keep = arguments.nccl, arguments.seconds, folder, arguments.keep
        self.tiny = arguments.device == "cpu"
        self.targets = Targets("gpu")
        self.compile = not arguments.no_compile
        self.cifar, self.text = None, None
        self.one_process = {}  # speed by batch size

    # Data

    def images(self):
        """CIFAR-10's folder; where it is not there, files of its layout."""
        if self.cifar:
            return self.cifar
        real = ROOT / "data" / "cifar-10-batches-bin"
        if all((real / name).exists() for name in [*FILES, "test_batch.bin"]):
            self.cifar = real
            return real
        print("gpu_bench: no data/cifar-10-batches-bin (scripts/get-data cifar10 data): images are noise, with a "
              "brightness that tells the class", flush=True)
        self.cifar = self.folder / "cifar"
        self.cifar.mkdir()
        shades = [bytes(value // 2 + 12 * label for value in range(256)) for label in range(10)]
        for name in [*FILES, "test_batch.bin"]:
            labels = os.urandom(IMAGES)
            with open(self.cifar / name, "wb") as out:
                for label in labels:
                    out.write(bytes([label % 10]) + os.urandom(IMAGE_BYTES).translate(shades[label % 10]))
        return self.cifar

    def tokens(self, samples):
        """A file of u16 tokens for so many samples of training, and its part to validate with."""
        if not self.text:
            sequence = 64 if self.tiny else SEQUENCE
            count = (samples * 20 // 19 + 2) * sequence + 1
            pairs = os.urandom(count).translate(bytes(value % WORDS for value in range(256)))
            both = bytearray(2 * count)
            both[0::2] = pairs
            self.text = self.folder / "tokens.bin"
            self.text.write_bytes(both)
        return self.text

    # Programs

    def resnet(self, batch, epochs, *flags, ranks=1, environment=None):
        command = [self.bin / "resnet_cifar", "--data_dir", self.images(), "--batch_size", batch, "--train_epochs",
                   epochs, "--device", self.device, *flags]
        if self.tiny:
            command += ["--max_steps", 2]
        if ranks > 1:
            command = [self.bin / "cohort", "run", "-q", "-n", ranks, "--output", tempfile.mkdtemp(dir=self.folder),
                       "--", *command, "--distribution_strategy", "multi_worker_mirrored",
                       *([] if self.tiny else ["--transport", "gpu"])]
        return run(command, environment)

    def gpt(self, batch, epochs, *flags):
        steps = 2 if self.tiny else 50
        sizes = (["--num_layers", 2, "--num_heads", 2, "--width", 64, "--sequence", 64, "--vocabulary", 512]
                 if self.tiny else ["--model_size", "124M", "--vocabulary", VOCABULARY])
        return run([self.bin / "gpt", "--data", self.tokens(batch * steps), *sizes, "--batch_size", batch,
                    "--train_epochs", epochs, "--learning_rate", 6e-4, "--warmup_steps", 10, "--clip_norm", 0,
                    "--sample", 0, "--device", self.device, *flags])

    def peer(self, what, mode, batch, *flags, ranks=1, environment=None):
        seconds = 1 if self.tiny else self.seconds
        command = [self.python, PEER, what, mode, batch, seconds, "--device", self.device, *flags]
        if self.tiny:
            command += ["--tiny", "--warmup", 2]
        if ranks > 1:
            command = [self.bin / "cohort", "run", "-q", "-n", ranks, "--output", tempfile.mkdtemp(dir=self.folder),
                       "--", *command]
        lines = [json.loads(line) for line in re.findall(r"measured ({.*})", run(command, environment)[0])]
        if len(lines) != ranks:
            fail(f"{len(lines)} of {ranks} peers printed what they measured")
        return min(lines, key=lambda line: line["rank"])

    def peers(self, name, what, batch, *flags):
        """The measurements by mode, each recorded."""
        found = {}
        for mode in ("eager", "compile") if self.compile else ("eager",):
            found[mode] = self.peer(what, mode, batch, *flags)
            self.targets.record(f"{name}_python_{mode}_per_second",
                                [found[mode]["samples_per_second"] * (SEQUENCE if what == "gpt" else 1)])
            print(f"{name}: Python {mode}: {found[mode]['samples_per_second']:.0f} samples/s, losses "
                  f"{found[mode]['first_loss']:.3f} to {found[mode]['last_loss']:.3f}", flush=True)
        return found

    def agree(self, name, ours, theirs, tolerance):
        if self.tiny:
            return
        if not abs(ours - theirs) <= tolerance * theirs:
            fail(f"{name}: the loss is {ours}, Python's {theirs}")

    def falls(self, name, losses):
        if not self.tiny and not losses[-1] < 0.9 * losses[0]:
            fail(f"{name}: the loss went from {losses[0]} to {losses[-1]}")

    @contextlib.contextmanager
    def shared_gpu(self):
        """The environment of processes that share the GPU at the same time; None where that cannot be."""
        if self.tiny:
            yield {}
            return
        if not shutil.which("nvidia-cuda-mps-control"):
            print("gpu_bench: no nvidia-cuda-mps-control: several processes on one GPU are not measured")
            yield None
            return
        environment = {**SHARED_GPU}
        for name in ("PIPE", "LOG"):
            (self.folder / f"mps-{name}").mkdir(exist_ok=True)
            environment[f"CUDA_MPS_{name}_DIRECTORY"] = str(self.folder / f"mps-{name}")
        if self.nccl:
            environment["LD_PRELOAD"] = str(self.nccl.resolve())
        daemon = {**os.environ, **{k: v for k, v in environment.items() if k.startswith("CUDA")}}
        subprocess.run(["nvidia-cuda-mps-control", "-d"], env=daemon, check=True, timeout=30)
        try:
            yield environment
        finally:
            subprocess.run(["nvidia-cuda-mps-control"], input="quit\n", text=True, env=daemon, timeout=60)

    # Sections

    def measure_resnet(self, name, batch, epochs, wanted, flags=("--fast",), precision="bf16"):
        epochs = Epochs(self.resnet(batch, epochs, *flags)[0])
        speeds = epochs.speeds()
        self.targets.record(f"{name}_images_per_second", speeds)
        print(f"{name}: Cohort: {statistics.median(speeds):.0f} images/s, losses {epochs.losses()}, waiting for data "
              f"{100 * epochs.data_share():.2f}%", flush=True)
        self.falls(name, epochs.losses())
        files = [self.images() / file for file in FILES[:1 if self.tiny else 5]]
        peers = self.peers(name, "resnet", batch, "--precision", precision, "--data", *files)
        for mode, peer in peers.items():
            if epochs.losses():
                self.agree(name, epochs.losses()[0], peer["first_loss"], 0.2)
            self.targets.record(f"{name}_of_python_{mode}",
                                [speed / peer["samples_per_second"] for speed in speeds])
        self.targets.expect(f"{name}_images_per_second", statistics.median(speeds), ">=", wanted)
        self.targets.expect(f"{name}_waiting_for_data", epochs.data_share(), "<", 0.02)
        return statistics.median(speeds)

    def resnet128(self):
        self.one_process[128] = self.measure_resnet("resnet128", 128, 14, 60e3)

    def resnet1024(self):
        self.one_process[1024] = self.measure_resnet("resnet1024", 1024, 24, 160e3)

    def resnet_f32(self):
        flags = ("--fast", "--precision", "f32", "--tf32", "false", "--channels_last", "false", "--cuda_graph", "off")
        compiled, self.compile = self.compile, False
        self.measure_resnet("resnet_f32", 128, 8, 25e3, flags, "f32")
        self.compile = compiled

    def gpt_speed(self):
        batch = 2 if self.tiny else 64
        epochs = Epochs(self.gpt(batch, 4, "--fast")[0])
        speeds = [speed * SEQUENCE for speed in epochs.speeds()]
        middle = statistics.median(speeds)
        self.targets.record("gpt_tokens_per_second", speeds)
        self.targets.record("gpt_share_of_peak_arithmetic", [middle * GPT_FLOPS / PEAK_FLOPS])
        print(f"gpt: Cohort: {middle:.0f} tokens/s, {100 * middle * GPT_FLOPS / PEAK_FLOPS:.0f}% of the arithmetic of "
              f"an H200, losses {epochs.losses()}", flush=True)
        self.falls("gpt", epochs.losses())
        peers = self.peers("gpt", "gpt", batch, "--data", self.text, "--warmup", 20)
        for mode, peer in peers.items():
            self.agree("gpt", epochs.losses()[-1], peer["last_loss"], 0.1)
            self.targets.record(f"gpt_of_python_{mode}",
                                [speed / SEQUENCE / peer["samples_per_second"] for speed in speeds])
        self.targets.expect("gpt_tokens_per_second", middle, ">=", 480e3)
        self.targets.expect("gpt_waiting_for_data", epochs.data_share(), "<", 0.02)

    def ranks(self):
        batch = 1024
        if batch not in self.one_process:
            self.one_process[batch] = statistics.median(Epochs(self.resnet(batch, 16, "--fast")[0]).speeds())
        files = [self.images() / file for file in FILES[:1 if self.tiny else 5]]
        with self.shared_gpu() as environment:
            if environment is None:
                return
            for ranks in (2,) if self.tiny else (2, 4):
                text = self.resnet(batch, 10, "--fast", ranks=ranks, environment=environment)[0]
                speeds = Epochs(text).speeds()
                middle = statistics.median(speeds)
                ddp = self.peer("ddp", "eager", batch, "--data", *files, ranks=ranks,
                                environment=environment)["samples_per_second"]
                print(f"ranks: {ranks} on one GPU: {middle:.0f} images/s, torch DDP {ddp:.0f}, one process "
                      f"{self.one_process[batch]:.0f}", flush=True)
                self.targets.record(f"ranks{ranks}_images_per_second", speeds)
                self.targets.record(f"ranks{ranks}_ddp_images_per_second", [ddp])
                self.targets.expect(f"ranks{ranks}_of_one_process", middle / self.one_process[batch], ">=", 0.9)
                self.targets.expect(f"ranks{ranks}_of_ddp", middle / ddp, ">=", 1.0)

    def all_reduce_speed(self, size, environment, *words):
        """The slower rank's bus bandwidth."""
        command = [self.bin / "cohort", "run", "-q", "-n", 2, "--output", tempfile.mkdtemp(dir=self.folder), "--",
                   self.bin / "gpu_bench_worker", size, 3, *words, "--device", self.device]
        return min(json.loads(line)["bus_gb_per_second"]
                   for line in re.findall(r"measured ({.*})", run(command, environment)[0]))

    def allreduce(self):
        size = 1 << 20 if self.tiny else 64 << 20
        with self.shared_gpu() as environment:
            if environment is None:
                return
            ways = ["host"] if self.tiny else ["ipc", "nccl", "host"] if self.nccl else ["ipc", "host"]
            speeds = {}
            for way in ways:
                for order in ("any-order", "tree"):
                    if self.tiny or way == "host" and order == "any-order":
                        continue
                    speeds[way, order] = self.all_reduce_speed(size, environment, "--transport", way,
                                                               *([order] if order == "any-order" else []))
                    self.targets.record(f"allreduce_{way}_{order}_bus_gb_per_second", [speeds[way, order]])
                    print(f"allreduce: {way}, {order}: {speeds[way, order]:.1f} GB/s", flush=True)
            if self.tiny:
                print(f"allreduce: {self.all_reduce_speed(size, environment):.1f} GB/s")
                return
            if not self.nccl:
                print("allreduce: no --nccl of 2.30 or newer: not compared with NCCL")
                return
            theirs = self.peer("allreduce", "eager", size, ranks=2, environment=environment)["bus_gb_per_second"]
        print(f"allreduce: NCCL by torch: {theirs:.1f} GB/s", flush=True)
        self.targets.record("allreduce_nccl_by_torch_bus_gb_per_second", [theirs])
        self.targets.expect("allreduce_of_nccl", max(speeds["ipc", "any-order"], speeds["nccl", "any-order"]) / theirs,
                            ">=", 0.95)
        self.targets.expect("allreduce_over_nccl_of_nccl", speeds["nccl", "any-order"] / theirs, ">=", 0.95)
        self.targets.expect("allreduce_deterministic_of_nccl",
                            max(speeds["ipc", "tree"], speeds["nccl", "tree"]) / theirs, ">=", 0.5)

    def deterministic(self):
        for name, program, flags in (("resnet", self.resnet, (128, 7)), ("gpt", self.gpt, (16, 4))):
            batch, epochs = (2, 1) if self.tiny else flags
            speeds = {wanted: statistics.median(Epochs(
                program(batch, epochs, "--fast", "--deterministic", wanted)[0]).speeds()) for wanted in ("true", "false")}
            ratio = speeds["true"] / speeds["false"]
            print(f"deterministic: {name}: {speeds['true']:.0f} samples/s, else {speeds['false']:.0f}", flush=True)
            self.targets.record(f"deterministic_{name}_samples_per_second", [speeds["true"]])
            self.targets.expect(f"deterministic_{name}_of_any", ratio, ">=", 0.9)

    def train(self):
        """Test accuracy at the end, and how long it took."""
        recipes = {
            "original": (91.5, 600, (128, 182)),
            "short": (91, 120, (512, 80, "--learning_rate", 0.3, "--cosine", "--warmup_steps", 300, "--weight_decay",
                                5e-4)),
        }
        for name, (wanted, seconds, flags) in recipes.items():
            begin = time.monotonic()
            text = self.resnet(*((2, 1) if self.tiny else flags), "--fast")[0]
            took = time.monotonic() - begin
            accuracy = [float(row["val_acc"].rstrip("%")) for row in Epochs(text).rows if "val_acc" in row]
            if not accuracy:
                fail(f"no test accuracy in what was printed:\n{text[-2000:]}")
            print(f"train: {name}: {accuracy[-1]}% (best {max(accuracy)}%) after {took:.0f} s", flush=True)
            if self.keep:
                (self.keep / f"train-{name}.txt").write_text(text)
            self.targets.record(f"train_{name}_accuracy", accuracy)
            self.targets.record(f"train_{name}_seconds", [took])
            self.targets.expect(f"train_{name}_test_accuracy", accuracy[-1], ">=", wanted)
            self.targets.expect(f"train_{name}_time", took, "<=", seconds)

    def peak_while(self, program):
        """The most memory in use on the GPU while the program runs, above what was in use before."""
        if self.tiny:
            program()
            return 1
        before, most, over = gpu_memory(), 0, threading.Event()

        def watch():
            nonlocal most
            while not over.wait(0.1):
                most = max(most, gpu_memory())

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            program()
        finally:
            over.set()
            thread.join()
        return most - before

    def memory(self):
        one_file = self.images() / FILES[0]
        batch = 2 if self.tiny else 64
        cases = {
            "resnet": (lambda: self.resnet(128, 4, "--fast"),
                       lambda: self.peer("resnet", "eager", 128, "--data", one_file)),
            "gpt": (lambda: self.gpt(batch, 1, "--fast"),
                    lambda: self.peer("gpt", "eager", batch, "--data", self.tokens(batch * 50), "--warmup", 5)),
        }
        for name, (ours, theirs) in cases.items():
            used, python = self.peak_while(ours), self.peak_while(theirs)
            print(f"memory: {name}: Cohort {used / 2**20:.0f} MiB, Python {python / 2**20:.0f} MiB", flush=True)
            self.targets.record(f"memory_{name}_bytes", [used])
            self.targets.record(f"memory_{name}_python_bytes", [python])
            self.targets.expect(f"memory_{name}_of_python", used / python, "<=", 1.0)

    def syncs(self):
        """Of the steps between two lengths of the same training, within an epoch."""
        counter = self.bin / "libgpu_sync_counter.so"
        lengths = (1, 3) if self.tiny else (100, 350)
        counts = []
        for steps in lengths:
            flags = ["--fast"] if self.tiny else ["--fast", "--max_steps", steps]
            _, errors = self.resnet(128, 1, *flags, environment={"LD_PRELOAD": str(counter)})
            found = re.search(r"gpu_syncs ({.*})", errors)
            if not found:
                fail(f"{counter} printed nothing")
            counts.append(json.loads(found[1]))
        each = {name: (counts[1][name] - counts[0][name]) / (lengths[1] - lengths[0]) for name in counts[0]}
        print(f"syncs: a step: {each}", flush=True)
        for name, count in each.items():
            self.targets.record(f"gpu_{name}_per_step", [count])
        self.targets.expect("gpu_syncs_per_step", each["stream"] + each["device"] + each["copies"], "<=", 0.01)


SECTIONS = {"resnet128": Bench.resnet128, "resnet1024": Bench.resnet1024, "resnet_f32": Bench.resnet_f32,
            "gpt": Bench.gpt_speed, "ranks": Bench.ranks, "allreduce": Bench.allreduce, "deterministic": Bench.deterministic,
            "memory": Bench.memory, "syncs": Bench.syncs, "train": Bench.train}
DEFAULT = [name for name in SECTIONS if name != "train"]  # which takes minutes


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(DEFAULT), help="sections, with commas between them")
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build" / "bin", help="folder of the programs")
    parser.add_argument("--python", default=sys.executable, help="a Python with torch for CUDA, for the peers")
    parser.add_argument("--nccl", type=pathlib.Path, help="libnccl.so.2 of 2.30 or newer: ranks that share a GPU")
    parser.add_argument("--seconds", type=float, default=8, help="that a peer is measured")
    parser.add_argument("--keep", type=pathlib.Path, help="folder for what the programs of section train print")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    arguments = parser.parse_args()
    sections = arguments.only.split(",")
    for name in sections:
        if name not in SECTIONS:
            parser.error(f"there is no section '{name}'; there are {', '.join(SECTIONS)}")
    if arguments.device == "cuda" and not has_gpu():
        print("gpu_bench: this machine has no GPU: nothing is measured")
        return
    if subprocess.run([arguments.python, "-c", "import torch"], capture_output=True).returncode != 0:
        parser.error(f"{arguments.python} has no torch: give --python")
    with tempfile.TemporaryDirectory(prefix="gpu-bench-") as folder:
        bench = Bench(arguments, pathlib.Path(folder))
        for name in sections:
            begin = time.monotonic()
            SECTIONS[name](bench)
            print(f"gpu_bench: {name} took {time.monotonic() - begin:.0f} s", flush=True)
        bench.targets.finish()


main()
