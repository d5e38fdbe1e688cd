#!/usr/bin/env python3
"""Fails on a word that docs/glossary.md does not allow, and on a glossary that explains a word twice.

usage: words_test.py [SOURCE_DIR]

Reads every text file that git tracks (or, outside a repository, that is there), but for the glossary
itself and the change log. First proves, on text of its own, that each check can fail.
"""

import pathlib
import re
import subprocess
import sys

EXEMPT = {"docs/glossary.md", "CHANGELOG.md"}
SUFFIXES = {".h", ".cpp", ".py", ".md", ".cmake", ".txt", ".toml", ".sh", ".ts", ".tsx", ".mjs", ""}


def rows_of(text, title):
    section = re.search(rf"^## {title}$(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    if not section:
        raise ValueError(f'docs/glossary.md has no section "{title}"')
    rows = [
        [cell.strip() for cell in line.strip().strip("|").split("|")]
        for line in section.group(1).splitlines()
        if line.startswith("|")
    ]
    return rows[2:]


def check_glossary(text):
    words = [row[0] for row in rows_of(text, "Words")]
    for word in sorted({word for word in words if words.count(word) > 1}):
        yield f"docs/glossary.md: '{word}' is explained twice"
    if words != sorted(words):
        yield "docs/glossary.md: the words are not in alphabetical order"
    for word in sorted(set(words) & {row[0] for row in rows_of(text, "Not used")}):
        yield f"docs/glossary.md: '{word}' is both explained and not used"


def pattern_of(words):
    """A word of prose or a part of a name: bounded by what is not a letter."""
    either = "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))
    return re.compile(rf"(?<![A-Za-z])(?:{either})(?![A-Za-z])", re.IGNORECASE)


def check_text(name, text, instead):
    pattern = pattern_of(instead)
    by_lower = {word.lower(): better for word, better in instead.items()}
    for number, line in enumerate(text.splitlines(), 1):
        for match in pattern.finditer(line):
            better = by_lower[match.group().lower()]
            yield f"{name}:{number}: '{match.group()}' is not used here; write: {better}"


def files_of(root):
    git = subprocess.run(
        ["git", "-C", root, "ls-files", "-co", "--exclude-standard", "-z"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    if git.returncode == 0:
        names = [name for name in git.stdout.decode().split("\0") if name]
    else:
        names = [path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()]
    return [name for name in sorted(names) if pathlib.PurePosixPath(name).suffix in SUFFIXES]


def check_tree(root):
    glossary = (root / "docs/glossary.md").read_text(encoding="utf-8")
    instead = dict(row[:2] for row in rows_of(glossary, "Not used"))
    yield from check_glossary(glossary)
    for name in files_of(root):
        path = root / name
        if name not in EXEMPT and path.is_file():
            yield from check_text(name, path.read_text(encoding="utf-8", errors="replace"), instead)
            yield from check_text(name, name, instead)


def self_test():
    def glossary(words):
        rows = "".join(f"| {word} | x |\n" for word in words)
        return f"## Words\n| word | m |\n|---|---|\n{rows}\n## Not used\n| w | i |\n|---|---|\n| b | c |\n"

    assert not list(check_glossary(glossary(["a", "c"])))
    for bad in (["a", "a"], ["c", "a"], ["a", "b"]):
        assert list(check_glossary(glossary(bad))), bad
    instead = {"sulk": "wait", "give_up": "stop"}
    for bad in ("void do_sulk();", "// Sulk!", "x.give_up(y)", "sulk_"):
        assert list(check_text("f", bad, instead)), bad
    for good in ("sulking", "forgave_upper", "drop"):
        assert not list(check_text("f", good, instead)), good


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent)
    self_test()
    complaints = list(check_tree(root.resolve()))
    print("\n".join(complaints) or "words: every word is one of the glossary's")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
