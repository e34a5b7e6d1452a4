"""The events that arrived by webhook, kept in memory for display."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Iterable, Iterator

import msgspec
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_SHOWN = 12
MOST_BYTES = 256 * 1024


class ArrivedEvent(msgspec.Struct, frozen=True):
    """The fields of an event that the timeline shows."""

    id: str
    type: str
    app_user_id: str
    event_timestamp_ms: int


class _Envelope(msgspec.Struct):
    event: ArrivedEvent


class Arrivals:
    """Wraps the consumer: notifies subscribers when a webhook was answered, and keeps its event."""

    def __init__(self, consumer: ASGIApp, path: str, users: Iterable[str]) -> None:
        self._consumer = consumer
        self._path = path
        # Only for the demo's users: there may be thousands of others.
        self._kept: dict[str, deque[ArrivedEvent]] = {user: deque(maxlen=MOST_SHOWN) for user in users}
        self._bells: set[asyncio.Event] = set()

    def of(self, app_user_id: str) -> list[ArrivedEvent]:
        """Newest first."""
        return list(reversed(self._kept[app_user_id]))

    def ring(self) -> None:
        for bell in self._bells:
            bell.set()

    @contextlib.contextmanager
    def bell(self) -> Iterator[asyncio.Event]:
        bell = asyncio.Event()
        self._bells.add(bell)
        try:
            yield bell
        finally:
            self._bells.discard(bell)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != self._path:
            await self._consumer(scope, receive, send)
            return
        body, status = bytearray(), 0

        async def read() -> Message:
            message = await receive()
            if len(body) <= MOST_BYTES:
                body.extend(message.get("body", b""))
            return message

        async def answer(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        await self._consumer(scope, read, answer)
        # Only accepted webhooks: the receiver has verified the sender, and the local copy has been written.
        if status == 200:
            self._keep(bytes(body))
            self.ring()

    def _keep(self, body: bytes) -> None:
        with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):
            arrival = msgspec.json.decode(body, type=_Envelope).event
            kept = self._kept.get(arrival.app_user_id)
            if kept is not None and arrival.id not in {one.id for one in kept}:
                kept.append(arrival)
