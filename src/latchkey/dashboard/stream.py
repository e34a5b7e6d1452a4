"""Server-sent events: the events of a project, pushed to an open page until it is closed.

id: 41                          a browser that reconnects sends the last one it saw
event: happened                 | deliveries | skipped | over
data: {"type": "RENEWAL", ...}
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from latchkey.database.transient_errors import PASSING
from latchkey.first_of import first_of
from latchkey.subjects.events.rules import ListedEvent
from latchkey.subjects.events.usecases import DeliveriesChanged, Happened, News, Skipped, Subscriber, Tail, Tails

MEDIA_TYPE = "text/event-stream"
# How often the session is checked, and after how many silent seconds a comment is sent, so that proxies do not close
# the connection.
LOOKED_AT_EVERY = 3.0
SILENT_FOR = 15.0
COME_BACK_AFTER_MS = 1_500


class PageSubscription(Struct, frozen=True, kw_only=True):
    """What one page subscribes to."""

    project_id: str
    # The last event that the page has; None for a page without any.
    after: int | None
    wanted: Callable[[ListedEvent], bool]
    # The newest events on the page: their deliveries may have changed since it was rendered.
    shown: Sequence[ListedEvent]
    row: Callable[[ListedEvent], dict[str, Any]]
    # Called every few seconds: whether the session still allows this page.
    lasts: Callable[[], Awaitable[bool]]


class Stream(Response):
    def __init__(self, tails: Tails, watch: PageSubscription, closing: asyncio.Event) -> None:
        super().__init__(media_type=MEDIA_TYPE)
        del self.headers["content-length"]
        self.headers["cache-control"] = "no-store"
        # A proxy that buffers responses would buffer this one for ever.
        self.headers["x-accel-buffering"] = "no"
        self._tails = tails
        self._watch = watch
        self._closing = closing

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await first_of(self._tell(send), self._closing.wait(), _left(receive))
        with contextlib.suppress(OSError):
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _tell(self, send: Send) -> None:
        async def say(text: str) -> None:
            await send({"type": "http.response.body", "body": text.encode(), "more_body": True})

        with contextlib.suppress(*PASSING):
            await say(f"retry: {COME_BACK_AFTER_MS}\n\n")
            async with self._tails.subscribe(self._watch.project_id) as (tail, subscriber):
                await self._catch_up(tail, subscriber, say)
                await self._go_on(subscriber, say)

    async def _catch_up(self, tail: Tail, subscriber: Subscriber, say: Callable[[str], Awaitable[None]]) -> None:
        watch = self._watch
        tail.follow_deliveries(watch.shown)
        for event in watch.shown:
            await say(self._said(DeliveriesChanged(event)))
        # A position in the future is not possible.
        after = subscriber.joined if watch.after is None else min(watch.after, subscriber.joined)
        events, skipped = await self._tails.missed(watch.project_id, after, subscriber.joined)
        tail.follow_deliveries(events)
        if skipped:
            await say(self._said(Skipped(skipped, subscriber.joined)))
        for event in events:
            if watch.wanted(event):
                await say(self._said(Happened(event)))
        await say(f"id: {subscriber.joined}\n\n")

    async def _go_on(self, subscriber: Subscriber, say: Callable[[str], Awaitable[None]]) -> None:
        loop = asyncio.get_running_loop()
        looked_at = spoken_at = loop.time()
        position = subscriber.joined
        while not subscriber.overrun:
            news = await subscriber.next(LOOKED_AT_EVERY)
            now = loop.time()
            if now - looked_at >= LOOKED_AT_EVERY:
                if not await self._watch.lasts():
                    await say(f"event: over\n{_data({})}\n\n")
                    return
                looked_at = now
            if news is not None:
                position = news.position if isinstance(news, Skipped) else max(position, news.event.position)
                if isinstance(news, Skipped) or self._watch.wanted(news.event):
                    await say(self._said(news))
                    spoken_at = now
            if now - spoken_at >= SILENT_FOR:
                # An id without data: nothing is shown, but the browser stores the position.
                await say(f"id: {position}\n\n")
                spoken_at = now

    def _said(self, news: News) -> str:
        match news:
            case Happened(event):
                return f"id: {event.position}\nevent: happened\n{_data(self._watch.row(event))}\n\n"
            case DeliveriesChanged(event):
                return f"event: deliveries\n{_data(self._watch.row(event))}\n\n"
            case Skipped(count, position):
                return f"id: {position}\nevent: skipped\n{_data({'count': count})}\n\n"


async def _left(receive: Receive) -> None:
    # After the request body, the only message is the disconnect.
    while (await receive())["type"] != "http.disconnect":
        pass


def _data(value: dict[str, Any]) -> str:
    """One line: encoded JSON contains no line breaks."""
    return f"data: {msgspec.json.encode(value).decode()}"
