"""Server-sent events: the events of a project, pushed to an open page until it is closed.

id: 41                          a browser that reconnects sends the last one it saw
event: happened                 | deliveries | skipped | over
data: {"type": "RENEWAL", ...}
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from msgspec import Struct, json
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from latchkey.dashboard.event_row import row_of
from latchkey.dashboard.page import Visit
from latchkey.database.transient_errors import PASSING
from latchkey.first_of import first_of
from latchkey.subjects.accounts.usecases import sessions
from latchkey.subjects.events import usecases
from latchkey.subjects.events.rules import EventFilter, ListedEvent
from latchkey.subjects.events.usecases import DeliveriesChanged, Happened, News, Skipped, Subscriber, Tail, Tails

MEDIA_TYPE = "text/event-stream"
# How often the session is checked, and after how many silent seconds a comment is sent, so that proxies do not close
# the connection.
LOOKED_AT_EVERY = 3.0
SILENT_FOR = 15.0
COME_BACK_AFTER_MS = 1_500


class EventQuery(Struct):
    chosen: EventFilter
    clock_id: str | None = None
    # The key of the watched customer. Looked up again from time to time: a merge changes it.
    owner: int | None = None

    def __call__(self, event: ListedEvent) -> bool:
        return (
            self.chosen.matches(event)
            and (self.chosen.customer_id is None or (event.owner is not None and event.owner == self.owner))
            and (self.clock_id is None or event.test_clock_id == self.clock_id)
        )

    async def look_up(self, visit: Visit) -> None:
        if self.chosen.customer_id is not None:
            self.owner = await visit.run(usecases.customer_key, self.chosen.customer_id)


class EventStream(Response):
    def __init__(
        self, visit: Visit, tails: Tails, wanted: EventQuery, shown: Sequence[ListedEvent], after: int | None
    ) -> None:
        """`shown`: the newest events on the page, whose deliveries may have changed since it was rendered. `after`: the
        last event that the page has; None for a page without any."""
        super().__init__(media_type=MEDIA_TYPE)
        del self.headers["content-length"]
        self.headers["cache-control"] = "no-store"
        # A proxy that buffers responses would buffer this one for ever.
        self.headers["x-accel-buffering"] = "no"
        self._visit, self._tails, self._wanted = visit, tails, wanted
        self._shown, self._after = shown, after

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await first_of(self._tell(send), self._visit.request.app.state.closing.wait(), _left(receive))
        with contextlib.suppress(OSError):
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _tell(self, send: Send) -> None:
        async def say(text: str) -> None:
            await send({"type": "http.response.body", "body": text.encode(), "more_body": True})

        with contextlib.suppress(*PASSING):
            await say(f"retry: {COME_BACK_AFTER_MS}\n\n")
            async with self._tails.subscribe(self._visit.project_id) as (tail, subscriber):
                await self._catch_up(tail, subscriber, say)
                await self._go_on(subscriber, say)

    async def _catch_up(self, tail: Tail, subscriber: Subscriber, say: Callable[[str], Awaitable[None]]) -> None:
        tail.follow_deliveries(self._shown)
        for event in self._shown:
            await say(self._said(DeliveriesChanged(event)))
        # A position in the future is not possible.
        after = subscriber.joined if self._after is None else min(self._after, subscriber.joined)
        events, skipped = await self._tails.missed(self._visit.project_id, after, subscriber.joined)
        tail.follow_deliveries(events)
        if skipped:
            await say(self._said(Skipped(skipped, subscriber.joined)))
        for event in events:
            if self._wanted(event):
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
                if not await self._lasts():
                    await say(f"event: over\n{_data({})}\n\n")
                    return
                looked_at = now
            if news is not None:
                position = news.position if isinstance(news, Skipped) else max(position, news.event.position)
                if isinstance(news, Skipped) or self._wanted(news.event):
                    await say(self._said(news))
                    spoken_at = now
            if now - spoken_at >= SILENT_FOR:
                # An id without data: nothing is shown, but the browser stores the position.
                await say(f"id: {position}\n\n")
                spoken_at = now

    async def _lasts(self) -> bool:
        """Whether the user who opened the page is still signed in and a member of the project."""
        visit, session = self._visit, self._visit.session
        assert session is not None, "the guard lets nobody in here who is not signed in"
        await self._wanted.look_up(visit)
        return await sessions.role_in(visit.database, session.token, visit.project_id, visit.services.now()) is not None

    def _said(self, news: News) -> str:
        match news:
            case Happened(event):
                return f"id: {event.position}\nevent: happened\n{_data(row_of(self._visit, event))}\n\n"
            case DeliveriesChanged(event):
                return f"event: deliveries\n{_data(row_of(self._visit, event))}\n\n"
            case Skipped(count, position):
                return f"id: {position}\nevent: skipped\n{_data({'count': count})}\n\n"


async def _left(receive: Receive) -> None:
    # After the request body, the only message is the disconnect.
    while (await receive())["type"] != "http.disconnect":
        pass


def _data(value: dict[str, Any]) -> str:
    """One line: encoded JSON contains no line breaks."""
    return f"data: {json.encode(value).decode()}"
