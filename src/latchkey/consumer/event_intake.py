"""Applies events to the local copy: recording the id, handling and syncing are one transaction.

Events that arrive together share a transaction. The events of one user are processed one after the other: within a
process by the batch, between processes by the lock on the user's row.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from enum import StrEnum

import structlog
from msgspec import Struct, field
from sqlalchemy.exc import DataError, IntegrityError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from latchkey.consumer.rules.event_handlers import HANDLERS, Handling
from latchkey.consumer.rules.received_event import ReceivedEvent
from latchkey.consumer.rules.record import LocalCopy, marked_stale
from latchkey.consumer.rules.sync import AppliedEvent, apply_event
from latchkey.consumer.rules.timestamps import Ms
from latchkey.consumer.storage.consumer_storage import ConsumerStorage
from latchkey.consumer.storage.copies import LockedCopies
from latchkey.consumer.storage.jobs import NewJob

log = structlog.get_logger()

# Additional work in the events' transaction; returns whether it added jobs.
FollowUp = Callable[[AsyncConnection, Sequence[tuple[ReceivedEvent, LocalCopy]], Ms], Awaitable[bool]]

REREAD = "reread"
LARGEST_BATCH = 64


class EventOutcome(StrEnum):
    PROCESSED = "processed"
    DUPLICATE = "duplicate"
    # Recorded, but the copy waits for a re-read: the event was late, or has no entitlements.
    LATE = "late"


class Intake:
    def __init__(
        self,
        store: ConsumerStorage,
        now: Callable[[], Ms],
        *,
        jobs_added: Callable[[], None],
        follow_up: FollowUp | None = None,
    ) -> None:
        self._store = store
        self._follow_up = follow_up
        self._now = now
        self._jobs_added = jobs_added
        # Events that arrived while a batch is processed.
        self._waiting: list[tuple[ReceivedEvent, asyncio.Future[EventOutcome]]] = []
        self._running: asyncio.Task[None] | None = None

    async def receive(self, event: ReceivedEvent) -> EventOutcome:
        """The outcome, once it is committed. A single event does not wait for others."""
        future: asyncio.Future[EventOutcome] = asyncio.get_running_loop().create_future()
        self._waiting.append((event, future))
        if self._running is None:
            self._running = asyncio.create_task(self._run())
        return await future

    async def receive_or_set_aside(self, event: ReceivedEvent) -> EventOutcome | Exception:
        """The outcome; or why the event failed and is set aside."""
        try:
            return await self.receive(event)
        except Exception as error:
            log.exception("event failed", event_id=event.id, type=event.type)
            await self.set_aside(event, error)
            return error

    async def set_aside(self, event: ReceivedEvent, error: Exception) -> None:
        """Store an event that could not be processed, and schedule a re-read of its user."""
        now = self._now()

        async def work(connection: AsyncConnection) -> None:
            await self._store.events.put_aside(connection, event, f"{type(error).__name__}: {error}", now)
            await self._store.jobs.add(connection, [NewJob(REREAD, event.app_user_id)], now)

        await self._store.database.write(work)
        self._jobs_added()

    async def drain(self) -> None:
        if self._running is not None:
            await self._running

    async def _run(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:LARGEST_BATCH], self._waiting[LARGEST_BATCH:]
                outcomes = await self._work([event for event, _ in batch])
                for (_, future), outcome in zip(batch, outcomes, strict=True):
                    # The caller may have disconnected; the work is done anyway.
                    if future.done():
                        continue
                    if isinstance(outcome, Exception):
                        future.set_exception(outcome)
                    else:
                        future.set_result(outcome)
        finally:
            self._running = None

    async def _work(self, arrived: Sequence[ReceivedEvent]) -> list[EventOutcome | Exception]:
        # Of several copies of one event, the first is processed and the others are duplicates.
        firsts = list({event.id: event for event in reversed(arrived)}.values())[::-1]
        outcomes = await self._together(firsts)
        seen: set[str] = set()
        results: list[EventOutcome | Exception] = []
        for event in arrived:
            result = outcomes[event.id]
            again = event.id in seen and not isinstance(result, Exception)
            results.append(EventOutcome.DUPLICATE if again else result)
            seen.add(event.id)
        return results

    async def _together(self, events: list[ReceivedEvent]) -> dict[str, EventOutcome | Exception]:
        try:
            return dict(await self._commit(events))
        except Exception as error:
            if len(events) == 1 or not is_about_one_event(error):
                return {event.id: error for event in events}
        # One of them cannot be processed: process each on its own, so that the others are not affected.
        alone: dict[str, EventOutcome | Exception] = {}
        for event in events:
            alone |= await self._together([event])
        return alone

    async def _commit(self, events: list[ReceivedEvent]) -> dict[str, EventOutcome]:
        now = self._now()
        work = await self._store.database.write(lambda connection: self._process(connection, events, now))
        if work.reread or work.followed_up:
            self._jobs_added()
        # Bound once: finding the logger costs more than a line that is not written.
        logger = log.bind()
        for event in events:
            known = event.type in HANDLERS
            (logger.info if known else logger.warning)(
                "event" if known else "unknown event type",
                event_id=event.id,
                type=event.type,
                outcome=work.outcomes[event.id].value,
                **({"unread_fields": event.unread} if event.unread else {}),
            )
        return work.outcomes

    async def _process(self, connection: AsyncConnection, events: list[ReceivedEvent], now: Ms) -> _Work:
        store = self._store
        ids = {event.app_user_id for event in events}
        others = {id for event in events for id in event.other_ids | event.transfer_ids}
        locked = await store.copies.lock(connection, ids, others, [event.id for event in events])
        work = _Work(locked, dict(locked.canonical), dict(locked.copies))
        for event in events:
            if event.id in locked.processed:
                work.outcomes[event.id] = EventOutcome.DUPLICATE
            else:
                work.take(event, apply_event(work.copy_of(event), event, now, work.others_of(event)))
        if not work.done:
            return work
        for owner, named in work.names:
            await store.copies.name(connection, owner, named)
        await store.copies.save(connection, work.changed(), store.events.recorded(work.done, now))
        await store.events.note(connection, work.handled)
        await store.events.keep(connection, [event for event in work.done if event.unread], now)
        await store.jobs.add(connection, [NewJob(REREAD, id) for id in work.reread], now)
        if self._follow_up is not None:
            work.followed_up = await self._follow_up(connection, work.news, now)
        await store.events.take_back(connection, [event.id for event in work.done if event.id in locked.aside])
        return work


class _Work(Struct):
    locked: LockedCopies
    # Maps every id in the batch to the id its copy is stored under.
    canonical: dict[str, str]
    copies: dict[str, LocalCopy]
    outcomes: dict[str, EventOutcome] = {}
    done: list[ReceivedEvent] = []
    # An id and other ids that turned out to be the same customer, in the order of the events.
    names: list[tuple[str, set[str]]] = []
    reread: set[str] = field(default_factory=set)
    handled: list[Handling] = []
    # Events that were not late, each with the copy after it.
    news: list[tuple[ReceivedEvent, LocalCopy]] = []
    followed_up: bool = False

    def copy_of(self, event: ReceivedEvent) -> LocalCopy:
        return self.copies[self.canonical[event.app_user_id]]

    def others_of(self, event: ReceivedEvent) -> list[LocalCopy]:
        """Other existing copies under ids that the event names as the same customer's."""
        own = self.canonical[event.app_user_id]
        found = [self.copies.get(id) for id in sorted(event.other_ids) if id != own and self.canonical[id] == id]
        return [copy for copy in found if copy is not None and copy.subscription.exists]

    def take(self, event: ReceivedEvent, applied: AppliedEvent) -> None:
        owner = applied.copy.subscription.app_user_id
        self.copies[owner] = applied.copy
        self.outcomes[event.id] = EventOutcome.PROCESSED if applied.synced else EventOutcome.LATE
        self.done.append(event)
        self.handled.append(applied.handling)
        if applied.synced:
            self.news.append((event, applied.copy))
            self._name(owner, {id for id in event.other_ids if self.canonical[id] != owner and id != owner})
        self._ask(applied.reread)

    def _name(self, owner: str, fresh: set[str]) -> None:
        if not fresh:
            return
        self.names.append((owner, fresh))
        # An id that belonged to another copy until now: that copy lost an id, so read it again.
        self._ask({self.canonical[id] for id in fresh} - fresh)
        for id, leads_to in self.canonical.items():
            if id in fresh or leads_to in fresh:
                self.canonical[id] = owner
        for id in fresh:
            self.copies.pop(id, None)

    def _ask(self, ids: Collection[str]) -> None:
        """Schedule a re-read from V2. Until then their copies are marked stale; one that is stale already once more, so
        that an answer which is under way is not used: it may be from before."""
        self.reread.update(ids)
        for id in {self.canonical.get(id, id) for id in ids}:
            copy = self.copies.get(id)
            if copy is not None and copy.subscription.exists:
                self.copies[id] = marked_stale(copy)

    def changed(self) -> list[tuple[LocalCopy, LocalCopy]]:
        before = self.locked.copies
        return [(before[id], copy) for id, copy in self.copies.items() if copy is not before[id]]


def is_about_one_event(error: Exception) -> bool:
    """False for errors that affect the whole batch, such as a lost database connection."""
    return not isinstance(error, SQLAlchemyError | OSError) or isinstance(error, DataError | IntegrityError)
