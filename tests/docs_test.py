#!/usr/bin/env python3
"""Fails when README.md, CONTRIBUTING.md or docs/*.md name a path or a command that is not there.

usage: docs_test.py [SOURCE_DIR [BUILD_DIR]]

Checks relative links and their anchors; paths in `code` or in a shell block; and, as a first word
of `code` or of a shell line: make TARGET (in the Makefile, bench-NAME also in bench/benchmarks.txt),
cohort SUBCOMMAND --flags (in the program's --help), cmake and ctest --preset NAME,
scripts/NAME --flags (in its --help), build/bin/PROGRAM. First proves, on a small tree of its own,
that each check can fail.
"""

import functools
import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

SHELL_LANGUAGES = {"", "sh", "bash", "shell", "console"}
GENERATED = {"build", "build-dev", "build-asan", "build-tsan", "cohort-output", ".venv", ".venv-frameworks"}
PATH = re.compile(r"\.?[A-Za-z0-9_*][\w.*+-]*(/[\w.*+-]+)*/?")


def snippets(text):
    """Yields (line number, "code" | "shell", text) of all code in a Markdown text."""
    language, block, before_is_blank, indented = None, [], True, False
    for number, line in enumerate(text.splitlines(), 1):
        fence = re.match(r"\s*```+\s*(\w*)", line)
        if fence and language is None:
            language, block = fence.group(1), []
        elif fence:
            if language in SHELL_LANGUAGES:
                yield from shell_lines(block)
            language = None
        elif language is not None:
            block.append((number, line.strip()))
        else:
            indented = line.startswith("    ") and (before_is_blank or indented)
            if indented:
                yield number, "shell", line.strip()
            else:
                for match in re.finditer(r"(?<!`)`([^`]+)`(?!`)", line):
                    yield number, "code", match.group(1)
            before_is_blank = not line.strip()


def shell_lines(block):
    """Where a block has prompts, the lines without one are output."""
    with_prompt = any(line.startswith("$ ") for _, line in block)
    continued = False
    for number, line in block:
        if continued or not with_prompt or line.startswith("$ "):
            yield number, "shell", line
            continued = line.endswith("\\")


def links(text):
    text = re.sub(r"```.*?```", lambda block: "\n" * block.group(0).count("\n"), text, flags=re.DOTALL)
    for match in re.finditer(r"\]\(([^)\s]+)\)|(?:src|href)=\"([^\"]+)\"", text):
        yield text.count("\n", 0, match.start()) + 1, match.group(1) or match.group(2)


def anchors(path):
    for title in re.findall(r"^#+\s+(.*)$", path.read_text(encoding="utf-8"), re.MULTILINE):
        yield re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-")


def commands(line):
    """The simple commands of a shell line, each as words, without assignments and prompts."""
    try:
        words = shlex.split(line.removeprefix("$ "), comments=True)
    except ValueError:
        return
    command = []
    for word in [*words, ";"]:
        if word in ("&&", "||", "|", ";", "&"):
            while command and (re.fullmatch(r"\w+=.*", command[0]) or command[0] in ("sudo", "time")):
                command.pop(0)
            if command:
                yield command
            command = []
        elif word.endswith(";"):
            command.append(word[:-1])
        else:
            command.append(word)


