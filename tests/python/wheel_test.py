"""The wheels that `make wheel` makes: what is in them, and that they work in clean virtual environments of every Python
that is here, from 3.9 on.

    wheel_test.py [WHEELS]    WHEELS: a folder that has them already
"""

import email
import glob
import io
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import zipfile

from needed_packages import need

need("auditwheel", "elftools", "scikit_build_core")

from elftools.elf.elffile import ELFFile  # noqa: E402

TREE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("COHORT_BIN_DIR", TREE / "build/bin")).parent
VERSIONS = [f"3.{minor}" for minor in range(9, 14)]
LIMIT = 10  # seconds for installing and a first job
# In the standard library alone: a clean environment has no numpy.
FIRST_JOB = ("import cohort; cohort.init(); "
             "print(cohort.size(), sorted(cohort.allgather_object(cohort.rank())), cohort.__file__); "
             "cohort.shutdown()")  # fmt: skip
ALIAS = ("import horovod.common.exceptions as e, cohort.common.exceptions as c, horovod; "
         "print(e is c, horovod.__version__)")  # fmt: skip


def run(*words, **options):
    return subprocess.run([str(word) for word in words], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=120, **options)  # fmt: skip


def interpreters():
    """The Pythons of VERSIONS that can be run here, by version."""
    found = {}
    root = os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv"))
    for version in VERSIONS:
        for path in (shutil.which(f"python{version}"), *sorted(glob.glob(f"{root}/versions/{version}.*/bin/python3"))):
            if path and run(path, "-c", "import venv, ctypes").returncode == 0:
                found[version] = path
                break
    return found


