"""Finds and corrects what was missed: first events of the feed that never arrived, then differences to V2."""

import asyncio
from collections.abc import AsyncIterator, Callable

import structlog
from msgspec import Struct
from sqlalchemy import select

from latchkey.client.client_errors import ClientError, NotFound
from latchkey.consumer.billing_service import BillingService, is_away
from latchkey.consumer.event_intake import EventOutcome, Intake
from latchkey.consumer.rules.received_event import MalformedEvent, ReceivedEvent, read_event
from latchkey.consumer.rules.record import LocalCopy
from latchkey.consumer.rules.sync import has_restarted
from latchkey.consumer.rules.timestamps import HOUR, Ms, iso_or_none
from latchkey.consumer.storage.consumer_storage import ConsumerStorage
from latchkey.consumer.storage.copy_tables import aliases, subscriptions

log = structlog.get_logger()

CURSOR = "feed"
SET_BACK = "the service has told fewer events than arrived: it was restored from a backup, or the user is new there"
# No user waits for a reconciliation, so it may wait for the rate limit.
DEADLINE = 180.0
PAGE = 200
# One sweep delays other jobs only briefly, and leaves most of the rate limit to users.
SWEEP_PAGES = 20
SWEEP_USERS = 40
SWEEP_DEADLINE = 10.0


class MissedEvent(Struct, frozen=True):
    event_id: str
    event_type: str
    app_user_id: str
    outcome: str


class Difference(Struct, frozen=True):
    app_user_id: str
    local: dict[str, str | None]
    service: dict[str, str | None] | None
    why: str
    mended: bool


class ReconcileReport(Struct):
    events_examined: int = 0
    events_missed: list[MissedEvent] = []
    events_unreadable: list[str] = []
    users_compared: int = 0
    differences: list[Difference] = []
    # Users, or the feed, that could not be read, with the reason.
    failures: dict[str, str] = {}
    # One of them says that the service answers nobody now.
    service_away: bool = False

    @property
    def clean(self) -> bool:
        return not (self.events_missed or self.events_unreadable or self.differences or self.failures)


