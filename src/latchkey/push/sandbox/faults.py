"""Faults on request, to test how a client of a push provider handles them.

PUT /sandbox/fault {"kind": "down"}                        503 with an HTML page, like a provider's load balancer
                   {"kind": "busy", "seconds": 2}          429 with Retry-After: 2
                   {"kind": "slow", "seconds": 5}          the right response, late
                   {"kind": "lost"}                        processed, but the response is a 502
                   {"kind": "nonsense"}                    200 and a different invalid body each time
with "times": 3 only for the next three calls. DELETE ends the fault, GET shows it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Literal

import msgspec
from starlette.responses import Response

NONSENSE = (
    b"",
    b"<html><body>Welcome to nginx!</body></html>",
    b'{"id": "8458',
    b"[]",
    b"null",
    b'{"id": 7}',
    b'{"id": "", "errors": "?"}',
    b'{"success": true}',
    b"\xff\xfe\x00",
    b"[" * 100_000,
)


class Fault(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    kind: Literal["down", "busy", "slow", "lost", "nonsense"]
    seconds: float = 1.0
    times: int | None = None


class Faults:
    def __init__(self) -> None:
        self.now: Fault | None = None
        self._left: int | None = None
        self._count = 0

    def begin(self, fault: Fault) -> None:
        self.now, self._left, self._count = fault, fault.times, 0

    def end(self) -> None:
        self.now = None

    async def around(self, work: Callable[[], Awaitable[Response]]) -> Response:
        fault = self.now
        if fault is None:
            return await work()
        self._count += 1
        if self._left is not None:
            self._left -= 1
            if self._left <= 0:
                self.now = None
        match fault.kind:
            case "down":
                return Response("<html><body><h1>503 Service Unavailable</h1></body></html>", 503, None, "text/html")
            case "busy":
                wait = {"Retry-After": f"{fault.seconds:.0f}"}
                return Response('{"errors": ["API rate limit exceeded"]}', 429, wait, "application/json")
            case "slow":
                await asyncio.sleep(fault.seconds)
                return await work()
            case "lost":
                await work()
                return Response("upstream connect error", 502, None, "text/plain")
            case "nonsense":
                said = NONSENSE[(self._count - 1) % len(NONSENSE)]
                return Response(said, 200, None, "application/json")
