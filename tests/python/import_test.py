"""`import cohort` is quick, imports no numpy and no framework, and what it exports is there."""

import subprocess
import sys
import unittest

import jobs

MEASURE = """
import sys, time
started = time.perf_counter()
import cohort
print(time.perf_counter() - started, *({"numpy", "torch", "tensorflow", "ctypes"} & set(sys.modules)))
"""
MISSING = """
import cohort
try:
    cohort.init()
except ImportError as error:
    print(error)
"""


class Import(unittest.TestCase):
    def python(self, program, **variables):
        env = jobs.environment(**variables)
        return subprocess.run([sys.executable, "-c", program], env=env, text=True, stdout=subprocess.PIPE, check=True,
                              timeout=60).stdout  # fmt: skip

    def test_it_takes_less_than_a_tenth_of_a_second_and_loads_nothing(self):
        found = [self.python(MEASURE).split() for _ in range(5)]
        self.assertEqual([modules for _, *modules in found], [[]] * 5)
        self.assertLess(min(float(seconds) for seconds, *_ in found), 0.1)

    def test_every_name_is_there(self):
        found = self.python("import cohort as c; print(all(hasattr(c, name) for name in c.__all__), hasattr(c, 'x'))")
        self.assertEqual(found, "True False\n")

    def test_a_library_that_is_missing_or_wrong_is_named_with_what_to_do(self):
        for path in ("/no/such.so", __file__):
            said = self.python(MISSING, COHORT_LIBRARY=path)
            self.assertTrue(said.startswith(f"{path} cannot be loaded: ") and "COHORT_LIBRARY" in said, said)


if __name__ == "__main__":
    unittest.main()
