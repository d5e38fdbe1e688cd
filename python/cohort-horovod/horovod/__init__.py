"""Cohort under the name `horovod`: a module `horovod.NAME` is the module `cohort.NAME`, the same object.

`horovod.__version__` names the version of Horovod whose interface this is, and behind the + Cohort's own.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from typing import Any, Optional, Sequence

import cohort
from cohort.runner import INTERFACE, run

__version__ = f"{INTERFACE}+cohort.{cohort.__version__}"
__all__ = ["run"]

_NAMES = ("torch", "tensorflow", "keras", "_keras", "common", "runner")
_ABSENT = {
    "mxnet": "Cohort has no MXNet interface",
    "spark": "Cohort does not run inside Spark; its own services and `cohort run` start jobs",
    "ray": "Cohort does not run inside Ray; its own services and `cohort run` start jobs",
}


def _real_name(name: str) -> str:
    return "cohort" + name[len(__name__):]


class _Loader(importlib.abc.InspectLoader):
    """Gives the module of the other name, and leaves what it knows of itself as it is."""

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        module = importlib.import_module(_real_name(spec.name))
        spec.loader_state = module.__spec__  # the import system is about to replace it
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        alias = module.__spec__
        assert alias is not None
        module.__spec__ = alias.loader_state

    # For `python -m horovod.runner.launch`.
    def get_code(self, fullname: str) -> Any:
        spec = importlib.util.find_spec(_real_name(fullname))
        return getattr(spec.loader, "get_code")(_real_name(fullname)) if spec and spec.loader else None

    def is_package(self, fullname: str) -> bool:
        spec = importlib.util.find_spec(_real_name(fullname))
        return spec is not None and spec.submodule_search_locations is not None

    def get_source(self, fullname: str) -> Optional[str]:
        return None


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, fullname: str, path: Optional[Sequence[str]] = None,
                  target: Optional[types.ModuleType] = None) -> Optional[importlib.machinery.ModuleSpec]:  # fmt: skip
        parts = fullname.split(".")
        if parts[0] != __name__ or len(parts) == 1:
            return None
        if parts[1] in _ABSENT:
            raise ModuleNotFoundError(f"No module named '{fullname}': {_ABSENT[parts[1]]}", name=fullname)
        if parts[1] not in _NAMES:
            return None
        if importlib.util.find_spec(_real_name(fullname)) is None:
            return None
        loader = _Loader()
        return importlib.machinery.ModuleSpec(fullname, loader, is_package=loader.is_package(fullname))


sys.meta_path.insert(0, _Finder())  # first: the path of a package of `cohort` would load its modules a second time
