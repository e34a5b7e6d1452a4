"""One log line for each request. Lines that end in the same turn of the event loop are written together.

Structlog takes 13 µs for a line, a sixth of a whole read. So if the log is JSON these lines go directly to its stream,
with the same fields; otherwise (a terminal, a test) they go through structlog.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import structlog
from msgspec import Struct, json

from latchkey import logs

log = structlog.get_logger("latchkey.api")


class Line(Struct, gc=False):
    request_id: str
    method: str
    route: str
    status: int
    ms: float
    key_id: str | None
    event: str = "request"
    level: str = "info"
    timestamp: str = ""


_encoder = json.Encoder()


class AccessLog:
    def __init__(self) -> None:
        self._lines: list[Line] = []

    def add(self, line: Line) -> None:
        if not self._lines:
            asyncio.get_running_loop().call_soon(self._write)
        self._lines.append(line)

    def _write(self) -> None:
        lines, self._lines = self._lines, []
        stream = logs.json_stream()
        if stream is None:
            for line in lines:
                log.info(
                    "request",
                    request_id=line.request_id,
                    method=line.method,
                    route=line.route,
                    status=line.status,
                    ms=line.ms,
                    key_id=line.key_id,
                )
            return
        timestamp = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        for line in lines:
            line.timestamp = timestamp
        stream.write(_encoder.encode_lines(lines))
