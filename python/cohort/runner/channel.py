"""The way by which run() hands a function to its workers and gets results back.

A Unix socket in a folder that only this user may enter. Before anything is read as a pickle, both sides have shown
that they know a token made by chance for this call (it is in the workers' environment, never on a command line or in a
file), and have been told by the kernel that the other process is this user's.

    parent -> worker   32 bytes by chance
    worker -> parent   32 bytes by chance, HMAC-SHA256(token, "worker" + both)
    parent -> worker   HMAC-SHA256(token, "parent" + both), then the work as a frame
    worker -> parent   its report as a frame
    parent -> worker   one byte: the report is here

A frame is its length, 8 bytes, lowest first, and so many bytes.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
import shutil
import socket
import struct
import tempfile
import threading
from typing import Callable, Dict, List

SOCKET, TOKEN = "COHORT_RUN_SOCKET", "COHORT_RUN_TOKEN"
_HANDSHAKE_LIMIT = 30.0  # seconds
_NONCE = 32
_LONGEST_PATH = 100  # what an address of a Unix socket holds, about


class ChannelError(RuntimeError):
    """The other side is not who it should be, or is gone."""


class Server:
    """The parent's side. `work` goes to every worker that proves itself; `take` gets their reports, on threads of this
    object, one report a call. close() ends them."""

    def __init__(self, work: bytes, take: Callable[[bytes], None]) -> None:
        self._work, self._take = work, take
        self._token = secrets.token_bytes(32)
        self._folder = tempfile.mkdtemp(prefix="cohort-run-")  # mode 0700
        if len(self._folder) > _LONGEST_PATH:
            os.rmdir(self._folder)
            self._folder = tempfile.mkdtemp(prefix="cohort-run-", dir="/tmp")
        self._path = os.path.join(self._folder, "work")
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        self._listener.bind(self._path)
        self._listener.listen(128)
        self._threads: List[threading.Thread] = []
        self._connections: List[socket.socket] = []
        self._acceptor = threading.Thread(target=self._accept, name="cohort-run", daemon=True)
        self._acceptor.start()

    def environment(self) -> Dict[str, str]:
        """What workers find the parent with."""
        return {SOCKET: self._path, TOKEN: self._token.hex()}

    def close(self, patience: float) -> None:
        """To be called when the workers are gone: reads what they have left, for `patience` seconds at most."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._acceptor.join()
        self._listener.close()
        for thread in self._threads:
            thread.join(patience)
        for connection in self._connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return  # closed
            self._connections.append(connection)
            thread = threading.Thread(target=self._serve, args=(connection,), name="cohort-run", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError, ChannelError):  # a stranger, or a worker that died
            _require_own_user(connection)
            connection.settimeout(_HANDSHAKE_LIMIT)
            ours = secrets.token_bytes(_NONCE)
            connection.sendall(ours)
            theirs = _read(connection, _NONCE)
            proof = _read(connection, 32)
            if not hmac.compare_digest(proof, _proof(self._token, b"worker", ours + theirs)):
                return
            connection.sendall(_proof(self._token, b"parent", ours + theirs))
            connection.settimeout(None)
            _send_frame(connection, self._work)
            self._take(_read_frame(connection))
            connection.sendall(b"+")


class Client:
    """A worker's side."""

    def __init__(self, path: str, token: bytes) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        self._arrived = threading.Event()
        try:
            self._connect(path, token)
        except BaseException:
            self._socket.close()
            raise

    def _connect(self, path: str, token: bytes) -> None:
        self._socket.settimeout(_HANDSHAKE_LIMIT)
        self._socket.connect(path)
        _require_own_user(self._socket)
        theirs = _read(self._socket, _NONCE)
        ours = secrets.token_bytes(_NONCE)
        self._socket.sendall(ours + _proof(token, b"worker", theirs + ours))
        if not hmac.compare_digest(_read(self._socket, 32), _proof(token, b"parent", theirs + ours)):
            raise ChannelError("what listens on the socket of run() does not know its token")
        self._socket.settimeout(None)

    def receive(self) -> bytes:
        return _read_frame(self._socket)

    def watch(self, gone: Callable[[], None]) -> None:
        """Calls `gone`, on a thread of its own, when the parent has ended before it got the report."""

        def wait() -> None:
            answer = b""
            with contextlib.suppress(OSError):
                answer = self._socket.recv(1)
            if not answer:
                gone()
            self._arrived.set()

        threading.Thread(target=wait, name="cohort-run", daemon=True).start()

    def report(self, data: bytes) -> None:
        """Returns when the parent has it. After watch()."""
        _send_frame(self._socket, data)
        self._arrived.wait()


def _proof(token: bytes, who: bytes, nonces: bytes) -> bytes:
    return hmac.new(token, who + nonces, "sha256").digest()


def _require_own_user(connection: socket.socket) -> None:
    size = struct.calcsize("3i")
    _, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    if user != os.geteuid():
        raise ChannelError(f"the other process is user {user}'s, not user {os.geteuid()}'s")


def _read(connection: socket.socket, size: int) -> bytes:
    data = bytearray(size)
    view = memoryview(data)
    while view:
        count = connection.recv_into(view)
        if not count:
            raise ChannelError("the other process is gone")
        view = view[count:]
    return bytes(data)


def _send_frame(connection: socket.socket, data: bytes) -> None:
    connection.sendall(struct.pack("<Q", len(data)))
    connection.sendall(data)


def _read_frame(connection: socket.socket) -> bytes:
    (size,) = struct.unpack("<Q", _read(connection, 8))
    return _read(connection, size)