class Wheels(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory(prefix="cohort-wheel-")
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = pathlib.Path(temporary.name)
        wheels = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else cls.folder / "wheels"
        if not wheels.exists():
            made = run(TREE / "scripts/wheel", "--build", BUILD, "--output", wheels)
            assert made.returncode == 0, made.stdout
        cls.cohort, cls.horovod = (next(wheels.glob(f"cohort_{name}-*.whl")) for name in ("sdk", "horovod"))
        cls.version = re.search(r"project\(Cohort VERSION (\S+)", (TREE / "CMakeLists.txt").read_text())[1]
        cls.clean = {"PATH": "/usr/bin:/bin", "HOME": str(cls.folder), "PYTHONDONTWRITEBYTECODE": "1"}

    def metadata(self, wheel):
        with zipfile.ZipFile(wheel) as archive:
            name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
            return email.message_from_bytes(archive.read(name))

    def programs_and_libraries(self):
        with zipfile.ZipFile(self.cohort) as archive:
            for name in archive.namelist():
                data = archive.read(name)
                if data.startswith(b"\x7fELF"):
                    yield name, ELFFile(io.BytesIO(data))

    def test_one_wheel_for_every_python(self):
        machine = os.uname().machine
        self.assertRegex(self.cohort.name, rf"^cohort_sdk-{self.version}-py3-none-manylinux_2_\d+_{machine}\.whl$")
        self.assertEqual(self.horovod.name, f"cohort_horovod-{self.version}-py3-none-any.whl")
        for wheel in (self.cohort, self.horovod):
            metadata = self.metadata(wheel)
            self.assertEqual((metadata["Version"], metadata["Requires-Python"], metadata["License-Expression"]),
                             (self.version, ">=3.9", "Apache-2.0"))  # fmt: skip
        needed = [line for line in self.metadata(self.cohort).get_all("Requires-Dist", []) if "extra ==" not in line]
        self.assertEqual(needed, [])

    def test_both_have_the_license(self):
        for wheel in (self.cohort, self.horovod):
            with zipfile.ZipFile(wheel) as archive:
                names = [name for name in archive.namelist() if name.endswith("/LICENSE")]
                self.assertEqual([archive.read(name).decode() for name in names], [(TREE / "LICENSE").read_text()])

    def test_nothing_compiled_knows_a_python_or_a_framework(self):
        names = []
        for name, file in self.programs_and_libraries():
            names.append(name)
            needs = [tag.needed for tag in file.get_section_by_name(".dynamic").iter_tags("DT_NEEDED")]
            self.assertEqual([lib for lib in needs if re.search("python|torch|tensorflow|mpi", lib)], [], name)
            symbols = [symbol.name for symbol in file.get_section_by_name(".dynsym").iter_symbols()]
            self.assertEqual([symbol for symbol in symbols if re.match("_?Py[A-Z_]", symbol)], [], name)
        for name in ("bin/cohort", "lib/libcohort.so", "lib/libcohort_tensorflow.so"):
            self.assertIn(f"cohort/{name}", names)

    def test_what_other_machines_may_lack_is_inside_and_found(self):
        names = {pathlib.PurePath(name).name for name, _ in self.programs_and_libraries()}
        for name, file in self.programs_and_libraries():
            tags = list(file.get_section_by_name(".dynamic").iter_tags())
            needs = {tag.needed for tag in tags if tag.entry.d_tag == "DT_NEEDED"}
            paths = [getattr(tag, "rpath", None) or tag.runpath for tag in tags
                     if tag.entry.d_tag in ("DT_RPATH", "DT_RUNPATH")]  # fmt: skip
            self.assertTrue(all(path.startswith("$ORIGIN") for path in paths), f"{name}: {paths}")
            if needs & names:
                self.assertEqual(len(paths), 1, f"{name} needs {needs & names}")
        shown = run(sys.executable, "-m", "auditwheel", "show", self.cohort).stdout
        tag = re.search(r'platform tag: "manylinux_2_(\d+)_', " ".join(shown.split()))
        self.assertIsNotNone(tag, shown)
        if os.uname().machine == "x86_64" and os.confstr("CS_GNU_LIBC_VERSION") == "glibc 2.36":
            self.assertLessEqual(int(tag[1]), 34, "cmake/older_libstdcxx.cpp is there for this")

    def test_it_can_be_compiled_without_a_build_tree(self):
        """Configured, and not compiled, which takes minutes."""
        folder = self.folder / "compiled"
        made = run("cmake", "-G", "Ninja", "-S", TREE / "python", "-B", folder, "-DCOHORT_BUILT=OFF",
                   "-DSKBUILD_SCRIPTS_DIR=scripts")  # fmt: skip
        self.assertEqual(made.returncode, 0, made.stdout)
        steps = run("cmake", "--build", folder, "--target", "wheel_files", "--", "-n").stdout
        for linked in ("Linking CXX executable bin/cohort", "Linking CXX shared library lib/libcohort.so"):
            self.assertIn(linked, steps)
        self.assertNotRegex(steps, "torch_pch|gtest|_bench|mpi/")

    def test_a_clean_environment_runs_its_first_job_within_seconds(self):
        venv = self.folder / "first"
        made = run(sys.executable, "-m", "venv", venv)
        if made.returncode != 0:
            self.skipTest(f"{sys.executable} cannot make virtual environments: {made.stdout}")
        begin = time.monotonic()
        installed = run(venv / "bin/pip", "install", "--quiet", "--no-index", self.cohort, env=self.clean)
        self.assertEqual(installed.returncode, 0, installed.stdout)
        job = run(venv / "bin/cohort", "run", "-n", 2, "--", venv / "bin/python", "-c", FIRST_JOB, cwd=self.folder,
                  env=self.clean)  # fmt: skip
        seconds = time.monotonic() - begin
        self.assertEqual(job.returncode, 0, job.stdout)
        self.assertEqual(len(re.findall(rf"2 \[0, 1\] {re.escape(str(venv))}/lib/", job.stdout)), 2, job.stdout)
        self.assertLess(seconds, LIMIT)
        self.assertFalse(run(venv / "bin/python", "-c", "import horovod").returncode == 0, "it is off by default")
        print(f"installed, and ran a first job, in {seconds:.1f} s")

    def test_every_python(self):
        found = interpreters()
        print(f"Pythons here: {', '.join(found)}")
        for version, python in found.items():
            with self.subTest(version=version):
                venv = self.folder / version
                run(python, "-m", "venv", "--without-pip", venv)
                installed = run(sys.executable, "-m", "pip", "--python", venv / "bin/python", "install", "--quiet",
                                "--no-index", self.cohort, self.horovod)  # fmt: skip
                self.assertEqual(installed.returncode, 0, installed.stdout)
                job = run(venv / "bin/horovodrun", "-np", 2, venv / "bin/python", "-c", FIRST_JOB, cwd=self.folder,
                          env=self.clean)  # fmt: skip
                self.assertEqual(job.returncode, 0, job.stdout)
                self.assertEqual(len(re.findall(r"2 \[0, 1\] ", job.stdout)), 2, job.stdout)
                alias = run(venv / "bin/python", "-c", ALIAS, cwd=self.folder, env=self.clean)
                self.assertEqual(alias.stdout, f"True 0.28.1+cohort.{self.version}\n")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
