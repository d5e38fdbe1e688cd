"""Packs a source folder: the same files give the same bytes, so that a service needs them only once.

`.cohortignore`, in the folder's root, names what stays out, with .gitignore's rules: one pattern a line, `#` begins
a comment, `!` takes back, a pattern with a `/` at the beginning or in the middle counts from the root, one that
ends with `/` means folders, `*` stops at a `/` and `**` does not; the last pattern that matches decides.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import hashlib
import os
import pathlib
import re
import stat
import tarfile
import tempfile
from typing import IO, Iterator, List, Tuple

from cohort.errors import SourceError

NEVER = {".git", "__pycache__", ".venv"}
IGNORE_FILE = ".cohortignore"
MAX_BYTES = 512 << 20  # of the packed file; the service takes no more


@dataclasses.dataclass(frozen=True)
class PackedSource:
    """A .tar.gz file, and the hash that names it. The file is removed with the context of `pack`."""

    file: pathlib.Path
    sha256: str
    size: int
    names: Tuple[str, ...]


@contextlib.contextmanager
def pack(source: pathlib.Path) -> Iterator[PackedSource]:
    """Packs a folder, or a single file. Throws SourceError for what cannot be packed."""
    entries = list(_entries(source))
    if not any(path.is_file() for _, path in entries):
        raise SourceError(f"there is nothing to pack in {source}")
    with tempfile.TemporaryDirectory(prefix="cohort-source-") as folder:
        packed = pathlib.Path(folder) / "source.tar.gz"
        with open(packed, "wb") as file:
            _write(entries, file)
        size = packed.stat().st_size
        if size > MAX_BYTES:
            largest = sorted(((path.stat().st_size, name) for name, path in entries if path.is_file()), reverse=True)
            named = ", ".join(f"{name} ({bytes_ >> 20} MiB)" for bytes_, name in largest[:3])
            raise SourceError(f"{source} takes {size >> 20} MiB when packed, more than {MAX_BYTES >> 20} MiB. Name "
                              f"what the program does not need in {IGNORE_FILE}; the largest: {named}")  # fmt: skip
        digest = hashlib.sha256()
        with open(packed, "rb") as content:
            for block in iter(lambda: content.read(1 << 20), b""):
                digest.update(block)
        yield PackedSource(packed, digest.hexdigest(), size, tuple(name for name, _ in entries))


def _write(entries: List[Tuple[str, pathlib.Path]], file: IO[bytes]) -> None:
    with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as compressed:
        with tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for name, path in entries:
                member = tarfile.TarInfo(name)  # uid, gid and mtime are 0
                status = path.stat()
                if path.is_dir():
                    member.type, member.mode = tarfile.DIRTYPE, 0o755
                    archive.addfile(member)
                else:
                    member.size, member.mode = status.st_size, 0o755 if status.st_mode & stat.S_IXUSR else 0o644
                    with open(path, "rb") as content:
                        archive.addfile(member, content)


def _entries(source: pathlib.Path) -> Iterator[Tuple[str, pathlib.Path]]:
    """Names in the archive and their files, sorted. Links are followed: the archive has none."""
    if source.is_file():
        yield source.name, source
        return
    if not source.is_dir():
        raise SourceError(f"source_dir: {source} is not a folder")
    ignore_file = source / IGNORE_FILE
    patterns = _patterns(ignore_file.read_text()) if ignore_file.is_file() else []
    yield from _below(source, "", patterns, (os.path.realpath(source),))


def _below(folder: pathlib.Path, prefix: str, patterns: List[Tuple[bool, bool, "re.Pattern[str]"]],
           above: Tuple[str, ...]) -> Iterator[Tuple[str, pathlib.Path]]:  # fmt: skip
    for path in sorted(folder.iterdir(), key=lambda path: path.name):
        name = prefix + path.name
        if path.name in NEVER or _ignored(name, path.is_dir(), patterns):
            continue
        if path.is_dir():
            real = os.path.realpath(path)
            if real in above:
                raise SourceError(f"{path} is a link to a folder that holds it; name it in {IGNORE_FILE}")
            yield name, path
            yield from _below(path, name + "/", patterns, (*above, real))
        elif path.is_file():
            yield name, path
        else:
            what = "a link to nothing" if path.is_symlink() else "neither a file nor a folder"
            raise SourceError(f"{path} is {what}; remove it, or name it in {IGNORE_FILE}")


def _patterns(text: str) -> List[Tuple[bool, bool, "re.Pattern[str]"]]:
    """Of each line: whether it takes back, whether it means folders only, and what it matches."""
    found = []
    for line in text.splitlines():
        line = line.rstrip()
        if not line or line.startswith("#"):
            continue
        takes_back = line.startswith("!")
        pattern = line[takes_back:]
        folders_only, pattern = pattern.endswith("/"), pattern.rstrip("/")
        anywhere = "" if "/" in pattern else "(?:.*/)?"
        found.append((takes_back, folders_only, re.compile(anywhere + _regex(pattern.lstrip("/")))))
    return found


def _regex(pattern: str) -> str:
    pieces = {"**/": "(?:.*/)?", "/**": "/.*", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    words = re.findall(r"\*\*/|/\*\*$|\*\*|\*|\?|\[!?[^\]]+\]|\\.|.", pattern, re.DOTALL)
    return "".join(pieces.get(word) or _word(word) for word in words)


def _word(word: str) -> str:
    if word.startswith("[") and len(word) > 1:
        return "[^" + word[2:] if word.startswith("[!") else word
    return re.escape(word[-1])


def _ignored(name: str, is_folder: bool, patterns: List[Tuple[bool, bool, "re.Pattern[str]"]]) -> bool:
    for takes_back, folders_only, pattern in reversed(patterns):
        if (is_folder or not folders_only) and pattern.fullmatch(name):
            return not takes_back
    return False
