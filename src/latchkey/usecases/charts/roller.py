"""The charts behind a project's feed: what a batch of the roller (`usecases/rolling/roller.py`) writes for them.

A batch writes the facts of the customers that its events name, and the differences to what they had contributed before.
Facts are computed from the customers as they are now, not from the events, so processing a batch twice or late is
harmless.

Differences go to the tail of the project (`chart_tail`), which every answer reads besides the sums. Now and then the
tail is folded: added to the stored sums (`folding.py`). Facts of the future wait in `chart_ahead` until their time has
come; most of them are replaced before, by a renewal, and never touch a sum.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from secrets import randbelow
from typing import NamedTuple
from uuid import UUID

import structlog
from msgspec import json
from msgspec.structs import replace

from latchkey.domain.catalog import Catalog
from latchkey.domain.charts.facts.of_customer import facts_of
from latchkey.domain.charts.facts.subject import NO_ORIGIN, Issue, Origin, SubjectKey, paid_to, subjects_of
from latchkey.domain.customers.customer import Customer
from latchkey.domain.instants import HOUR, MINUTE, Ms
from latchkey.storage.catalog.catalogs import Catalogs
from latchkey.storage.charts import progress, subjects
from latchkey.storage.charts.progress import Batch, Newcomer, Roll
from latchkey.storage.charts.subjects import Issued, Known, SubjectRef
from latchkey.storage.database import Connection, Database
from latchkey.storage.outages import PASSING
from latchkey.storage.rolling.found import Count, Counted, Stretch
from latchkey.storage.rolling.progress import Batches, Wanted, next_batches
from latchkey.usecases.charts import books, folding, resumming
from latchkey.usecases.charts.books import Contributed, pseudonym
from latchkey.usecases.charts.folding import Part
from latchkey.usecases.charts.numbers import Asked, Numbers
from latchkey.usecases.rolling.rolled import NOTHING, Rolled, after_counting, next_step, reached, share
from latchkey.usecases.rolling.turns import in_turns
from latchkey.wire.event import Event


class Cubing:
    """One at a time. What is not begun is begun after another fold."""

    def __init__(self) -> None:
        self._running: asyncio.Task[None] | None = None

    def begin(self, database: Database, project_id: str, part: Part) -> None:
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(_logged(database, project_id, part))

    async def end(self) -> None:
        """Nothing of it is written, if it has not ended by itself."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)


async def cube(database: Database, project_id: str, part: Part) -> bool:
    """Returns whether it was done. If not, the blocks have changed, and it is done after another fold."""
    async with database.transaction(isolation="repeatable_read", readonly=True) as connection:
        change = await folding.cubed(connection, project_id, part)
    if not change.gone:
        return False
    async with database.transaction() as connection:
        held = await progress.hold(connection, project_id, wait=True)
        # If everything is being computed anew, these blocks are about to be deleted.
        return held is not None and held.rebuilding is None and await folding.put(connection, project_id, change)


async def _logged(database: Database, project_id: str, part: Part) -> None:
    try:
        await cube(database, project_id, part)
    except PASSING as error:
        log.warning("charts of a project were not added up", project_id=project_id, reason=str(error))
    except Exception:
        # Its charts stay right, and read more blocks than necessary.
        log.exception("charts of a project were not added up", project_id=project_id)


# New customers without an event, per transaction and project.
NEWCOMERS_AT_ONCE = 2_000
# The tail is folded when it is this old, if not before. A small tail costs answers less than folding it often would.
TAIL_WAITS: Ms = 2 * HOUR

log = structlog.get_logger()

_EVENT = json.Decoder(Event)


class Work:
    """What a roller keeps from batch to batch."""

    def __init__(self, catalogs: Catalogs, numbers: Numbers) -> None:
        self.catalogs = catalogs
        self.numbers = numbers
        self.cubing = Cubing()


class Ready(NamedTuple):
    rolled: Rolled
    # To keep in `Numbers` after the commit.
    numbers: Mapping[Asked, int]


async def roll(database: Database, work: Work, project_id: str, now: Ms, *, wait: bool = False) -> Rolled:
    """One batch of a project's charts alone. Without `wait`, a project that another process has locked is skipped."""
    async with database.transaction() as connection:
        held = await progress.hold(connection, project_id, wait=wait)
        if held is None:
            return NOTHING
        limit = share(1)
        wanted = Wanted(project_id, held.position, charts=True, lists=False)
        batches = Batches([], [])
        if held.rebuilding is None:
            batches = await next_batches(connection, [wanted], limit)
        done = await apply(connection, work, [held], batches.charts, limit, now)
    work.numbers.keep({project_id: held}, done.numbers)
    for id, part in await fold_full(database, done.rolled.full, now):
        await cube(database, id, part)
    return done.rolled