class Checker:
    def __init__(self, root, build):
        self.root, self.build = root, build
        makefile = root / "Makefile"
        self.targets = set()
        if makefile.exists():
            self.targets = set(re.findall(r"^([\w%-]+):(?!=)", makefile.read_text(), re.MULTILINE))

    @functools.cache
    def help_of(self, program, *arguments):
        """What `program arguments --help` prints; None when that fails."""
        if not program.exists():
            return None
        done = subprocess.run([program, *arguments, "--help"], text=True, timeout=30, cwd=self.root,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
        return done.stdout if done.returncode == 0 else None

    @functools.cache
    def presets(self, kind):
        return {preset["name"] for preset in json.loads((self.root / "CMakePresets.json").read_text())[kind]}

    def missing_flags(self, words, help_text):
        for word in words:
            if word == "--":
                return
            flag = word.split("=")[0]
            if re.fullmatch(r"--?[A-Za-z][\w-]*", flag):
                if not re.search(rf"(?<![\w-]){re.escape(flag)}(?![\w-])", help_text):
                    yield flag

    def check_make(self, words):
        for word in words:
            if word.startswith("-") or "=" in word or word in ("…", "..."):
                continue
            if word.startswith("bench-") and "bench-%" in self.targets:
                listed = (self.root / "bench/benchmarks.txt").read_text()
                if not re.search(rf"^{re.escape(word[6:])}\s", listed, re.MULTILINE):
                    yield f"bench/benchmarks.txt has no {word[6:]}"
            elif word not in self.targets:
                yield f"the Makefile has no target {word}"

    def check_cohort(self, words):
        program = self.build / "bin/cohort"
        top = self.help_of(program)
        if top is None:
            yield "build/bin/cohort --help does not run: build first"
        elif words and re.fullmatch(r"[a-z][a-z-]*", words[0]):
            sub_help = self.help_of(program, words[0])
            if not re.search(rf"^\s+{words[0]}\b", top, re.MULTILINE) or sub_help is None:
                yield f"cohort has no subcommand {words[0]}"
            else:
                for flag in self.missing_flags(words[1:], sub_help):
                    yield f"cohort {words[0]} has no option {flag}"
        else:
            for flag in self.missing_flags(words, top):
                yield f"cohort has no option {flag}"

    def check_command(self, words):
        name = words[0]
        if name == "make":
            yield from self.check_make(words[1:])
        elif name in ("cohort", "build/bin/cohort", "./build/bin/cohort"):
            yield from self.check_cohort(words[1:])
        elif name in ("cmake", "ctest") and "--preset" in words[:-1]:
            kind = {"cmake": "configurePresets", "ctest": "testPresets"}[name]
            preset = words[words.index("--preset") + 1]
            if preset not in self.presets(kind):
                yield f"CMakePresets.json has no {preset} among its {kind}"
        elif name.startswith("scripts/") and len(words) > 1 and (self.root / name).exists():
            for flag in self.missing_flags(words[1:], self.help_of(self.root / name) or ""):
                yield f"{name} has no option {flag}"

    def check_path(self, word, base, is_code):
        """`word` is a path of the tree when it looks like one; then it must exist."""
        word = word.removeprefix("./")
        if not PATH.fullmatch(word) or "/" not in word:
            return
        first = word.split("/")[0]
        if first in GENERATED:
            program = re.fullmatch(r"build/bin/([\w.-]+)", word)
            if program and not (self.build / "bin" / program.group(1)).exists():
                yield f"{word} is not built"
            return
        looks_like_path = (self.root / first).is_dir()
        if is_code:
            looks_like_path |= bool(re.search(r"(/|\.(md|h|cpp|cmake|py|txt|toml|json))$", word))
        if looks_like_path and not first.isupper():
            roots = (self.root, base, self.root / "src", self.root / "src/cohort")
            if not any(any(root.glob(word.rstrip("/"))) for root in roots):
                yield f"{word} does not exist"

    def check_link(self, target, path):
        if re.match(r"[a-z]+:|//", target):
            return
        name, _, anchor = target.partition("#")
        linked = path.parent / name if name else path
        if not linked.exists():
            yield f"the link {target} leads nowhere"
        elif anchor and linked.suffix == ".md" and anchor not in anchors(linked):
            yield f"{linked.name} has no heading #{anchor}"

    def check_document(self, path):
        text = path.read_text(encoding="utf-8")
        for line, target in links(text):
            for complaint in self.check_link(target, path):
                yield f"{path.relative_to(self.root)}:{line}: {complaint}"
        previous = ""
        for line, kind, code in snippets(text):
            code, previous = previous + code, ""
            if kind == "shell" and code.endswith("\\"):
                previous = code[:-1]
                continue
            for command in commands(code):
                complaints = [*self.check_command(command)]
                for word in command:
                    complaints += self.check_path(word, path.parent, kind == "code")
                for complaint in complaints:
                    yield f"{path.relative_to(self.root)}:{line}: {complaint}"

    def check_tree(self):
        documents = [self.root / "README.md", self.root / "CONTRIBUTING.md"]
        documents += sorted((self.root / "docs").rglob("*.md"))
        return [c for path in documents if path.exists() for c in self.check_document(path)]


GOOD_README = """# Title
See [the guide](docs/guide.md#first-steps), `docs/`, `base/a.h`, `src/cohort/base/*.h`, `worker/0`.
`make test`, `cohort run -n 2`, `OUTPUT/logs/x.json`, `https://x.org/y/z.md`, `build/bin/cohort`.

    PREFIX=/x make test JOBS=2 && cohort run --workers 2 -- prog --anything
    scripts/setup --check

```cpp
make nonsense; // not a shell
```
```console
$ make test
make it so
```
```sh
cmake --preset release
cohort run \\
  --workers 2 -- prog   # a comment
```
"""
GOOD_TREE = {
    "README.md": GOOD_README,
    "Makefile": "test: build\n\techo\nbench-%:\n",
    "CMakePresets.json": '{"configurePresets": [{"name": "release"}], "testPresets": []}',
    "bench/benchmarks.txt": "start bench/start\n",
    "docs/guide.md": "## First steps\nSee [up](../README.md). `make bench-start`\n",
    "src/cohort/base/a.h": "",
    "scripts/setup": "#!/bin/sh\necho 'usage: [--check]'\n",
    "build/bin/cohort": "#!/bin/sh\ncase $1 in --help) echo '  run  starts';; "
    "run) echo '-n,--workers N';; *) exit 1;; esac\n",
}
BAD_LINES = [
    ("[x](docs/gone.md)", "leads nowhere"),
    ("[x](docs/guide.md#gone)", "no heading"),
    ("`docs/gone.md`", "does not exist"),
    ("`web/index/`", "does not exist"),
    ("`src/cohort/gone/*.h`", "does not exist"),
    ("`build/bin/gone`", "not built"),
    ("`make gone`", "no target gone"),
    ("`make bench-gone`", "has no gone"),
    ("`cohort gone`", "no subcommand gone"),
    ("`cohort run --gone`", "no option --gone"),
    ("`cohort run --work 2`", "no option --work"),
    ("`cmake --preset gone`", "no gone among"),
    ("`scripts/setup --gone`", "no option --gone"),
    ("\n    X=1 make gone | cat", "no target gone"),
    ("\n```\n$ cohort run --gone\n```", "no option --gone"),
    ("\n```sh\ncohort run \\\n --gone\n```", "no option --gone"),
]


def check_tree_of(files):
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text, encoding="utf-8")
            (root / name).chmod(0o755)
        return Checker(root, root / "build").check_tree()


def self_test():
    assert check_tree_of(GOOD_TREE) == [], check_tree_of(GOOD_TREE)
    for line, expected in BAD_LINES:
        complaints = check_tree_of({**GOOD_TREE, "README.md": GOOD_README + line + "\n"})
        assert any(expected in complaint for complaint in complaints), (line, complaints)


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent)
    build = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else root / "build"
    self_test()
    complaints = Checker(root.resolve(), build.resolve()).check_tree()
    print("\n".join(complaints) or "docs: every path and command is there")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
