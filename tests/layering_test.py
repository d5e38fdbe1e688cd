#!/usr/bin/env python3
"""Fails on an include that the module table of docs/architecture.md does not allow.

usage: layering_test.py [SOURCE_DIR]

Checks, for every file of src/cohort: includes of other modules against the table; quoted includes
are written "cohort/module/file.h" and exist; LibTorch headers only where the table says yes (and in
the probe); no cycle between modules; USES of each cohort_module() against the table; the table
itself is in layering order; no cycle between the folders of a module (what a folder holds directly
is one of them); no cycle between files, where a header and its source count as one. Tests may
include what they like of their module. First proves, on a small tree of its own, that each check
can fail.
"""

import pathlib
import re
import sys
import tempfile

TORCH_HEADER = re.compile(r"(torch|ATen|c10|caffe2)/")
TORCH_PROBE = "src/cohort/tools/torch_probe.cpp"
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


class Module:
    def __init__(self, uses, torch):
        self.uses = uses
        self.torch = torch


def parse_table(text):
    """The table of the section "Modules": {name: Module}, in its order."""
    section = re.search(r"^## Modules$(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    if not section:
        raise ValueError('docs/architecture.md has no section "Modules"')
    rows = [
        [cell.strip() for cell in line.strip().strip("|").split("|")]
        for line in section.group(1).splitlines()
        if line.startswith("|")
    ]
    if len(rows) < 3:
        raise ValueError("the module table of docs/architecture.md is empty")
    header = rows[0]
    name, uses, torch = (header.index(title) for title in ("module", "may use", "LibTorch"))
    return {
        row[name].strip("`"): Module(set(re.findall(r"[a-z_]+", row[uses])), row[torch] == "yes")
        for row in rows[2:]
    }


def check_table(table):
    above = set()
    for name, module in table.items():
        for used in sorted(module.uses - above):
            yield f"docs/architecture.md: {name} may use {used}, which is not a module above it"
        above.add(name)


def includes_of(path):
    text = path.read_text(encoding="utf-8", errors="replace")
    for match in INCLUDE.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, match.group(1) == '"', match.group(2)


def check_includes(root, table, edges):
    """Yields complaints; fills edges with {(from module, to module): where}."""
    for path in sorted((root / "src/cohort").rglob("*")):
        if path.suffix not in (".h", ".cpp"):
            continue
        name = path.relative_to(root).as_posix()
        parts = path.relative_to(root / "src/cohort").parts
        own = parts[0] if len(parts) > 1 else None  # none: src/cohort/cohort.h, made for users
        if own is not None and own not in table:
            yield f"{name}: module {own} is not in the table of docs/architecture.md"
            continue
        for line, quoted, included in includes_of(path):
            where = f"{name}:{line}"
            if TORCH_HEADER.match(included):
                if own and not table[own].torch and name != TORCH_PROBE:
                    yield f"{where}: {own} may not include LibTorch ({included})"
            elif included.startswith("cohort/"):
                used = included.split("/")[1] if included.count("/") > 1 else None
                source = root / "src" / included
                generated = source.with_name(source.name + ".in").exists()
                if not source.exists() and not generated:
                    yield f"{where}: {included} does not exist"
                elif used is not None and used not in table:
                    yield f"{where}: {used} is not a module of the table"
                elif own and used and used != own:
                    edges.setdefault((own, used), where)
                    if used not in table[own].uses:
                        yield f"{where}: {own} may not include {used} ({included})"
            elif quoted:
                yield f'{where}: write "cohort/module/file.h" instead of "{included}"'


def is_test(name):
    return re.search(r"_test\.(h|cpp)$", name) is not None


def inner_edges(root):
    """Include edges inside modules, of folders and of files: two sets of pairs."""
    folders, files = set(), set()
    for path in sorted((root / "src/cohort").rglob("*")):
        if path.suffix not in (".h", ".cpp") or is_test(path.name):
            continue
        source = path.relative_to(root / "src")
        for _, _, included in includes_of(path):
            target = pathlib.PurePosixPath(included)
            if target.parts[:2] != source.parts[:2]:
                continue
            if source.parent.as_posix() != target.parent.as_posix():
                folders.add((source.parent.as_posix(), target.parent.as_posix()))
            if source.with_suffix("").as_posix() != target.with_suffix("").as_posix():
                files.add((source.with_suffix("").as_posix(), target.with_suffix("").as_posix()))
    return folders, files


def cycle_through(graph, start):
    """The shortest way from start to itself, or None."""
    ways = [[start]]
    seen = set()
    for way in ways:  # grows
        for target in sorted(graph.get(way[-1], ())):
            if target == start:
                return way + [start]
            if target not in seen:
                seen.add(target)
                ways.append(way + [target])
    return None


def check_cycles(edges):
    """Modules, folders or files that reach themselves over include edges: each cycle once."""
    graph = {}
    for source, target in edges:
        graph.setdefault(source, set()).add(target)
    told = set()
    for start in sorted(graph):
        cycle = cycle_through(graph, start)
        if cycle and not told.intersection(cycle):
            yield "cycle: " + " -> ".join(cycle)
            told.update(cycle)


def check_cmake(root, table):
    for path in sorted((root / "src/cohort").glob("*/CMakeLists.txt")):
        for match in re.finditer(r"cohort_module\((\w+)([^)]*)\)", path.read_text()):
            name, arguments = match.groups()
            uses = re.search(r"\bUSES\b([a-z_\s]*)", arguments)
            allowed = table[name].uses if name in table else set()
            for used in uses.group(1).split() if uses else ():
                if used not in allowed:
                    yield f"{path.relative_to(root)}: {name} may not use {used}"


def check_tree(root):
    table = parse_table((root / "docs/architecture.md").read_text(encoding="utf-8"))
    edges = {}
    complaints = [*check_table(table), *check_includes(root, table, edges)]
    folders, files = inner_edges(root)
    cycles = [*check_cycles(edges), *check_cycles(folders), *check_cycles(files)]
    return complaints + cycles + [*check_cmake(root, table)]


GOOD_TREE = {
    "docs/architecture.md": "## Modules\n| module | may use | LibTorch |\n|---|---|---|\n"
    "| `base` | – | no |\n| `cluster` | base | no |\n| `train` | base | yes |\n",
    "src/cohort/base/a.h": "#pragma once\n",
    "src/cohort/cluster/b.h": '#include <vector>\n#include "cohort/base/a.h"\n',
    "src/cohort/cluster/CMakeLists.txt": "cohort_module(cluster\n  SOURCES b.cpp\n  USES base)\n",
    "src/cohort/train/c.cpp": '#include <torch/torch.h>\n#include "cohort/base/a.h"\n',
    "src/cohort/train/e.h": "",
    "src/cohort/train/e.cpp": '#include "cohort/train/e.h"\n#include "cohort/train/in/f.h"\n',
    "src/cohort/train/e_test.h": "",
    "src/cohort/train/in/f.h": "",
    "src/cohort/train/in/f_test.cpp": '#include "cohort/train/e.h"\n',
}
BAD_CHANGES = [
    ("src/cohort/base/a.h", '#include "cohort/cluster/b.h"\n', "base may not include cluster"),
    ("src/cohort/base/a.h", '  #  include "cohort/cluster/b.h"\n', "cycle: base"),
    ("src/cohort/train/in/g.h", '#include "cohort/train/e.h"\n', "cycle: cohort/train -> "),
    ("src/cohort/train/in/f.h", '#include "cohort/train/e.h"\n', "cycle: cohort/train/e -> "),
    ("src/cohort/cluster/b.h", "#include <torch/torch.h>\n", "may not include LibTorch"),
    ("src/cohort/cluster/b.h", "#include <ATen/ATen.h>\n", "may not include LibTorch"),
    ("src/cohort/cluster/b.h", '#include "cohort/base/gone.h"\n', "does not exist"),
    ("src/cohort/cluster/b.h", '#include "b.h"\n', "write "),
    ("src/cohort/other/d.h", "", "not in the table"),
    ("src/cohort/cluster/CMakeLists.txt", "cohort_module(cluster USES base train)", "may not use"),
    ("docs/architecture.md", GOOD_TREE["docs/architecture.md"].replace("| – |", "| train |"),
     "not a module above it"),
]  # fmt: skip


def check_tree_of(files):
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text, encoding="utf-8")
        return check_tree(root)


def self_test():
    assert check_tree_of(GOOD_TREE) == [], check_tree_of(GOOD_TREE)
    for name, text, expected in BAD_CHANGES:
        complaints = check_tree_of({**GOOD_TREE, name: text})
        assert any(expected in complaint for complaint in complaints), (name, text, complaints)


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent)
    self_test()
    complaints = check_tree(root)
    print("\n".join(complaints) or "layering: every include is allowed")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
