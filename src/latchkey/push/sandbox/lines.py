"""The open streams to devices, one each, like a phone's connection to its push service. Server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable

import structlog
from msgspec import json

from latchkey.push.sandbox.database import Arrival, SandboxDatabase

log = structlog.get_logger()

# Often enough for a device to notice a dead stream within a minute, and for every proxy on the way to keep it open.
HEARTBEAT = 15.0


class Lines:
    def __init__(self, database: SandboxDatabase, now: Callable[[], int]) -> None:
        self._database = database
        self._now = now
        self._bells: dict[str, asyncio.Event] = {}
        self._closed = False

    def connected(self, player_id: str) -> bool:
        return player_id in self._bells

    def ring(self, player_ids: Iterable[str]) -> None:
        for one in player_ids:
            if (bell := self._bells.get(one)) is not None:
                bell.set()

    def close(self) -> None:
        self._closed = True
        self.ring(list(self._bells))

    async def arrivals(self, player_id: str) -> AsyncIterator[bytes]:
        """All pending notifications of a device, now and as they come. A newer stream of the same device ends this
        one."""
        bell = asyncio.Event()
        if (older := self._bells.get(player_id)) is not None:
            older.set()
        self._bells[player_id] = bell
        try:
            yield b": connected\n\n"
            while self._bells.get(player_id) is bell and not self._closed:
                for arrival in self._database.under_way(player_id, self._now()):
                    yield _event(arrival)
                    # Marked after it was sent: if the stream breaks just then, it is sent again, and the device, which
                    # knows its id, shows it once.
                    self._database.arrived(player_id, arrival.number, self._now())
                try:
                    await asyncio.wait_for(bell.wait(), HEARTBEAT)
                except TimeoutError:
                    yield b": still here\n\n"
                bell.clear()
        finally:
            if self._bells.get(player_id) is bell:
                del self._bells[player_id]


def _event(arrival: Arrival) -> bytes:
    shown = {
        "id": arrival.id,
        "heading": arrival.heading,
        "content": arrival.content,
        "data": arrival.data,
        "url": arrival.url,
        "sent_at": arrival.sent_at,
    }
    return b"id: %d\nevent: notification\ndata: %b\n\n" % (arrival.number, json.encode(shown))
