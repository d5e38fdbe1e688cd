"""Prints "VERSION<tab>FOLDER" of this interpreter's torch package, without importing it.

Exits 1, with the reason on standard error, when there is none that Cohort can link against:
torch 2.x, with its C++ headers, built with the C++11 ABI that Debian's libraries use.
Used by scripts/setup and cmake/CohortTorch.cmake, so that both choose the same one.
"""

import importlib.util
import pathlib
import re
import sys


def find_torch():
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        raise LookupError("no torch package")
    folder = pathlib.Path(list(spec.submodule_search_locations)[0])
    match = re.search(
        r"^__version__(?::[^=]*)?\s*=\s*['\"]([^'\"]+)", (folder / "version.py").read_text(), re.MULTILINE
    )
    version = match.group(1) if match else ""
    if not version.startswith("2."):
        raise LookupError(f"torch {version or 'of unknown version'} in {folder} is not 2.x")
    if not (folder / "include/torch/csrc/api/include/torch/torch.h").exists():
        raise LookupError(f"torch {version} in {folder} has no C++ headers")
    if not (folder / "lib/libtorch.so").exists():
        raise LookupError(f"torch {version} in {folder} has no lib/libtorch.so")
    config = folder / "share/cmake/Torch/TorchConfig.cmake"
    if config.exists() and "_GLIBCXX_USE_CXX11_ABI=0" in config.read_text():
        raise LookupError(f"torch {version} in {folder} is built with the old C++ ABI")
    return version, folder


if __name__ == "__main__":
    try:
        print(*find_torch(), sep="\t")
    except (LookupError, OSError) as error:
        sys.exit(f"{sys.executable}: {error}")
