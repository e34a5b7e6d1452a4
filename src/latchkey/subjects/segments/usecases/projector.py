"""A batch: how large it is, how far it brings a project, and what it left to do. The roller follows the feed of
events, but a new customer need not cause an event: those are counted by their keys."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import structlog
from msgspec import Struct
from msgspec.structs import replace

from latchkey.database.pool import Connection, Database
from latchkey.database.transient_errors import PASSING
from latchkey.domain.instants import MINUTE, SECOND, Ms
from latchkey.domain.refusal import found
from latchkey.engine.due_work import EVERY, Lookout, in_turns
from latchkey.engine.storage.catalog.catalogs import Catalogs
from latchkey.engine.storage.scans import Outlook, look_out
from latchkey.engine.storage.state import decode
from latchkey.subjects.search.usecases import newest
from latchkey.subjects.segments import storage
from latchkey.subjects.segments.rules.facets import Facets, facets_of
from latchkey.subjects.segments.storage import ProjectionBatch, Roll


class Rolled(Struct, frozen=True):
    # There is more to do at once.
    more: bool
    # Some customers are not counted yet.
    uncounted: bool

    def plus(self, other: Rolled) -> Rolled:
        return Rolled(self.more or other.more, self.uncounted or other.uncounted)


NOTHING: Final = Rolled(more=False, uncounted=False)

# Events per transaction: enough to be worth the round trips, few enough to take a tenth of a second. Also customers of
# the walk that makes lists.
AT_ONCE = 500


# Also how often newcomers are counted: more often would only cost more.
MOMENT: Ms = 5 * SECOND
# No transaction runs this long. In a database that was restored elsewhere, old transaction ids mean nothing.
_PATIENCE: Ms = 10 * MINUTE


def next_step(roll: Roll, batch: ProjectionBatch, now: Ms) -> tuple[Roll, bool]:
    """The first two steps. Returns whether the customers up to `mark_id` can be counted."""
    if roll.mark_id is None or roll.marked_at is None:
        return _marked(roll, roll.counted, batch, now), False
    waited = abs(now - roll.marked_at)
    if roll.mark_xid is None:
        if waited < MOMENT:
            return roll, False
        roll = replace(roll, mark_xid=batch.xid)
    return roll, batch.oldest_xid >= (roll.mark_xid or 0) or waited >= _PATIENCE


def _marked(roll: Roll, counted: int, batch: ProjectionBatch, now: Ms) -> Roll:
    mark = (batch.newest, now) if batch.newest > counted else (None, None)
    return replace(roll, counted=counted, mark_id=mark[0], mark_xid=None, marked_at=mark[1])


log = structlog.get_logger()


async def roll(database: Database, project_id: str, now: Ms) -> Rolled:
    """One batch of a project's lists alone."""
    async with database.transaction() as connection:
        held = await _held(connection, project_id)
        return await apply(connection, [held], now)


async def catch_up(database: Database, project_id: str, now: Ms, *, most: int = 200) -> bool:
    """Processes a project's feed and marks, and walks through its customers as far as it is safe. Returns whether
    nothing is left of the feed."""
    for _ in range(most):
        if not (await roll(database, project_id, now)).more:
            return True
    return False


async def rebuild(database: Database, project_id: str) -> None:
    """Deletes the facets of a project. The roller makes them anew, in the background: lists are short meanwhile."""
    async with database.transaction(statement_timeout_ms=0) as connection:
        await _held(connection, project_id)
        await storage.forget(connection, project_id)


async def _held(connection: Connection, project_id: str) -> Roll:
    return found(await storage.hold(connection, project_id), f"There is no project {project_id}.", "project_id")


