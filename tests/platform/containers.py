"""A real podman with a storage of its own, for tests: nothing of it is left on the machine.

Where setting limits is not allowed (no CAP_SYS_RESOURCE), containers are started through a runc that leaves limits as
they are. The image is made of files of this machine: busybox and the programs that a test names, with their libraries.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile

APPLETS = "sh cat echo env id ls mkdir sleep touch".split()
IMAGE = "localhost/cohort-test"
LIMIT = 60  # s, for a call of podman
RUNC = """#!{python} -IS
import json, os, sys
words = sys.argv[1:]
for number, word in enumerate(words):
    bundle = words[number + 1] if word == "--bundle" else word.removeprefix("--bundle=")
    if word.startswith("--bundle"):
        path = os.path.join(bundle, "config.json")
        with open(path) as file:
            config = json.load(file)
        config["process"].pop("rlimits", None)
        with open(path, "w") as file:
            json.dump(config, file)
os.execv({runc!r}, ["runc", *words])
"""


def find(program):
    return shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


class Podman:
    """`tool` is what COHORT_CONTAINER_TOOL says. `lacks` is why containers cannot run here, or None."""

    def __init__(self, folder, programs=()):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir()
        missing = [name for name in ("podman", "runc", "busybox") if not find(name)]
        if missing:
            self.lacks = f"{', '.join(missing)} not installed (tests/platform/install-servers)"
            return
        wrapper = self.folder / "runc"
        wrapper.write_text(RUNC.format(python=sys.executable, runc=find("runc")))
        wrapper.chmod(0o755)
        self.words = [find("podman"), "--root", str(self.folder / "root"), "--runroot", str(self.folder / "run"),
                      "--storage-driver", "vfs", "--cgroup-manager", "cgroupfs", "--runtime", str(wrapper)]  # fmt: skip
        self.tool = " ".join(self.words)
        self.lacks = self.make_image(programs) or self.try_it()

    def call(self, *words):
        return subprocess.run([*self.words, *words], capture_output=True, text=True, timeout=LIMIT)

    def make_image(self, programs):
        archive = self.folder / "image.tar"
        with tarfile.open(archive, "w") as tar:
            tar.add(find("busybox"), "bin/busybox")
            for applet in APPLETS:
                link = tarfile.TarInfo(f"bin/{applet}")
                link.type, link.linkname = tarfile.SYMTYPE, "busybox"
                tar.addfile(link)
            for program in programs:
                tar.add(os.path.realpath(program), f"bin/{pathlib.Path(program).name}")
            for library in {library for program in programs for library in libraries_of(program)}:
                tar.add(os.path.realpath(library), library)
            for name in ("data", "proc", "run", "tmp"):
                entry = tarfile.TarInfo(name)
                entry.type, entry.mode = tarfile.DIRTYPE, 0o1777
                tar.addfile(entry)
        made = self.call("import", str(archive), IMAGE)
        archive.unlink()
        return f"podman makes no image here: {last_line(made.stderr)}" if made.returncode else None

    def try_it(self):
        tried = self.call("run", "--rm", "--network", "host", "--pid", "host", "--ipc", "host", IMAGE, "sh", "-c", ":")
        return f"podman runs no containers here: {last_line(tried.stderr)}" if tried.returncode else None

    def containers(self):
        """Names of all that there are, also of those that have ended."""
        listed = self.call("ps", "--all", "--format", "json")
        return sorted(name for container in json.loads(listed.stdout) for name in container["Names"])

    def remove(self):
        if self.lacks is None:
            self.call("rm", "--all", "--force", "--time", "0")
        shutil.rmtree(self.folder, ignore_errors=True)


def libraries_of(program):
    said = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return re.findall(r"(/\S+) \(0x", said)


def last_line(text):
    return (text.strip().splitlines() or ["it says nothing"])[-1]
