#!/usr/bin/env python3
"""Fails on tracked files that do not belong in a public tree.

usage: tree_test.py [SOURCE_DIR]

No path of one machine, no source file past 500 lines, no file past 1 MB. First proves that
each check can fail.
"""

import pathlib
import re
import subprocess
import sys

MAX_LINES = 500
MAX_BYTES = 1_000_000
SOURCES = {".h", ".cpp", ".py", ".cmake", ".sh", ".ts", ".tsx", ".mjs", ""}
EXEMPT_FROM_LENGTH = {"LICENSE", "web/src/api/schema.d.ts"}  # one text as it is, one generated
# Folders where checkouts and homes lie; built from parts, so that this file does not match itself.
HOMES = r"/(?:" + "|".join(["work", "root", "home", "Users"]) + r")/[\w.]+"


def machine_paths(checkout):
    """Matches absolute paths of homes and of this checkout; "/src" alone could be anything."""
    places = [HOMES] + ([re.escape(checkout)] if checkout.count("/") > 1 else [])
    return re.compile(r"(?<![\w.:/}$-])(?:" + "|".join(places) + r")(?![\w-])")


def check_file(name, data, paths):
    if len(data) > MAX_BYTES:
        yield f"{name}: {len(data)} bytes, more than {MAX_BYTES}; fetch it by a script instead"
    if b"\0" in data:
        return
    lines = data.decode("utf-8", errors="replace").splitlines()
    if pathlib.PurePath(name).suffix in SOURCES and name not in EXEMPT_FROM_LENGTH:
        if len(lines) > MAX_LINES:
            yield f"{name}: {len(lines)} lines, more than {MAX_LINES}; look for the second thing in it"
    for number, line in enumerate(lines, 1):
        for path in paths.findall(line):
            yield f"{name}:{number}: names a path of one machine: {path}"


def self_test():
    home = "/".join(["", "home", "ann"])
    paths = machine_paths("/x/tree")
    assert not [*check_file("a.cpp", b"int x;\n" * MAX_LINES, paths)]
    near = ["/".join(words) for words in (["https:", "", "x.org", "home", "page"], ["$HOME", "work", "x"], ["a", "root", "b"])]
    assert not [*check_file("a.md", " ".join(near).encode() + b"\n", paths)]
    assert not [*check_file("a.md", b"src/tree /tree/ (/tree)\n", machine_paths("/tree"))]
    assert [*check_file("a.cpp", b"int x;\n" * (MAX_LINES + 1), paths)]
    assert [*check_file("a.md", f'"{home}/data"\n'.encode(), paths)]
    assert [*check_file("a.md", b"see /x/tree/build\n", paths)]
    assert [*check_file("a.bin", b"\0" * (MAX_BYTES + 1), paths)]


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent).resolve()
    self_test()
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=root,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)  # fmt: skip
    if listed.returncode != 0:
        print("tree: not a git checkout, nothing to check")
        return 0
    names = [name for name in listed.stdout.decode().split("\0") if name and (root / name).is_file()]
    paths = machine_paths(str(root))
    complaints = [c for name in names for c in check_file(name, (root / name).read_bytes(), paths)]
    print("\n".join(complaints) or f"tree: {len(names)} files are fit to publish")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