async def fold_full(database: Database, projects: Iterable[str], now: Ms) -> list[tuple[str, Part]]:
    """Folds the tails of these projects. It takes longer than a batch, so it has transactions of its own: the batch
    that filled the tail is in the charts before. Returns what should go to the cuboids."""
    found: list[tuple[str, Part]] = []
    for id in projects:
        try:
            async with database.transaction() as connection:
                held = await progress.hold(connection, id, wait=False)
                part = None
                # Another process may have done it, or has begun to compute everything anew.
                if held is not None and held.rebuilding is None and _is_full(held.tail, held.folded_at, now):
                    part = await folding.fold_tail(connection, id, now)
            if part is not None:
                found.append((id, part))
        except PASSING:
            raise
        except Exception:
            # Its charts stay right, and the next batch tries again.
            log.exception("charts of a project were not folded", project_id=id)
    return found


def _is_full(tail: int, folded_at: Ms, now: Ms) -> bool:
    return tail >= books.FOLD_AT or (tail > 0 and abs(now - folded_at) >= TAIL_WAITS)


async def catch_up(database: Database, project_id: str, now: Ms, *, most: int = 20_000) -> bool:
    """Processes up to `most` events of the feed. Returns whether the charts are now up to date."""
    work = Work(Catalogs(), Numbers())
    async with database.acquire() as connection:
        found = await progress.load(connection, project_id)
    head = 0 if found is None else found.head
    for _ in range(max(1, most // share(1))):
        more = (await roll(database, work, project_id, now, wait=True)).more
        async with database.acquire() as connection:
            found = await progress.load(connection, project_id)
        if found is not None and found.position >= head and not more:
            return True
    return False


async def settle(connection: Connection, project_id: str, customer: Customer, catalog: Catalog) -> None:
    """Writes the facts of a customer who is about to be erased: the sales stay in the charts."""
    held = await progress.hold(connection, project_id, wait=True)
    assert held is not None, "waiting for the lock gets it"
    places = {(project_id, pseudonym(key)): key for key in subjects_of(customer)}
    known = await subjects.known(connection, places)
    contributed = await _contributed(held, [(customer, NO_ORIGIN)], catalog, known)
    await books.write(connection, Numbers(), {project_id: held}, contributed, known, held.passed_to)
    # Whoever gets one of these purchases later has not paid for it.
    to = {pseudonym(key): at for key, at in paid_to(customer).items()}
    await subjects.keep_erased(connection, project_id, to)
    # Somebody who comes back with the same id is another customer.
    own = {pseudonym(("", id)) for id in customer.aliases}
    await subjects.rename(connection, project_id, {one: _random_like(one, held.summed_to) for one in own})


def _random_like(subject: UUID, summed_to: UUID | None) -> UUID:
    """A random key. During a rebuild, on the same side of the place that has been reached."""
    first, last = 0, 2**128 - 1
    if summed_to is not None:
        first, last = (0, summed_to.int) if subject <= summed_to else (summed_to.int + 1, last)
    return UUID(int=first + randbelow(last - first + 1))


async def apply(
    connection: Connection, work: Work, held: Sequence[Roll], batches: Sequence[Batch], limit: int, now: Ms
) -> Ready:
    """Writes these batches of up to `limit` events each; the transaction has locked the projects. A project whose sums
    are being computed anew has a step of that instead."""
    rebuilt = [one for one in held if one.rebuilding is not None]
    for roll in rebuilt:
        await resumming.step(connection, roll, now)
    rolls = {one.project_id: one for one in held if one.rebuilding is None}
    if not rolls:
        return Ready(Rolled(more=bool(rebuilt), uncounted=False), {})
    decoded = {batch.project_id: await _customers(batch) for batch in batches}
    await subjects.keep_issues(connection, [one for batch in batches for one in _issues(batch)])
    counts, newcomers, again = await _count(connection, rolls, batches, now)
    places = [
        (id, pseudonym(key)) for id, customers in decoded.items() for one, _ in customers for key in subjects_of(one)
    ]
    seen = {(one.project_id, pseudonym(("", one.first_id))): one for one in newcomers}
    known = await subjects.known(connection, {*places, *seen})
    contributed: dict[SubjectRef, Contributed] = {}
    catalogs: dict[str, Catalog] = {}
    counted = {one.project_id for one in newcomers}
    for batch in batches:
        id = batch.project_id
        if decoded[id] or id in counted:
            catalogs[id] = await work.catalogs.priced(connection, id, batch.catalog_version, batch.rates_version)
            contributed |= await _contributed(rolls[id], decoded[id], catalogs[id], known)
    late: list[tuple[str, int]] = []
    for place, one in seen.items():
        if place in contributed:
            continue
        if _must_be_read(one, known.get(place), catalogs[one.project_id]):
            late.append((one.project_id, one.key))
        elif place not in known or known[place].facts is None:
            contributed[place] = books.bare(one)
    await progress.mark(connection, late)
    advanced = {batch.project_id: _advanced(rolls[batch.project_id], batch, counts, limit) for batch in batches}
    moved = [id for id, roll in advanced.items() if roll != rolls[id] or now >= roll.passed_to + MINUTE]
    written = await books.write(connection, work.numbers, advanced, contributed, known, now, moved)
    tails = {id: written.tails.get(id, roll.tail) for id, roll in advanced.items()}
    rolled = Rolled(
        more=bool(rebuilt) or again or any(limit in (one.events, one.marks) for one in batches),
        uncounted=any(one.mark_id is not None for one in counts.values()),
        full=tuple(id for id, roll in advanced.items() if _is_full(tails[id], roll.folded_at, now)),
    )
    return Ready(rolled, written.numbers)


def _advanced(roll: Roll, batch: Batch, counts: Mapping[str, Count], limit: int) -> Roll:
    return replace(
        roll,
        position=reached(roll.position, batch.position, batch.head, batch.events, limit),
        rolled_to=roll.rolled_to if batch.committed_at is None else batch.committed_at,
        count=counts[roll.project_id],
    )


async def _count(
    connection: Connection, rolls: Mapping[str, Roll], batches: Sequence[Batch], now: Ms
) -> tuple[dict[str, Count], list[Newcomer], bool]:
    """The next step of counting new customers in each project, those to count now, and whether there are more."""
    counts: dict[str, Count] = {}
    ready: list[Stretch] = []
    for batch in batches:
        count, can_be_counted = next_step(rolls[batch.project_id].count, batch.seen, now)
        counts[batch.project_id] = count
        if can_be_counted and count.mark_id is not None:
            ready.append(Stretch(batch.project_id, count.counted, count.mark_id))
    if not ready:
        return counts, [], False
    newcomers = await progress.newcomers(connection, ready, NEWCOMERS_AT_ONCE)
    seen = {one.project_id: one.seen for one in batches}
    again = False
    for one in ready:
        id = one.project_id
        keys = [newcomer.key for newcomer in newcomers if newcomer.project_id == id]
        counted = Counted(len(keys), keys[-1]) if keys else None
        counts[id], more = after_counting(counts[id], counted, seen[id], now, NEWCOMERS_AT_ONCE)
        again = again or more
    return counts, newcomers, again


def _must_be_read(one: Newcomer, known: Known | None, catalog: Catalog) -> bool:
    """Whether the next batch has to look at this customer. Usually it is enough to know where they came from."""
    if one.described and catalog.chart_attributes:
        return True
    if known is None or known.facts is None:
        # Imported, so there was no event; or the event comes later.
        return one.bought
    # Counted before it was known where they came from: visits are written a second late.
    return known.origin == NO_ORIGIN and one.origin != NO_ORIGIN


async def _customers(batch: Batch) -> list[tuple[Customer, Origin]]:
    found: list[tuple[Customer, Origin]] = []
    async for one in in_turns(batch.customers):
        try:
            found.append((one.customer, progress.origin(one.platform, one.app_version, one.country)))
        except Exception:
            # One customer that cannot be decoded must not stop the charts of all others.
            log.exception("customer left out of charts", customer=one.key)
    return found


def _issues(batch: Batch) -> list[Issued]:
    """Of two events about one failure the later one counts: the store may have added a grace period."""
    found: dict[tuple[UUID, Ms, str], Issued] = {}
    for body in batch.issues:
        event = _EVENT.decode(body)
        if event.store and event.original_transaction_id and event.transaction_id:
            subject = pseudonym((event.store, event.original_transaction_id))
            key = subject, event.event_timestamp_ms, event.transaction_id
            found[key] = Issued(batch.project_id, *key, event.grace_period_expires_at_ms or None)
    return list(found.values())


async def _contributed(
    roll: Roll, customers: Sequence[tuple[Customer, Origin]], catalog: Catalog, known: Mapping[SubjectRef, Known]
) -> dict[SubjectRef, Contributed]:
    contributed: dict[SubjectRef, Contributed] = {}
    async for customer, seen in in_turns(customers):
        environments = subjects_of(customer)
        places = {key: (roll.project_id, pseudonym(key)) for key in environments}
        origins: dict[SubjectKey, Origin] = {}
        issues: dict[SubjectKey, tuple[Issue, ...]] = {}
        erased: dict[SubjectKey, Ms] = {}
        for key, place in places.items():
            before = known.get(place)
            # It stays as it was when the subject was first counted, unless nothing was known then.
            origins[key] = (before.origin if before is not None else None) or seen
            if origins[key] == NO_ORIGIN:
                origins[key] = seen
            if before is not None and before.issues:
                issues[key] = before.issues
            if before is not None and before.erased_to is not None:
                erased[key] = before.erased_to
        try:
            facts = facts_of(
                customer, catalog, origins=origins, issues=issues, attributes=catalog.chart_attributes, erased=erased
            )
        except Exception:
            subjects = [str(subject) for _, subject in places.values()]
            log.exception("customer left out of charts", project_id=roll.project_id, subjects=subjects)
            continue
        for key, found in facts.items():
            contributed[places[key]] = Contributed(environments[key], origins[key], found)
    return contributed
