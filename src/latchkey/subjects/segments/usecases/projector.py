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
from latchkey.subjects.search.usecases import newest
from latchkey.subjects.segments import storage
from latchkey.subjects.segments.rules.facets import Facets, facets_of


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


def share(projects: int) -> int:
    """Of each of so many projects."""
    return max(1, AT_ONCE // projects)


def reached(before: int, position: int | None, head: int, events: int, limit: int) -> int:
    """The position after a batch. With fewer events than the limit all of the feed is processed: there may be gaps in
    it, after a restore."""
    if events < limit:
        return max(head, before)
    return before if position is None else position


# Also how often newcomers are counted: more often would only cost more.
MOMENT: Ms = 5 * SECOND
# No transaction runs this long. In a database that was restored elsewhere, old transaction ids mean nothing.
_PATIENCE: Ms = 10 * MINUTE


def next_step(
    count: storage.CountProgress, seen: storage.VisibleTransactions, now: Ms
) -> tuple[storage.CountProgress, bool]:
    """The first two steps. Returns whether the customers up to `mark_id` can be counted."""
    if count.mark_id is None or count.marked_at is None:
        return _marked(count.counted, seen, now), False
    waited = abs(now - count.marked_at)
    if count.mark_xid is None:
        if waited < MOMENT:
            return count, False
        count = replace(count, mark_xid=seen.xid)
    return count, seen.oldest_xid >= (count.mark_xid or 0) or waited >= _PATIENCE


def after_counting(
    count: storage.CountProgress, keys: Sequence[int], seen: storage.VisibleTransactions, now: Ms, most: int
) -> tuple[storage.CountProgress, bool]:
    """The third step was taken, for at most `most` customers. Returns whether it must be taken again at once."""
    if len(keys) == most:
        return replace(count, counted=keys[-1]), True
    assert count.mark_id is not None, "without a mark nothing is counted"
    return _marked(count.mark_id, seen, now), False


def _marked(counted: int, seen: storage.VisibleTransactions, now: Ms) -> storage.CountProgress:
    return (
        storage.CountProgress(counted, seen.newest, None, now)
        if seen.newest > counted
        else storage.CountProgress(counted, None, None, None)
    )


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


async def _held(connection: Connection, project_id: str) -> storage.Roll:
    return found(await storage.hold(connection, project_id), f"There is no project {project_id}.", "project_id")


async def apply(connection: Connection, held: Sequence[storage.Roll], now: Ms) -> Rolled:
    """One batch of these projects, which the transaction has locked."""
    if not held:
        return NOTHING
    limit = share(len(held))
    batches = await storage.next_batches(connection, held, limit)
    kept = await _facets(customer for batch in batches for customer in batch.customers)
    counts, walked, again = await _walk(connection, held, batches, limit, now)
    for id, facets in (await _facets(one.customer for one in walked if one.customer is not None)).items():
        kept[id] |= facets
    known = {one.project_id: one for one in held}
    for batch in batches:
        id, before = batch.project_id, known[batch.project_id]
        roll = storage.Roll(id, reached(before.position, batch.position, batch.head, batch.events, limit), counts[id])
        if kept[id] or batch.gone or roll != before:
            await storage.write_facets(connection, batch.gone, kept[id], roll)
    more = again or any(limit in (projection_batch.events, projection_batch.marks) for projection_batch in batches)
    return Rolled(more, any(count.mark_id is not None for count in counts.values()))


async def _walk(
    connection: Connection,
    held: Sequence[storage.Roll],
    batches: Sequence[storage.ProjectionBatch],
    limit: int,
    now: Ms,
) -> tuple[dict[str, storage.CountProgress], list[storage.Walked], bool]:
    """The next step of walking through the customers of each project: where it is then, the customers it came to, and
    whether there is another step to take at once."""
    before = {one.project_id: one.count for one in held}
    counts: dict[str, storage.CountProgress] = {}
    ready: list[storage.CountRange] = []
    for batch in batches:
        count, is_safe = next_step(before[batch.project_id], batch.seen, now)
        counts[batch.project_id] = count
        if is_safe and count.mark_id is not None:
            ready.append(storage.CountRange(batch.project_id, count.counted, count.mark_id))
    if not ready:
        return counts, [], False
    rows = await storage.stretch(connection, ready, limit)
    seen = {batch.project_id: batch.seen for batch in batches}
    again = False
    for id, *_ in ready:
        keys = [row.key for row in rows if row.project_id == id]
        counts[id], more = after_counting(counts[id], keys, seen[id], now, limit)
        again = again or more
    return counts, rows, again


async def _facets(customers: Iterable[storage.StoredCustomer]) -> defaultdict[str, dict[int, Facets]]:
    """By project and the customer's key."""
    facets: defaultdict[str, dict[int, Facets]] = defaultdict(dict)
    async for in_turn in in_turns(customers):
        try:
            facets[in_turn.project_id][in_turn.key] = facets_of(
                in_turn.customer(), in_turn.last_seen_at, in_turn.country
            )
        except Exception:
            # One customer that cannot be decoded must not stop the lists of all others.
            log.exception("customer left out of lists", customer=in_turn.key)
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
        counted = held.count.counted if held is not None else last[0].key
        if reached is not None:
            reached(min(counted, last[0].key), last[0].key)
        if counted >= last[0].key:
            return
        await asyncio.sleep(_WAIT / SECOND)


# Projects per transaction.
PROJECTS = 50
# Seconds between two batches while there is more to do, so that purchases are not delayed.
_BREATH = 0.02
# What is left of the time that a batch took, when the next one has ended.
_FADES = 0.7
# How often projects are looked through for customers whose key became visible late.
_CHORES_EVERY: Ms = 1 * MINUTE


async def run_roller(lookout: Lookout, database: Database, now: Callable[[], Ms]) -> None:
    """Runs until the lookout ends. Several may run at once: each skips projects that another has locked."""
    roller = Roller(database)
    within: float | None = None
    # How long batches take: the longest of the last ones.
    slow = 0.0
    time = asyncio.get_running_loop().time
    while (seen := await lookout.until(lambda seen: roller.due(seen, now()), within=within)) is not None:
        began = time()
        try:
            more = await roller.roll(seen, now())
            slow = max(time() - began, _FADES * slow)
            within = _BREATH if more else pause_after(slow)
        except Exception:
            # The database may be unreachable. Lists are then late; nothing else depends on them.
            log.exception("customer lists failed")
            within = None


def pause_after(took: float) -> float:
    """How many seconds after a batch the next look begins, if batches take so long. What was committed while a batch
    ran waits for that look and for the next batch, together less than a second, also if that takes twice as long. If
    batches take long, they follow each other."""
    return max(_BREATH, EVERY - 3 * took)


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
        held: list[storage.Roll] = []
        try:
            async with database.transaction() as connection:
                held = await storage.take_behind(connection, after, PROJECTS, chores=chores, now=now, moment=MOMENT)
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


async def _one_by_one(database: Database, held: Sequence[storage.Roll], now: Ms) -> Rolled:
    rolled = NOTHING
    for one in held:
        try:
            rolled = rolled.plus(await roll(database, one.project_id, now))
        except PASSING:
            raise
        except Exception:
            log.exception("customer lists of a project failed", project_id=one.project_id)
    return rolled
