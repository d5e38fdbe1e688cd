"""Server-sent events: the lines of a response, as events."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, Iterable, Iterator, Optional


@dataclasses.dataclass(frozen=True)
class Event:
    """One event. `id` is where a reader that lost its connection goes on."""

    kind: str
    data: str
    id: Optional[str] = None

    def json(self) -> Any:
        return json.loads(self.data)


def parse_events(lines: Iterable[bytes]) -> Iterator[Event]:
    """The events of a text/event-stream. One that the end of the stream cuts off is left out: it comes
    again when the reader goes on behind the last id that it has."""
    kind, data, last_id = "message", [], None  # type: str, list[str], Optional[str]
    for raw in lines:
        if not raw.endswith(b"\n"):
            return
        line = raw.decode("utf-8", errors="replace").rstrip("\r\n")
        if not line:
            if data:
                yield Event(kind, "\n".join(data), last_id)
            kind, data = "message", []
            continue
        field, _, value = line.partition(":")
        value = value[1:] if value.startswith(" ") else value
        if field == "event":
            kind = value
        elif field == "data":
            data.append(value)
        elif field == "id":
            last_id = value