async def apply(connection: Connection, held: Sequence[Roll], now: Ms) -> Rolled:
    """One batch of these projects, which the transaction has locked: their events and marks, and the next step of
    walking through their customers."""
    if not held:
        return NOTHING
    limit = max(1, AT_ONCE // len(held))
    batches = await storage.next_batches(connection, held, limit)
    kept = await _facets(customer for batch in batches for customer in batch.customers)
    before = {roll.project_id: roll for roll in held}
    steps = {batch.project_id: next_step(before[batch.project_id], batch, now) for batch in batches}
    ready = [roll for roll, is_safe in steps.values() if is_safe and roll.mark_id is not None]
    walked = await storage.stretch(connection, ready, limit) if ready else []
    for id, facets in (await _facets(walked)).items():
        kept[id] |= facets
    more = any(limit in (batch.events, batch.marks) for batch in batches)
    uncounted = False
    for batch in batches:
        id, (roll, _) = batch.project_id, steps[batch.project_id]
        if roll in ready and roll.mark_id is not None:
            # The third step.
            keys = [customer.key for customer in walked if customer.project_id == id]
            is_full = len(keys) == limit
            roll = replace(roll, counted=keys[-1]) if is_full else _marked(roll, roll.mark_id, batch, now)
            more = more or is_full
        uncounted = uncounted or roll.mark_id is not None
        # With fewer events than the limit all of the feed is processed: there may be gaps in it, after a restore.
        position = max(batch.head, roll.position) if batch.events < limit else batch.position
        roll = replace(roll, position=roll.position if position is None else position)
        if kept[id] or batch.gone or roll != before[id]:
            await storage.write_facets(connection, batch.gone, kept[id], roll)
    return Rolled(more, uncounted)


async def _facets(customers: Iterable[storage.StoredCustomer]) -> defaultdict[str, dict[int, Facets]]:
    """By project and the customer's key."""
    facets: defaultdict[str, dict[int, Facets]] = defaultdict(dict)
    async for stored in in_turns(customers):
        seen = stored.last_seen_at, stored.country
        try:
            if stored.state is not None:
                facets[stored.project_id][stored.key] = facets_of(decode(stored.state), *seen)
        except Exception:
            # One customer that cannot be decoded must not stop the lists of all others.
            log.exception("customer left out of lists", customer=stored.key)
    return facets


# Between two looks. The last customers are safe to read some seconds after they came.
_WAIT: Ms = SECOND // 2


async def rebuild_now(
    database: Database, project_id: str, now: Callable[[], Ms], reached: Callable[[int, int], None] | None = None
) -> None:
    """Deletes the facets and walks through all customers that there are now. The service's own roller may work on it at
    the same time. `reached` is told the key of the last customer that is in the lists, and the key of the newest."""
    last = (await newest(database, Catalogs(), project_id, now(), limit=1)).views
    await rebuild(database, project_id)
    while last:
        await catch_up(database, project_id, now())
        async with database.transaction() as connection:
            held = await storage.hold(connection, project_id)
        counted = held.counted if held is not None else last[0].key
        if reached is not None:
            reached(min(counted, last[0].key), last[0].key)
        if counted >= last[0].key:
            return
        await asyncio.sleep(_WAIT / SECOND)


# Projects per transaction.
PROJECTS = 50
# Seconds between two batches while there is more to do, so that purchases are not delayed.
_BREATH = 0.02
# How often projects are looked through for customers whose key became visible late.
_CHORES_EVERY: Ms = 1 * MINUTE


async def run_roller(lookout: Lookout, database: Database, now: Callable[[], Ms]) -> None:
    """Runs until the lookout ends. Several may run at once: each skips projects that another has locked."""
    roller = Roller(database)
    within: float | None = None
    while (seen := await lookout.until(lambda seen: roller.due(seen, now()), within=within)) is not None:
        within = None
        try:
            if await roller.roll(seen, now()):
                within = _BREATH
        except Exception:
            # The database may be unreachable. Lists are then late; nothing else depends on them.
            log.exception("customer lists failed")


class Roller:
    """Follows each project's feed and keeps its customer lists up to date: decides when to roll."""

    def __init__(self, database: Database) -> None:
        self._database = database
        # When chores were last done, the last customer's key then, and whether customers were left to count.
        self._looked_at: Ms | None = None
        self._newest = 0
        self._uncounted = False

    async def turn(self, now: Ms) -> float:
        """Looks, and rolls if it is due. Returns how many seconds to wait before the next turn."""
        seen = await look_out(self._database)
        return _BREATH if self.due(seen, now) is not None and await self.roll(seen, now) else EVERY

    def due(self, seen: Outlook, now: Ms) -> Ms | None:
        return now if seen.behind or seen.unstarted or self._chores(seen.newest, now) else None

    async def roll(self, seen: Outlook, now: Ms) -> bool:
        """Rolls what is behind. Returns whether there is more to do at once."""
        if seen.unstarted:
            await storage.start(self._database, None)
        chores = self._chores(seen.newest, now)
        rolled = await roll_all(self._database, now, chores=chores)
        if chores:
            # With more than one batch to count, as after an import, the next turn goes on at once.
            self._looked_at = None if rolled.more else now
            self._newest, self._uncounted = seen.newest, rolled.uncounted
        return rolled.more

    def _chores(self, newest: int, now: Ms) -> bool:
        if self._looked_at is None:
            return True
        waited = abs(now - self._looked_at)
        return waited >= (MOMENT if self._uncounted or newest != self._newest else _CHORES_EVERY)


async def roll_all(database: Database, now: Ms, *, chores: bool = True) -> Rolled:
    """One batch of every project that is behind; with `chores` also of those that have customers to count."""
    after, all_rolled = "", NOTHING
    while True:
        held: list[Roll] = []
        try:
            async with database.transaction() as connection:
                held = await storage.take_behind(connection, after, PROJECTS, chores, now, MOMENT)
                rolled = await apply(connection, held, now)
        except PASSING:
            raise
        except Exception:
            if not held:
                raise
            # One project on which the rules fail must not stop the others.
            rolled = await _one_by_one(database, held, now)
        all_rolled = all_rolled.plus(rolled)
        if len(held) < PROJECTS:
            return all_rolled
        after = held[-1].project_id


async def _one_by_one(database: Database, held: Sequence[Roll], now: Ms) -> Rolled:
    rolled = NOTHING
    for one in held:
        try:
            rolled = rolled.plus(await roll(database, one.project_id, now))
        except PASSING:
            raise
        except Exception:
            log.exception("customer lists of a project failed", project_id=one.project_id)
    return rolled
