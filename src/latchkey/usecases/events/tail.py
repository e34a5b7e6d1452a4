"""The live view of a project: new events, and changes of their deliveries, as they are committed.

`Tails` is the live view of a process. It keeps one `Tail` for each project that somebody watches. A `Tail` polls the
database in one task, however many subscribers there are, and puts each piece of news into the queue of every
`Subscriber`. The news are three: an event `Happened`, the deliveries of an event `Moved`, or events were `Skipped`.

No event is missed: positions in the feed become visible in order, so whoever knows the last position it saw asks for
the events after it (`Tails.missed`) and then reads on from its queue. A subscriber who is too slow is dropped
(`overrun`) and begins again in the same way.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import structlog

from latchkey.storage.database import Database
from latchkey.storage.outages import PASSING
from latchkey.usecases.events import listing as event_list
from latchkey.usecases.events.listing import Listed

log = structlog.get_logger()

# Seconds between two polls, and after the database did not answer.
EVERY = 0.3
AFTER_OUTAGE = 2.0
BATCH = 500
# A subscriber who is further behind gets a `Skipped` with the number of events left out.
FURTHEST = 2_000
# How many of the newest events are polled for changes of their deliveries.
FOLLOWED = 200
# Queue size per subscriber. When it is full the subscriber is dropped; it reconnects and asks for what it missed.
LONGEST_QUEUE = 1_000
MOST_SUBSCRIBERS = 200


@dataclass(frozen=True, slots=True)
class Happened:
    event: Listed


@dataclass(frozen=True, slots=True)
class Moved:
    """The deliveries of an event that was sent before have changed."""

    event: Listed


@dataclass(frozen=True, slots=True)
class Skipped:
    """This many events in a row were left out."""

    count: int
    position: int


News = Happened | Moved | Skipped


class Subscriber:
    """Gets what happens after position `joined`."""

    def __init__(self, joined: int) -> None:
        self.joined = joined
        self.overrun = False
        self._queue: asyncio.Queue[News] = asyncio.Queue(LONGEST_QUEUE)

    def put(self, news: News) -> None:
        try:
            self._queue.put_nowait(news)
        except asyncio.QueueFull:
            self.overrun = True

    async def next(self, patience: float) -> News | None:
        """The next news, or None if none came for `patience` seconds."""
        try:
            return await asyncio.wait_for(self._queue.get(), patience)
        except TimeoutError:
            return None


class Tail:
    """The end of one project's feed."""

    def __init__(self, database: Database, project_id: str) -> None:
        self.subscribers: set[Subscriber] = set()
        self.position = 0
        self._database = database
        self._project_id = project_id
        # The newest events that still have waiting deliveries, by position.
        self._open: dict[int, Listed] = {}
        self._task: asyncio.Task[None] | None = None

    async def join(self) -> Subscriber:
        if self._task is None:
            head = await event_list.head_of(self._database, self._project_id)
            # Another `join` may have started the task meanwhile.
            if self._task is None:
                self.position = head
                self._task = asyncio.create_task(self._follow())
        subscriber = Subscriber(self.position)
        self.subscribers.add(subscriber)
        return subscriber

    def leave(self, subscriber: Subscriber) -> None:
        self.subscribers.discard(subscriber)
        if not self.subscribers and self._task is not None:
            self._task.cancel()
            self._task = None

    def follow_deliveries(self, events: Iterable[Listed]) -> None:
        """Report when the deliveries of these events change."""
        for event in events:
            if event.deliveries.waiting:
                self._open.setdefault(event.position, event)
        for position in sorted(self._open)[:-FOLLOWED]:
            del self._open[position]

    async def _follow(self) -> None:
        while True:
            try:
                await self._look()
                await asyncio.sleep(EVERY)
            except PASSING as error:
                log.warning("database away", reason=str(error) or type(error).__name__, again_in=AFTER_OUTAGE)
                await asyncio.sleep(AFTER_OUTAGE)

    async def _look(self) -> None:
        events = await event_list.events_after(self._database, self._project_id, self.position, BATCH)
        if events:
            self.position = events[-1].position
            self._tell(Happened(one) for one in events)
            self.follow_deliveries(events)
        if len(events) == BATCH:
            await self._jump()
        if self._open:
            followed = list(self._open.values())
            for before, after in zip(
                followed, await event_list.retallied(self._database, self._project_id, followed), strict=True
            ):
                if after.deliveries != before.deliveries:
                    self._tell([Moved(after)])
                    self._open[after.position] = after
                if not after.deliveries.waiting:
                    self._open.pop(after.position, None)

    async def _jump(self) -> None:
        head = await event_list.head_of(self._database, self._project_id)
        if head - self.position > FURTHEST:
            skipped, self.position = head - self.position, head
            self._tell([Skipped(skipped, head)])

    def _tell(self, news: Iterable[News]) -> None:
        for one in news:
            for subscriber in self.subscribers:
                subscriber.put(one)


class Tails:
    """All live views of this process, by project."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._tails: dict[str, Tail] = {}
        # How many subscribers each project has, those included who are still joining.
        self._subscribed: Counter[str] = Counter()

    @property
    def full(self) -> bool:
        return self._subscribed.total() >= MOST_SUBSCRIBERS

    @asynccontextmanager
    async def subscribe(self, project_id: str) -> AsyncIterator[tuple[Tail, Subscriber]]:
        tail = self._tails.setdefault(project_id, Tail(self._database, project_id))
        self._subscribed[project_id] += 1
        try:
            subscriber = await tail.join()
            try:
                yield tail, subscriber
            finally:
                tail.leave(subscriber)
        finally:
            self._subscribed[project_id] -= 1
            if not self._subscribed[project_id]:
                del self._subscribed[project_id], self._tails[project_id]

    async def missed(self, project_id: str, after: int, until: int) -> tuple[Sequence[Listed], int]:
        """The events between two positions; if they are too many, none of them and their number."""
        if until - after > FURTHEST:
            return [], until - after
        found: list[Listed] = []
        while after < until:
            events = await event_list.events_after(self._database, project_id, after, min(BATCH, until - after))
            if not events:
                break
            found += (one for one in events if one.position <= until)
            after = events[-1].position
        return found, 0
