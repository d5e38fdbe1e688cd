"""An installed Cohort has the public headers (cmake/public_headers.txt) and what they include, nothing else;
each can be included by itself, and those that the documents and examples name are among them.

    public_headers_test.py SOURCE_DIR BUILD_DIR

The compiler itself says what a header includes: with the installed tree alone before it, it fails on one that
is missing. Programs are compiled against an installed tree by install_test (without LibTorch) and guide_test
(<cohort/cohort.h>).
"""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE, BUILD = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
LIMIT = 120  # seconds for one command


def run(*command):
    done = subprocess.run(command, text=True, timeout=LIMIT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


class PublicHeaders(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory(prefix="cohort-headers-")
        prefix = pathlib.Path(cls.scratch.name, "prefix")
        run("cmake", "--install", BUILD, "--prefix", prefix)
        cls.include = prefix / "include"
        cls.installed = {str(path.relative_to(cls.include)) for path in cls.include.rglob("*.h")}
        config = (prefix / "lib/cmake/Cohort/CohortConfig.cmake").read_text()
        cls.torch = re.search(r'set\(_cohort_torch_folder "(.*)"\)', config)[1]

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def listed(self):
        for line in (SOURCE / "cmake/public_headers.txt").read_text().splitlines():
            header, *condition = line.split()
            if header != "#" and (self.torch or condition != ["torch"]):
                yield header

    def included_by(self, header):
        """Installed headers that the compiler reads for one, itself too."""
        torch = [word for below in ("include", "include/torch/csrc/api/include")
                 for word in ("-isystem", f"{self.torch}/{below}")] if self.torch else []
        told = run("c++", "-std=c++20", "-M", "-x", "c++", f"-I{self.include}", *torch, self.include / header)
        return {str(path.relative_to(self.include)) for path in map(pathlib.Path, told.split())
                if path.is_relative_to(self.include)}

    def test_nothing_is_installed_that_no_public_header_includes(self):
        used = set().union(*map(self.included_by, self.listed()))
        self.assertEqual(self.installed - used, set())
        self.assertEqual(used - self.installed, set())

    def test_headers_that_documents_and_examples_name_are_installed(self):
        if not self.torch:
            self.skipTest("built without LibTorch")
        named = {}
        for page in [SOURCE / "README.md", *SOURCE.glob("docs/*.md")]:
            for header in re.findall(r"(?<![\w/])cohort/[\w/]+\.h\b", page.read_text()):
                named[header] = page
        for source in [*SOURCE.glob("examples/**/*.h"), *SOURCE.glob("examples/**/*.cpp")]:
            for header in re.findall(r"#include [<\"](cohort/[\w/]+\.h)", source.read_text()):
                named[header] = source
        self.assertIn("cohort/cohort.h", named)
        missing = {header: str(where.relative_to(SOURCE)) for header, where in named.items()
                   if header not in self.installed}
        self.assertEqual(missing, {})


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
