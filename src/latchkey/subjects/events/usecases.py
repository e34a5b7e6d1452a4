"""The feed of events, oldest first; events for the dashboard, newest first, and as they are committed. A page with a
filter for a rare type costs no more than any other page."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager

import structlog
from msgspec import Struct

from latchkey.database.pool import Database
from latchkey.database.transient_errors import PASSING
from latchkey.domain.refusal import found
from latchkey.engine.storage import event_feed, state
from latchkey.subjects.events import storage
from latchkey.subjects.events.rules import EventDetails, EventFilter, ListedEvent

log = structlog.get_logger()

# How many events a page examines at most to find those that match. Measured: 13 ms, from a cold disk 100.
EXAMINED = 25_000
# Customers of a test clock whose events a page shows.
CLOCK_CUSTOMERS = 100


class EventPage(Struct, frozen=True):
    events: Sequence[ListedEvent]
    # The position of the newest event when the page was read. A live view continues from here.
    head: int
    # Where the next page begins. A short or empty page may still have a next one.
    before: int | None


async def page_of_newest(
    database: Database, project_id: str, chosen: EventFilter, *, before: int | None = None, limit: int = 50
) -> EventPage:
    async with database.acquire() as connection:
        # Read first: an event that commits meanwhile is not on this page, but a live view gets it.
        head = await storage.head(connection, project_id) or 0
        start = min(before if before is not None else head + 1, head + 1)
        fitting = chosen.type, chosen.environment, limit + 1
        if chosen.customer_id is not None:
            known = await state.key_of(connection, project_id, chosen.customer_id)
            key = found(known, f"There is no customer {chosen.customer_id!r}.", "customer")
            events = await storage.newest_of_customer(connection, project_id, key, start, *fitting)
            floor = 1
        else:
            filtered = chosen.type is not None or chosen.environment is not None
            floor = max(start - EXAMINED, 1) if filtered else 1
            events = await storage.newest(connection, project_id, start, floor, *fitting)
        shown = await storage.tallied(connection, project_id, events[:limit])
        if len(events) > limit:
            return EventPage(shown, head, shown[-1].position)
        # Positions have a large gap after a restore, so the next page begins at an event.
        older = await storage.newest(connection, project_id, floor, 1, None, None, 1)
    return EventPage(shown, head, older[0].position + 1 if older else None)


async def newest_of_clock(database: Database, project_id: str, test_clock_id: str, limit: int = 50) -> EventPage:
    """The newest events of a test clock's customers."""
    async with database.acquire() as connection:
        head = await storage.head(connection, project_id) or 0
        events = await storage.newest_of_clock(connection, project_id, test_clock_id, CLOCK_CUSTOMERS, head, limit)
        return EventPage(await storage.tallied(connection, project_id, events), head, None)


async def events_after(database: Database, project_id: str, position: int, limit: int) -> Sequence[ListedEvent]:
    """Events after a position, oldest first."""
    return await storage.tallied(database, project_id, await storage.after(database, project_id, position, limit))


async def show_event(database: Database, project_id: str, event_id: str) -> EventDetails:
    shown = await storage.load(database, project_id, event_id)
    return found(shown, f"There is no event {event_id!r} in this project.", "event_id")


customer_key = state.key_of


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


class Happened(Struct, frozen=True):
    event: ListedEvent


class DeliveriesChanged(Struct, frozen=True):
    """The deliveries of an event that was sent before have changed."""

    event: ListedEvent


class Skipped(Struct, frozen=True):
    """This many events in a row were left out."""

    count: int
    position: int


News = Happened | DeliveriesChanged | Skipped


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
        self._open: dict[int, ListedEvent] = {}
        self._task: asyncio.Task[None] | None = None

    async def join(self) -> Subscriber:
        if self._task is None:
            head = await storage.head(self._database, self._project_id) or 0
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

    def follow_deliveries(self, events: Iterable[ListedEvent]) -> None:
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
        events = await events_after(self._database, self._project_id, self.position, BATCH)
        if events:
            self.position = events[-1].position
            self._tell(Happened(event) for event in events)
            self.follow_deliveries(events)
        if len(events) == BATCH:
            await self._jump()
        if self._open:
            followed = list(self._open.values())
            for before, after in zip(
                followed, await storage.tallied(self._database, self._project_id, followed), strict=True
            ):
                if after.deliveries != before.deliveries:
                    self._tell([DeliveriesChanged(after)])
                    self._open[after.position] = after
                if not after.deliveries.waiting:
                    self._open.pop(after.position, None)

    async def _jump(self) -> None:
        head = await storage.head(self._database, self._project_id) or 0
        if head - self.position > FURTHEST:
            skipped, self.position = head - self.position, head
            self._tell([Skipped(skipped, head)])

    def _tell(self, news: Iterable[News]) -> None:
        for item in news:
            for subscriber in self.subscribers:
                subscriber.put(item)


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

    async def missed(self, project_id: str, after: int, until: int) -> tuple[Sequence[ListedEvent], int]:
        """The events between two positions; if they are too many, none of them and their number."""
        if until - after > FURTHEST:
            return [], until - after
        missed: list[ListedEvent] = []
        while after < until:
            events = await events_after(self._database, project_id, after, min(BATCH, until - after))
            if not events:
                break
            missed += (event for event in events if event.position <= until)
            after = events[-1].position
        return missed, 0


class FeedPage(Struct, frozen=True):
    """Event bodies exactly as delivered, and whether there are more."""

    bodies: list[bytes]
    more: bool


async def page_of_events(
    database: Database, project_id: str, *, after: str | None, limit: int, app_user_id: str | None = None
) -> FeedPage:
    """A page of a project's or a customer's events; `after` is the id of the last event seen."""
    missing, param = f"There is no event {after!r} to start after.", "starting_after"
    async with database.acquire() as connection:
        if app_user_id is None and after is not None:
            # One statement: most pages are read this way.
            page = found(await event_feed.bodies_after(connection, project_id, after, limit + 1), missing, param)
            return FeedPage(page[:limit], len(page) > limit)
        position = 0
        if after is not None:
            position = found(await event_feed.position_of(connection, project_id, after), missing, param)
        if app_user_id is None:
            bodies = await event_feed.bodies(connection, project_id, position, limit + 1)
        else:
            known = await state.key_of(connection, project_id, app_user_id)
            key = found(known, f"There is no customer {app_user_id!r}.", "customer_id")
            bodies = await event_feed.bodies_of_customer(connection, project_id, key, position, limit + 1)
    return FeedPage(bodies[:limit], len(bodies) > limit)
