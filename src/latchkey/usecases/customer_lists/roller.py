"""The roller of facets: follows each project's feed and keeps what customer lists filter by.

The same pattern as the roller of the charts: a batch is one transaction, computed from the customers as they are now,
so processing one twice or late is harmless, and a killed process leaves all of a batch or none. Customers without an
event are found by walking through their keys (`rolling/newcomers.py`); the same walk makes all facets after an upgrade.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import structlog

from latchkey.domain.customers.facets import Facets, facets_of
from latchkey.domain.instants import MINUTE, Ms
from latchkey.domain.refusal import NotFound
from latchkey.storage.customer_lists import progress, writing
from latchkey.storage.customer_lists.progress import Batch, Roll, Row
from latchkey.storage.customer_lists.writing import Place
from latchkey.storage.customers.state_format import decode
from latchkey.storage.database import Connection, Database
from latchkey.storage.rolling.newcomers import Count, Counted, Stretch
from latchkey.usecases.rolling.newcomers import MOMENT, after_counting, next_step
from latchkey.usecases.rolling.turns import in_turns

# Events per transaction, and customers of a walk.
AT_ONCE = 500
# Projects per transaction.
PROJECTS = 50
# Seconds between two looks at whether anything is behind. Lists may be a little late, and several events of a customer
# are then one write.
_LOOK = 2.0
# Seconds between two batches while there is more to do, so that purchases are not delayed.
_BREATH = 0.02
# New customers are looked for when a customer got a new key, and this often in any case: a key may become visible late.
_NEWCOMERS_EVERY: Ms = 1 * MINUTE

log = structlog.get_logger("latchkey.customer_lists")


async def run_facets(database: Database, now: Callable[[], Ms], stop: asyncio.Event) -> None:
    """Runs until `stop` is set. Several may run at once: each skips projects that another has locked."""
    roller = FacetRoller(database)
    while not stop.is_set():
        try:
            wait = await roller.turn(now())
        except Exception:
            # The database may be unreachable. Lists are then late; nothing else depends on them.
            log.exception("customer lists failed")
            wait = _LOOK
        try:
            await asyncio.wait_for(stop.wait(), wait)
        except TimeoutError:
            continue


class FacetRoller:
    """Decides when to roll. While nothing happens a turn is one short statement."""

    def __init__(self, database: Database) -> None:
        self._database = database
        # When new customers were last looked for, the last key then, and whether some were left.
        self._looked_at: Ms | None = None
        self._newest = 0
        self._left = False

    async def turn(self, now: Ms) -> float:
        """Rolls what is behind. Returns how many seconds to wait before the next turn."""
        async with self._database.acquire() as connection:
            outlook = await progress.look(connection)
            if outlook.unstarted:
                await progress.start(connection)
        walking = self._walking(outlook.newest, now)
        if not (outlook.behind or outlook.unstarted or walking):
            return _LOOK
        more, left = await roll_all(self._database, now, newcomers=walking)
        if walking:
            # After an import there are more than one batch: the next turn goes on at once.
            self._looked_at, self._newest, self._left = None if more else now, outlook.newest, left
        return _BREATH if more else _LOOK

    def _walking(self, newest: int, now: Ms) -> bool:
        if self._looked_at is None:
            return True
        waited = abs(now - self._looked_at)
        return waited >= (MOMENT if self._left or newest != self._newest else _NEWCOMERS_EVERY)


async def roll_all(database: Database, now: Ms, *, newcomers: bool = True) -> tuple[bool, bool]:
    """One batch of every project that is behind. Returns whether there is more to do at once, and whether some new
    customers are left for later."""
    after, more, left = "", False, False
    while True:
        async with database.transaction() as connection:
            held = await progress.take_behind(connection, after, PROJECTS, newcomers=newcomers, now=now, moment=MOMENT)
            again, waiting = await _roll(connection, held, now)
        more, left = more or again, left or waiting
        if len(held) < PROJECTS:
            return more, left
        after = held[-1].project_id


async def catch_up(database: Database, project_id: str, now: Ms, *, most: int = 200) -> bool:
    """Processes a project's feed and marks, and walks through its customers as far as it is safe. Returns whether
    nothing is left of the feed."""
    for _ in range(most):
        async with database.transaction() as connection:
            held = await _held(connection, project_id)
            more, _ = await _roll(connection, [held], now)
        if not more:
            return True
    return False


async def rebuild(database: Database, project_id: str) -> None:
    """Deletes the facets of a project. The roller makes them anew, in the background: lists are short meanwhile."""
    async with database.transaction(statement_timeout_ms=0) as connection:
        await _held(connection, project_id)
        await progress.forget(connection, project_id)


async def _held(connection: Connection, project_id: str) -> Roll:
    held = await progress.hold(connection, project_id)
    if held is None:
        raise NotFound(f"There is no project {project_id}.", param="project_id")
    return held


async def _roll(connection: Connection, held: Sequence[Roll], now: Ms) -> tuple[bool, bool]:
    """One batch of these projects, which the transaction has locked."""
    if not held:
        return False, False
    limit = max(1, AT_ONCE // len(held))
    batches = await progress.next_batches(connection, held, limit)
    kept = await _facets(row for batch in batches for row in batch.customers)
    gone = [(batch.project_id, key) for batch in batches for key in batch.gone]
    counts, walked, again = await _walk(connection, held, batches, limit, now)
    kept |= await _facets(walked)
    known = {one.project_id: one for one in held}
    rolled = [
        Roll(batch.project_id, _position(batch, limit, known[batch.project_id]), counts[batch.project_id])
        for batch in batches
    ]
    changed = [one for one in rolled if one != known[one.project_id]]
    if kept or gone or changed:
        await writing.write(connection, gone, kept, changed)
    more = again or any(limit in (one.events, one.marks) for one in batches)
    return more, any(one.mark_id is not None for one in counts.values())


def _position(batch: Batch, limit: int, before: Roll) -> int:
    """With fewer events than the limit all of the feed is processed: there may be gaps in it, after a restore."""
    if batch.events < limit:
        return max(batch.head, before.position)
    return before.position if batch.position is None else batch.position


async def _walk(
    connection: Connection, held: Sequence[Roll], batches: Sequence[Batch], limit: int, now: Ms
) -> tuple[dict[str, Count], list[Row], bool]:
    """The next step of walking through the customers of each project: where it is then, the customers it came to, and
    whether there is another step to take at once."""
    before = {one.project_id: one.count for one in held}
    counts: dict[str, Count] = {}
    ready: list[Stretch] = []
    for batch in batches:
        count, is_safe = next_step(before[batch.project_id], batch.seen, now)
        counts[batch.project_id] = count
        if is_safe and count.mark_id is not None:
            ready.append(Stretch(batch.project_id, count.counted, count.mark_id))
    if not ready:
        return counts, [], False
    rows = await progress.stretch(connection, ready, limit)
    found, last = Counter(row.project_id for row in rows), {row.project_id: row.key for row in rows}
    seen = {one.project_id: one.seen for one in batches}
    again = False
    for one in ready:
        id = one.project_id
        counted = Counted(found[id], last[id]) if id in last else None
        counts[id], more = after_counting(counts[id], counted, seen[id], now, limit)
        again = again or more
    return counts, rows, again


async def _facets(rows: Iterable[Row]) -> dict[Place, Facets]:
    found: dict[Place, Facets] = {}
    async for row in in_turns(rows):
        try:
            found[row.project_id, row.key] = facets_of(decode(row.state), row.last_seen_at, row.country)
        except Exception:
            # One customer that cannot be decoded must not stop the lists of all others.
            log.exception("customer left out of lists", customer=row.key)
    return found
