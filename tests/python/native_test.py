"""python/cohort/native.py mirrors src/cohort/capi/cohort_c.h: every function, struct, field, number and callback."""

import ctypes
import pathlib
import re
import sys
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "python"))

from cohort import native  # noqa: E402
from cohort.common import requests, signals  # noqa: E402

HEADER = re.sub(r"/\*.*?\*/", " ", (SOURCE / "src/cohort/capi/cohort_c.h").read_text(), flags=re.DOTALL)
ENUMS = {"cohort_status": native.Status, "cohort_dtype": native.DType, "cohort_op": native.Op,
         "cohort_kind": native.Kind}  # fmt: skip
STRUCTS = {
    "cohort_join_options": native.JoinOptions, "cohort_job_info": native.JobInfo,
    "cohort_world_options": native.WorldOptions, "cohort_world_info": native.WorldInfo, "cohort_tensor": native.Tensor,
    "cohort_request": native.Request, "cohort_shard_node": native.ShardNode,
}  # fmt: skip
SCALARS = {"int32_t": ctypes.c_int32, "int64_t": ctypes.c_int64, "uint64_t": ctypes.c_uint64, "double": ctypes.c_double,
           "size_t": ctypes.c_size_t, "cohort_status": ctypes.c_int32, "void": None}  # fmt: skip
POINTERS = {  # to what is used as a pointer in Python, where it is more than an address
    "const char*": [ctypes.c_char_p],
    "int32_t*": [ctypes.POINTER(ctypes.c_int32)],
    "const int32_t*": [ctypes.POINTER(ctypes.c_int32)],
    "const int64_t**": [ctypes.POINTER(ctypes.POINTER(ctypes.c_int64))],
    "cohort_shard_node*": [ctypes.POINTER(native.ShardNode)],
    **{f"{prefix}{name}*": [ctypes.POINTER(struct)] for name, struct in STRUCTS.items() for prefix in ("", "const ")},
}


def is_mirrored(text, python):
    """Whether a type in ctypes is that of the header."""
    text = " ".join(text.replace("*", "* ").split()).replace(" *", "*")
    if text in SCALARS:
        return python is SCALARS[text]
    if text in ("cohort_interrupt_check", "cohort_allocate", "cohort_done"):
        return python in (signals.CHECK, ctypes.c_void_p)
    if text.endswith("**") and text not in POINTERS:
        return python is ctypes.POINTER(ctypes.c_void_p)
    return python is ctypes.c_void_p or python in POINTERS.get(text, [])


def declarations(text):
    """(type, name) of `int32_t a, b; const char* c;` or of a list of parameters."""
    for line in filter(str.strip, text.split(";")):
        first, *others = line.split(",")
        kind, name = re.fullmatch(r"\s*(.*?[\s*])(\w+)\s*", first, re.DOTALL).groups()
        yield kind.strip(), name
        for other in others:
            yield kind.strip(), other.strip()


class Mirror(unittest.TestCase):
    def test_every_number(self):
        found = re.findall(r"typedef enum (\w+) \{(.*?)\}", HEADER, re.DOTALL)
        self.assertEqual({name for name, _ in found}, set(ENUMS))
        for name, body in found:
            numbers = {key: int(value) for key, value in re.findall(r"COHORT_(\w+)\s*=\s*(\d+)", body)}
            self.assertEqual(numbers, {member.name: member.value for member in ENUMS[name]}, name)
        self.assertIn(f"#define COHORT_ABI_VERSION {native.ABI_VERSION}\n", HEADER)
        for kind in native.Kind:
            self.assertEqual(getattr(requests, kind.name), kind)

    def test_every_struct_field_by_field(self):
        found = re.findall(r"typedef struct (\w+) \{(.*?)\} \w+;", HEADER, re.DOTALL)
        self.assertEqual({name for name, _ in found}, set(STRUCTS))
        for name, body in found:
            fields = STRUCTS[name]._fields_
            expected = list(declarations(body))
            self.assertEqual([field[0] for field in fields], [name for _, name in expected], name)
            for (kind, field), (_, python) in zip(expected, fields):
                self.assertTrue(is_mirrored(kind, python), f"{name}.{field} is {kind}, not {python}")

    def test_every_function_with_its_types(self):
        found = re.findall(r"^(?!typedef)(\w[\w ]*[ *]+)(cohort_\w+)\(([^)]*)\);", HEADER, re.MULTILINE | re.DOTALL)
        self.assertEqual({name for _, name, _ in found}, set(native.FUNCTIONS))
        for result, name, parameters in found:
            python_result, python = native.FUNCTIONS[name]
            self.assertTrue(is_mirrored(result.strip(), python_result), f"{name} returns {result}")
            expected = [] if parameters == "void" else [next(declarations(one)) for one in parameters.split(",")]
            self.assertEqual(len(expected), len(python), name)
            for (kind, parameter), one in zip(expected, python):
                self.assertTrue(is_mirrored(kind, one), f"{parameter} of {name} is {kind}, not {one}")

    def test_item_sizes_by_dtype(self):
        bits = [int(re.sub(r"\D", "", member.name) or 8) // 8 for member in native.DType]
        self.assertEqual(list(requests.ITEM_SIZE), bits)


if __name__ == "__main__":
    unittest.main()
