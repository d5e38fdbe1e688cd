"""Where data and results lie: paths and URIs, as people of several platforms write them."""

from __future__ import annotations

import os
from typing import Any, Dict, Mapping, Protocol, Union, runtime_checkable

from cohort.values import as_json

Path = Union[str, "os.PathLike[str]"]

# Other platforms copy a channel from there before the program starts, and results back; Cohort does not.
OBJECT_STORES = frozenset("cos cosn gs obs oss s3 s3a s3n".split())


@runtime_checkable
class HasUri(Protocol):
    """An object that says where data lies, as other platforms have them."""

    uri: str


@runtime_checkable
class TrainingInput(Protocol):
    """As above: {"DataSource": {"S3DataSource": {"S3Uri": ...}}}."""

    config: Dict[str, Any]


Place = Union[Path, HasUri, TrainingInput]
Inputs = Union[None, Place, Mapping[str, Union[None, Place]]]


def channels_of(inputs: Inputs, local: bool) -> Dict[str, str]:
    """Channel names and their places; None counts as left out. A place alone is the channel "training". Where
    the service is on this machine, relative paths become absolute: its tasks run elsewhere. Throws TypeError
    for what is no place, and ValueError for one in an object store."""
    if inputs is None:
        return {}
    named = inputs if isinstance(inputs, Mapping) else {"training": inputs}
    return {str(channel): _place(place, f"inputs.{channel}", local)
            for channel, place in named.items() if place is not None}  # fmt: skip


def output_of(output: Path, local: bool) -> str:
    """The folder for results. Throws ValueError for one in an object store."""
    return _place(output, "output", local)


def _place(place: Place, name: str, local: bool) -> str:
    text = str(as_json(_address(place, name), name))
    _refuse_object_store(text, name)
    if text.startswith("file://"):
        text = text[len("file://"):]
    if not text:
        raise ValueError(f"{name} is empty; give a folder or a file")
    return text if "://" in text or not local else os.path.abspath(os.path.expanduser(text))


def _address(place: Any, name: str) -> str:
    """The path or URI that `place` is, or holds."""
    if isinstance(place, (str, os.PathLike)):
        return os.fspath(place)
    if isinstance(place, HasUri):
        return str(place.uri)
    if isinstance(place, TrainingInput) and isinstance(place.config, Mapping):
        for source in place.config.get("DataSource", {}).values():
            for key, value in source.items():
                if key.endswith(("Uri", "Path")):
                    return str(value)
    raise TypeError(f"{name}: {place!r:.80} is no place of data; give a path or a URI, or {{'train': PATH, ...}} for "
                    "several channels")  # fmt: skip


def _refuse_object_store(text: str, name: str) -> None:
    """Throws ValueError for an address in an object store, from which nothing is copied."""
    scheme = text.partition("://")[0].lower() if "://" in text else ""
    if scheme in OBJECT_STORES:
        raise ValueError(f"{name} is {text}, and nothing is copied from or to {scheme}:// here. Give a folder that the "
                         "job's machine can reach, and copy to or from it yourself; an address that the program "
                         "itself can use goes into hyperparameters.")  # fmt: skip
