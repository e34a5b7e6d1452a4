"""The facets behind a project's feed: what a batch of the roller (`usecases/rolling/roller.py`) writes for lists.

Facets are computed from the customers as they are now, so processing a batch twice or late is harmless. Customers
without an event are found by walking through their keys (`rolling/newcomers.py`). The same walk makes all facets after
an upgrade.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import structlog

from latchkey.domain.customers.facets import Facets, facets_of
from latchkey.domain.instants import Ms
from latchkey.domain.refusal import NotFound
from latchkey.storage.customer_lists import progress
from latchkey.storage.customer_lists.found import Count, Counted, Found, Stretch
from latchkey.storage.customer_lists.progress import Batch, Roll, Walked
from latchkey.storage.database import Connection, Database
from latchkey.usecases.rolling.rolled import NOTHING, Rolled, after_counting, next_step, reached, share
from latchkey.usecases.rolling.turns import in_turns

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
        await progress.forget(connection, project_id)


async def _held(connection: Connection, project_id: str) -> Roll:
    held = await progress.hold(connection, project_id)
    if held is None:
        raise NotFound(f"There is no project {project_id}.", param="project_id")
    return held


async def apply(connection: Connection, held: Sequence[Roll], now: Ms) -> Rolled:
    """One batch of these projects, which the transaction has locked."""
    if not held:
        return NOTHING
    limit = share(len(held))
    batches = await progress.next_batches(connection, held, limit)
    kept = await _facets(one for batch in batches for one in batch.customers)
    counts, walked, again = await _walk(connection, held, batches, limit, now)
    for id, facets in (await _facets(one.customer for one in walked if one.customer is not None)).items():
        kept[id] |= facets
    known = {one.project_id: one for one in held}
    for batch in batches:
        id, before = batch.project_id, known[batch.project_id]
        roll = Roll(id, reached(before.position, batch.position, batch.head, batch.events, limit), counts[id])
        if kept[id] or batch.gone or roll != before:
            await progress.write_facets(connection, batch.gone, kept[id], roll)
    more = again or any(limit in (one.events, one.marks) for one in batches)
    return Rolled(more, any(one.mark_id is not None for one in counts.values()))


async def _walk(
    connection: Connection, held: Sequence[Roll], batches: Sequence[Batch], limit: int, now: Ms
) -> tuple[dict[str, Count], list[Walked], bool]:
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


async def _facets(customers: Iterable[Found]) -> defaultdict[str, dict[int, Facets]]:
    """By project and the customer's key."""
    facets: defaultdict[str, dict[int, Facets]] = defaultdict(dict)
    async for one in in_turns(customers):
        try:
            facets[one.project_id][one.key] = facets_of(one.customer, one.last_seen_at, one.country)
        except Exception:
            # One customer that cannot be decoded must not stop the lists of all others.
            log.exception("customer left out of lists", customer=one.key)
    return facets
