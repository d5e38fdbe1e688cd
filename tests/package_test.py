"""The installed CMake package and LibTorch: which one it takes, what it says where none fits.

    package_test.py BUILD_DIR

The outside projects are configured, not built, in a clean environment. Most LibTorches here are made
up: a header with a version and an empty library are all that is looked at. What the package remembers
of the one that Cohort was built with is replaced by one of these, so that no real one is ever taken.
"""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path(sys.argv[1]).resolve()
PATH = "/usr/local/bin:/usr/bin:/bin"
LIMIT = 120  # seconds for one configure


def make_torch(folder, version, header="torch/headeronly/version.h"):
    """The folder of a LibTorch, as far as the package looks at it."""
    api = folder / "include/torch/csrc/api/include/torch"
    api.mkdir(parents=True)
    (api / "torch.h").write_text("#pragma once\n")
    (api / "version.h").write_text("#include <torch/headeronly/version.h>\n")
    (folder / "include" / header).parent.mkdir(parents=True, exist_ok=True)
    (folder / "include" / header).write_text("".join(
        f"#define TORCH_VERSION_{name} {number}\n"
        for name, number in zip(("MAJOR", "MINOR", "PATCH"), version.split("."))))
    (folder / "lib").mkdir()
    (folder / "lib/libtorch.so").touch()
    (folder / "share/cmake/Torch").mkdir(parents=True)
    return folder


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory(prefix="cohort-package-")
        cls.folder = pathlib.Path(cls.scratch.name)
        cls.prefix = cls.folder / "prefix"
        subprocess.run(["cmake", "--install", BUILD, "--prefix", cls.prefix], check=True,
                       stdout=subprocess.DEVNULL)
        cls.config = cls.prefix / "lib/cmake/Cohort/CohortConfig.cmake"
        installed = cls.config.read_text()
        cls.has_torch = 'set(_cohort_torch_version "")' not in installed
        cls.remembered = make_torch(cls.folder / "remembered", "9.8.7")
        for name, value in (("version", "9.8.7"), ("folder", cls.remembered)):
            installed, count = re.subn(rf'set\(_cohort_torch_{name} ".*"\)',
                                       f'set(_cohort_torch_{name} "{value}")', installed)
            assert count == 1, f"CohortConfig.cmake does not set _cohort_torch_{name}"
        cls.config.write_text(installed)

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def configure(self, find, *arguments, prefixes=(), forget=False):
        """(exit code, output) of a project that finds the package and prints which LibTorch it got."""
        project = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        (project / "CMakeLists.txt").write_text(f"""cmake_minimum_required(VERSION 3.25)
project(Outside LANGUAGES CXX)
find_package(Cohort 0.1 {find})
foreach(target base cluster collective collective_mpi cohort)
  if(TARGET Cohort::${{target}})
    message(STATUS "has-${{target}}")
  endif()
endforeach()
if(TARGET Cohort::torch)
  get_target_property(folders Cohort::torch INTERFACE_LINK_DIRECTORIES)
  message(STATUS "uses=${{folders}}")
endif()
""")
        if forget:
            self.remembered.rename(self.folder / "gone")
        try:
            done = subprocess.run(
                ["cmake", "-G", "Ninja", "-B", project / "out", "-S", project,
                 f"-DCMAKE_PREFIX_PATH={';'.join(map(str, [self.prefix, *prefixes]))}", *arguments],
                text=True, timeout=LIMIT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                env={"HOME": str(project), "PATH": PATH})
        finally:
            if forget:
                (self.folder / "gone").rename(self.remembered)
        return done.returncode, done.stdout, " ".join(done.stdout.split())

    def expect_uses(self, folder, answer):
        code, output, _ = answer
        self.assertEqual(code, 0, output)
        self.assertIn("has-cohort\n", output)
        self.assertIn(f"uses={folder}/lib\n", output)

    def need_torch(self):
        if not self.has_torch:
            self.skipTest("built without LibTorch")

    def test_takes_the_libtorch_that_cohort_was_built_with(self):
        self.need_torch()
        self.expect_uses(self.remembered, self.configure("REQUIRED COMPONENTS cohort"))

    def test_takes_torch_dir_and_prefixes_first(self):
        self.need_torch()
        other = make_torch(self.folder / "other", "9.8.7", "torch/csrc/api/include/torch/version.h")
        self.expect_uses(other, self.configure("REQUIRED COMPONENTS cohort",
                                               f"-DTorch_DIR={other}/share/cmake/Torch"))
        self.expect_uses(other, self.configure("REQUIRED COMPONENTS cohort",
                                               prefixes=[other / "share/cmake"]))

    def test_refuses_a_torch_dir_of_another_release(self):
        self.need_torch()
        older = make_torch(self.folder / "older", "9.7.0")
        code, output, words = self.configure("REQUIRED COMPONENTS cohort",
                                             f"-DTorch_DIR={older}/share/cmake/Torch")
        self.assertNotEqual(code, 0)
        self.assertIn("Cohort::cohort needs LibTorch 9.8.7, which this Cohort was built with", words)
        self.assertIn(f"{older} has LibTorch 9.7.0, not 9.8.7", words)
        # Among prefixes, which are there for other packages too, it is passed over.
        self.expect_uses(self.remembered,
                         self.configure("REQUIRED COMPONENTS cohort", prefixes=[older]))

    def test_says_once_what_to_do_where_there_is_no_libtorch(self):
        self.need_torch()
        code, output, words = self.configure("REQUIRED COMPONENTS cohort", forget=True)
        self.assertNotEqual(code, 0)
        self.assertEqual(output.count("CMake Error"), 1, output)
        self.assertNotIn("Warning", output)
        self.assertIn(f"{self.remembered} has no LibTorch any more", words)
        self.assertIn("-DTorch_DIR=TORCH/share/cmake/Torch", words)
        # Who names no components gets what there is.
        code, output, words = self.configure("REQUIRED", forget=True)
        self.assertEqual(code, 0, output)
        self.assertIn("has-cluster\n", output)
        self.assertNotIn("has-cohort\n", output)
        self.assertNotIn("Warning", output)
        self.assertIn("no Cohort::cohort, as there is no LibTorch 9.8.7", words)

    def test_says_that_cohort_was_built_without_libtorch(self):
        if self.has_torch:
            self.skipTest("built with LibTorch")
        code, _, words = self.configure("REQUIRED COMPONENTS cohort")
        self.assertNotEqual(code, 0)
        self.assertIn("Cohort::cohort needs LibTorch, and this Cohort was built without it", words)

    def test_looks_for_neither_libtorch_nor_mpi_unless_a_component_needs_them(self):
        code, output, _ = self.configure("REQUIRED COMPONENTS cluster collective", "--trace", forget=True)
        self.assertEqual(code, 0, output[-3000:])
        self.assertIn("has-collective\n", output)
        for name in ("FindMPI.cmake", "CohortTorch.cmake", "CohortTorchTargets.cmake"):
            self.assertNotRegex(output, rf"/{name}\(\d+\):")

    def test_names_the_components_that_there_are(self):
        code, _, words = self.configure("REQUIRED COMPONENTS clutser")
        self.assertNotEqual(code, 0)
        self.assertIn("Cohort has no component clutser; those that need no LibTorch are: base, cluster,", words)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