class Reconciler:
    def __init__(self, store: ConsumerStorage, billing: BillingService, intake: Intake, now: Callable[[], Ms]) -> None:
        self._store = store
        self._billing = billing
        self._intake = intake
        self._now = now

    async def everything(self, *, mend: bool = True, from_start: bool = False) -> ReconcileReport:
        """All events since the last run, or from the start, and all users."""
        report = ReconcileReport()
        await self._feed(report, mend=mend, from_start=from_start, pages=None, deadline=DEADLINE)
        async for copy in self._all():
            await self._compare(report, copy, mend=mend, deadline=DEADLINE)
        return report

    async def sweep(self) -> ReconcileReport:
        """A part of it, small enough to run every few minutes in the background."""
        report = ReconcileReport()
        await self._feed(report, mend=True, from_start=False, pages=SWEEP_PAGES, deadline=SWEEP_DEADLINE)
        for user in await self._longest_unread():
            if report.service_away:
                break
            # Before it, so that a user who is gone or cannot be read is not asked about first every time.
            await self._note_asked(user)
            if (copy := await self._billing.local(user)) is not None:
                await self._compare(report, copy, mend=True, deadline=SWEEP_DEADLINE)
        if not report.clean:
            log.warning(
                "sweep found differences",
                events_missed=len(report.events_missed),
                users=[difference.app_user_id for difference in report.differences],
                failures=report.failures,
            )
        return report

    async def _feed(
        self, report: ReconcileReport, *, mend: bool, from_start: bool, pages: int | None, deadline: float
    ) -> None:
        cursor = None if from_start else await self._store.events.progress(CURSOR)
        while pages is None or pages > 0:
            pages = pages - 1 if pages is not None else None
            try:
                page = await self._billing.events(cursor, deadline)
            except NotFound:
                if cursor is None:
                    raise
                # Unknown cursor: the service was set up again. Restart from the first event.
                cursor = None
                continue
            except ClientError as error:
                _note_failure(report, "feed", error)
                return
            events = self._readable(report, [bytes(raw) for raw in page.items])
            report.events_examined += len(page.items)
            await self._catch_up(report, events, mend=mend)
            if events:
                cursor = events[-1].id
                if mend:
                    await self._store.events.set_progress(CURSOR, cursor, self._now())
            if page.next_page is None:
                return

    def _readable(self, report: ReconcileReport, bodies: list[bytes]) -> list[ReceivedEvent]:
        events = []
        for body in bodies:
            try:
                events.append(read_event(body))
            except MalformedEvent:
                report.events_unreadable.append(body[:200].decode(errors="replace"))
        return events

    async def _catch_up(self, report: ReconcileReport, events: list[ReceivedEvent], *, mend: bool) -> None:
        async with self._store.database.reading() as connection:
            known = await self._store.events.processed(connection, [event.id for event in events])
        missed = [event for event in events if event.id not in known]
        outcomes = (
            await asyncio.gather(*(self._receive(event) for event in missed)) if mend else ["not mended"] * len(missed)
        )
        report.events_missed += [
            MissedEvent(event.id, event.type, event.app_user_id, outcome)
            for event, outcome in zip(missed, outcomes, strict=True)
            # It arrived on its own between the check and the attempt.
            if outcome != EventOutcome.DUPLICATE
        ]

    async def _receive(self, event: ReceivedEvent) -> str:
        outcome = await self._intake.receive_or_set_aside(event)
        return "set aside" if isinstance(outcome, Exception) else outcome.value

    async def _compare(self, report: ReconcileReport, copy: LocalCopy, *, mend: bool, deadline: float) -> None:
        user = copy.subscription.app_user_id
        for alias in await self._ids(select(aliases.c.alias).where(aliases.c.app_user_id == user)):
            await self._compare_alias(report, alias, user, mend=mend, deadline=deadline)
        now = self._now()
        report.users_compared += 1
        try:
            reading = await self._billing.read(user, details=False, deadline=deadline)
            service: dict[str, str | None] | None = _written(reading.held(now))
            same_id = reading.customer_id == user
            set_back = has_restarted(reading, copy.subscription)
        except NotFound:
            service, same_id, set_back = None, True, False
        except ClientError as error:
            _note_failure(report, user, error)
            return
        local = _written({id: row.expires_at for id, row in copy.held(now).items()})
        if same_id and local == (service or {}) and not copy.subscription.stale and not set_back:
            if service is not None and mend:
                await self._seen(user, copy)
            return
        mended = False
        if mend:
            try:
                mended = await self._billing.refresh(user, details=True, deadline=deadline) is not None
            except ClientError as error:
                _note_failure(report, user, error)
        if local == (service or {}) and same_id and not set_back:
            # No visible difference: only a re-read was still pending.
            return
        why = SET_BACK if set_back else _why(report, copy, service, same_id)
        report.differences.append(Difference(user, local, service, why, mended))

    async def _compare_alias(
        self, report: ReconcileReport, alias: str, user: str, *, mend: bool, deadline: float
    ) -> None:
        """Whether the id still leads to that customer. After an erasure it may be another's, and no event tells it."""
        now = self._now()
        try:
            reading = await self._billing.read(alias, details=False, deadline=deadline)
            if reading.customer_id == user:
                return
            mended = mend and await self._billing.refresh(alias, details=True, deadline=deadline) is not None
        except NotFound:
            return
        except ClientError as error:
            _note_failure(report, alias, error)
            return
        service = _written(reading.held(now))
        report.differences.append(Difference(alias, {}, service, f"it is no longer an alias of {user}", mended))

    async def _note_asked(self, user: str) -> None:
        asked = subscriptions.update().where(subscriptions.c.app_user_id == user)
        await self._store.database.write(
            lambda connection: connection.execute(asked.values(last_revenue_sync_at=self._now()))
        )

    async def _seen(self, user: str, copy: LocalCopy) -> None:
        """Checked and correct."""
        same = subscriptions.c.app_user_id == user, subscriptions.c.revision == copy.subscription.revision
        now = self._now()
        confirmed = subscriptions.update().where(*same).values(last_revenue_sync_at=now, last_updated=now)
        await self._store.database.write(lambda connection: connection.execute(confirmed))

    async def _all(self) -> AsyncIterator[LocalCopy]:
        last = ""
        while True:
            chosen = select(subscriptions.c.app_user_id).where(
                subscriptions.c.app_user_id > last, subscriptions.c.last_updated.is_not(None)
            )
            ids = await self._ids(chosen.order_by(subscriptions.c.app_user_id).limit(PAGE))
            for id in ids:
                if (copy := await self._billing.local(id)) is not None:
                    yield copy
            if not ids:
                return
            last = ids[-1]

    async def _longest_unread(self) -> list[str]:
        read_at = subscriptions.c.last_revenue_sync_at
        due = (read_at.is_(None)) | (read_at < self._now() - HOUR)
        chosen = select(subscriptions.c.app_user_id).where(due, subscriptions.c.last_updated.is_not(None))
        return await self._ids(chosen.order_by(read_at.nulls_first()).limit(SWEEP_USERS))

    async def _ids(self, chosen: object) -> list[str]:
        async with self._store.database.reading() as connection:
            return list((await connection.scalars(chosen)).all())  # type: ignore[call-overload]  # a select of ids


def _note_failure(report: ReconcileReport, what: str, error: ClientError) -> None:
    report.failures[what] = str(error)
    report.service_away |= is_away(error)


def _written(held: dict[str, Ms | None]) -> dict[str, str | None]:
    """To the second, rounded up: webhooks write ends like that, V2 has milliseconds."""
    return {id: iso_or_none(ends_at + 999 if ends_at else None) for id, ends_at in sorted(held.items())}


def _why(report: ReconcileReport, copy: LocalCopy, service: dict[str, str | None] | None, same_id: bool) -> str:
    user = copy.subscription.app_user_id
    if service is None:
        return "the service does not know the user (any more)"
    if not same_id:
        return "the id has become an alias of another customer"
    missed = [f"{event.event_type} {event.event_id}" for event in report.events_missed if event.app_user_id == user]
    if missed:
        return f"events had not arrived: {', '.join(missed)}"
    if copy.subscription.stale:
        return "a re-read after a late event was still waiting"
    return "it changed without an event that reached us"
