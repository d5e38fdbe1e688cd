"""Finds the `cohort` program that belongs to this package.

In this order: COHORT_PROGRAM; the one inside the package (a wheel has it in cohort/bin); that of the tree or prefix
that holds the package, or that pip installed it from; the first on the PATH.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import signal
from typing import Iterator, NoReturn, Sequence

from cohort.errors import ServiceUnavailable


def find_program() -> str:
    """Its path. Throws ServiceUnavailable where there is none."""
    named = os.environ.get("COHORT_PROGRAM")
    if named:
        if not _is_program(pathlib.Path(named)):
            raise ServiceUnavailable(f"COHORT_PROGRAM={named} is not a program that can be run")
        return named
    packaged = pathlib.Path(__file__).resolve().parent / "bin/cohort"
    if _is_program(packaged):
        return str(packaged)
    for folder in _package_folders():
        tree = folder.parents[2] if folder.parts[-3:] == ("share", "cohort", "python") else folder.parent
        for candidate in (tree / "build/bin/cohort", tree / "bin/cohort"):
            if folder.name == "python" and _is_program(candidate):
                return str(candidate)
    found = shutil.which("cohort")
    if not found:
        raise ServiceUnavailable("the cohort program was not found: build it (make build), put it on the PATH, or "
                                 "set COHORT_PROGRAM; COHORT_SERVICE names a shared service")  # fmt: skip
    return found


def _package_folders() -> Iterator[pathlib.Path]:
    """The folder that holds this package, and the one that pip installed it from: TREE/python, or
    PREFIX/share/cohort/python."""
    yield pathlib.Path(__file__).resolve().parents[1]
    import importlib.metadata
    import json
    import urllib.parse
    import urllib.request

    try:
        origin = importlib.metadata.distribution("cohort-sdk").read_text("direct_url.json")
    except importlib.metadata.PackageNotFoundError:
        return
    url = urllib.parse.urlsplit(json.loads(origin)["url"]) if origin else None
    if url and url.scheme == "file":
        yield pathlib.Path(urllib.request.url2pathname(url.path))


def _is_program(path: pathlib.Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def become(arguments: Sequence[str]) -> NoReturn:
    """The program takes the place of this process, with these arguments."""
    program = find_program()
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, which a new program would inherit
        signal.signal(number, signal.SIG_DFL)
    os.execv(program, ["cohort", *arguments])
