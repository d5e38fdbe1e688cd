"""HTTP/1.1 to the service, over its Unix socket or over TCP, with the standard library alone."""

from __future__ import annotations

import dataclasses
import http.client
import json
import socket
import ssl
import urllib.parse
from typing import IO, Any, Dict, Mapping, Optional, Union

from cohort.errors import ServiceError

JsonObject = Dict[str, Any]

# What says that the service is gone or the way to it is broken, as opposed to an answer of it.
BROKEN = (OSError, http.client.HTTPException)


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self.sock.settimeout(self.timeout)
            self.sock.connect(self._path)
        except BaseException:
            self.sock.close()
            raise


@dataclasses.dataclass(frozen=True)
class Address:
    """Where a service listens: the path of a Unix socket, or an http(s) URL with a token."""

    socket: Optional[str] = None
    url: Optional[str] = None
    token: Optional[str] = dataclasses.field(default=None, repr=False)
    ca_file: Optional[str] = None

    def __str__(self) -> str:
        return self.url or f"the socket {self.socket}"

    def connect(self, timeout: float) -> http.client.HTTPConnection:
        if self.socket is not None:
            return _UnixConnection(self.socket, timeout)
        parts = urllib.parse.urlsplit(self.url or "")
        host = parts.hostname or ""
        if parts.scheme == "https":
            context = ssl.create_default_context(cafile=self.ca_file)
            return http.client.HTTPSConnection(host, parts.port, timeout=timeout, context=context)
        return http.client.HTTPConnection(host, parts.port, timeout=timeout)

    def request(self, method: str, path: str, *, query: Optional[Mapping[str, object]] = None,
                body: Union[None, JsonObject, IO[bytes]] = None, length: Optional[int] = None,
                accept: str = "application/json", headers: Optional[Mapping[str, str]] = None,
                timeout: float = 60) -> http.client.HTTPResponse:  # fmt: skip
        """Sends one request on a connection of its own, and returns the answer with its body unread;
        closing it closes the connection. A body is JSON, or a file of `length` bytes. Throws ServiceError
        for an answer that is an error, and what BROKEN lists when there is none."""
        words = {name: str(value) for name, value in (query or {}).items() if value is not None}
        target = path + ("?" + urllib.parse.urlencode(words) if words else "")
        sent = {"Accept": accept, "Connection": "close", **(headers or {})}
        if self.token:
            sent["Authorization"] = f"Bearer {self.token}"
        payload: Union[None, bytes, IO[bytes]] = None
        if isinstance(body, dict):
            payload = json.dumps(body).encode()
            sent["Content-Type"] = "application/json"
        elif body is not None:
            payload = body
            sent["Content-Type"] = "application/octet-stream"
            sent["Content-Length"] = str(length)
        elif method in ("POST", "PUT", "DELETE"):
            sent["Content-Type"] = "application/json"
        connection = self.connect(timeout)
        try:
            connection.request(method, target, body=payload, headers=sent)
            answer = connection.getresponse()
            if connection.sock is not None:
                connection.sock.close()  # in fact once the answer, which still reads it, is closed
            if answer.status >= 400:
                with answer:
                    raise _refusal(answer)
            return answer
        except BaseException:
            connection.close()
            raise


def _refusal(answer: http.client.HTTPResponse) -> ServiceError:
    text = answer.read(1 << 20)
    try:
        error = json.loads(text)["error"]
        return ServiceError(answer.status, error["message"], error.get("advice"))
    except (ValueError, KeyError, TypeError, AttributeError):
        return ServiceError(answer.status, f"the service answered {answer.status} {answer.reason}")
