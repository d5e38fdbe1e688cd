"""Errors of collective calls and of elastic training, under the names that Horovod's scripts catch."""

from __future__ import annotations

from typing import Optional


class HorovodInternalError(RuntimeError):
    """A collective failed: a peer is gone, the ranks' requests differ, the world was closed.

    `peer` is the rank in the world that is to blame, where that is known; `status` is the number of
    `cohort.native.Status`, or None for an error that was not raised by the library.
    """

    def __init__(self, *args: object, peer: Optional[int] = None, status: Optional[int] = None) -> None:
        super().__init__(*args)
        self.peer = peer
        self.status = status


class HostsUpdatedInterrupt(RuntimeError):
    """Elastic: workers are to come or go. With `skip_sync` none came: the state is the same everywhere."""

    def __init__(self, skip_sync: bool = False) -> None:
        super().__init__("the workers of this elastic job change")
        self.skip_sync = skip_sync


def get_version_mismatch_message(name: str, version: str, installed_version: str) -> str:
    return (
        f"{name} {installed_version} is installed, but this package was made for {name} {version}. "
        f"Install {name} {version}, or install this package again"
    )


class HorovodVersionMismatchError(ImportError):
    """A framework is installed in another version than the one that the package was made for."""

    def __init__(self, name: str, version: str, installed_version: str) -> None:
        super().__init__(get_version_mismatch_message(name, version, installed_version))
        self.name = name
        self.version = version
        self.installed_version = installed_version
