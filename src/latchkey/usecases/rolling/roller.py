"""The roller: follows each project's feed and keeps its charts and its customer lists up to date, in one pass.

A batch is one transaction: the customers that its events and marks name are read and decoded once, charts and lists
write what follows from them, and the positions in the feeds move on, of several projects at once. If a roller is
killed, its whole batch is rolled back. Everything is computed from the customers as they are now, not from the events,
so processing a batch twice or late is harmless.

Charts and lists have positions of their own, and each can be rebuilt alone. While the positions of a project differ,
each has a batch of its own in the same transaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence

import structlog

from latchkey.domain.instants import MINUTE, Ms
from latchkey.storage.catalog.catalogs import Catalogs
from latchkey.storage.charts import progress as chart_progress
from latchkey.storage.customer_lists import progress as list_progress
from latchkey.storage.database import Connection, Database
from latchkey.storage.outages import PASSING
from latchkey.storage.outlook import Outlook, look_out
from latchkey.storage.rolling import progress
from latchkey.storage.rolling.progress import Held, Wanted
from latchkey.usecases.charts import roller as charts
from latchkey.usecases.charts.numbers import Numbers
from latchkey.usecases.charts.roller import Ready, Work
from latchkey.usecases.customer_lists import roller as lists
from latchkey.usecases.engine.lookout import EVERY, Lookout
from latchkey.usecases.rolling.rolled import MOMENT, NOTHING, Rolled, share

# Projects per transaction.
PROJECTS = 50
# Seconds between two batches while there is more to do, so that purchases are not delayed.
_BREATH = 0.02
# What is left of the time that a batch took, when the next one has ended.
_FADES = 0.7
# How often projects are looked through for facts whose time has come, old tails, and customers whose key became visible
# late.
_CHORES_EVERY: Ms = 1 * MINUTE

log = structlog.get_logger()


async def run_roller(lookout: Lookout, database: Database, now: Callable[[], Ms]) -> None:
    """Runs until the lookout ends. Several may run at once: each skips projects that another has locked."""
    roller = Roller(database)
    within: float | None = None
    # How long batches take: the longest of the last ones.
    slow = 0.0
    time = asyncio.get_running_loop().time
    try:
        while (seen := await lookout.until(lambda seen: roller.due(seen, now()), within=within)) is not None:
            began = time()
            try:
                more = await roller.roll(seen, now())
                slow = max(time() - began, _FADES * slow)
                within = _BREATH if more else pause_after(slow)
            except Exception:
                # The database may be unreachable. Charts and lists are then late; nothing else depends on them.
                log.exception("charts and customer lists failed")
                within = None
    finally:
        await roller.end()


def pause_after(took: float) -> float:
    """How many seconds after a batch the next look begins, if batches take so long. What was committed while a batch
    ran waits for that look and for the next batch, together less than a second, also if that takes twice as long. If
    batches take long, they follow each other."""
    return max(_BREATH, EVERY - 3 * took)


class Roller:
    """Decides when to roll."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._work = Work(Catalogs(), Numbers())
        # When chores were last done, the last customer's key then, and whether customers were left to count.
        self._looked_at: Ms | None = None
        self._newest = 0
        self._uncounted = False

    async def turn(self, now: Ms) -> float:
        """Looks, and rolls if it is due. Returns how many seconds to wait before the next turn."""
        async with self._database.acquire() as connection:
            seen = await look_out(connection)
        return _BREATH if self.due(seen, now) is not None and await self.roll(seen, now) else EVERY

    def due(self, seen: Outlook, now: Ms) -> Ms | None:
        return now if seen.behind or seen.unstarted or self._chores(seen.newest, now) else None

    async def roll(self, seen: Outlook, now: Ms) -> bool:
        """Rolls what is behind. Returns whether there is more to do at once."""
        if seen.unstarted:
            async with self._database.acquire() as connection:
                await chart_progress.start(connection)
                await list_progress.start(connection)
        chores = self._chores(seen.newest, now)
        rolled = await roll_all(self._database, self._work, now, chores=chores)
        if chores:
            # With more than one batch to count, as after an import, the next turn goes on at once.
            self._looked_at = None if rolled.more else now
            self._newest, self._uncounted = seen.newest, rolled.uncounted
        return rolled.more

    async def end(self) -> None:
        await self._work.cubing.end()

    def _chores(self, newest: int, now: Ms) -> bool:
        if self._looked_at is None:
            return True
        waited = abs(now - self._looked_at)
        return waited >= (MOMENT if self._uncounted or newest != self._newest else _CHORES_EVERY)


async def roll_all(database: Database, work: Work, now: Ms, *, chores: bool = True) -> Rolled:
    """One batch of every project that is behind; with `chores` also of those that have anything else to do."""
    after, all_rolled = "", NOTHING
    while True:
        held: list[Held] = []
        try:
            async with database.transaction() as connection:
                held = await progress.take_behind(
                    connection, after, PROJECTS, chores=chores, now=now, moment=MOMENT, tail_waits=charts.TAIL_WAITS
                )
                rolled, numbers = await _roll(connection, work, held, now)
            work.numbers.keep({one.charts.project_id: one.charts for one in held}, numbers)
        except PASSING:
            work.numbers.forget()
            raise
        except Exception:
            work.numbers.forget()
            if not held:
                raise
            # One project on which the rules fail must not stop the others, nor its charts its lists.
            rolled = await _one_by_one(database, work, held, now)
        else:
            for id, part in await charts.fold_full(database, rolled.full, now):
                work.cubing.begin(database, id, part)
        all_rolled = all_rolled.plus(rolled)
        if len(held) < PROJECTS:
            return all_rolled
        after = held[-1].charts.project_id


async def _roll(connection: Connection, work: Work, held: Sequence[Held], now: Ms) -> Ready:
    """One batch of these projects, which the transaction has locked."""
    if not held:
        return Ready(NOTHING, {})
    limit = share(len(held))
    batches = await progress.next_batches(connection, list(_wanted(held)), limit)
    done = await charts.apply(connection, work, [one.charts for one in held], batches.charts, limit, now)
    listed = await lists.apply(connection, [one.lists for one in held], batches.lists, limit, now)
    return Ready(done.rolled.plus(listed), done.numbers)


def _wanted(held: Sequence[Held]) -> Iterable[Wanted]:
    for one in held:
        id, rebuilding = one.charts.project_id, one.charts.rebuilding is not None
        if one.charts.position == one.lists.position and not rebuilding:
            yield Wanted(id, one.charts.position, charts=True, lists=True)
            continue
        if not rebuilding:
            yield Wanted(id, one.charts.position, charts=True, lists=False)
        yield Wanted(id, one.lists.position, charts=False, lists=True)


async def _one_by_one(database: Database, work: Work, held: Sequence[Held], now: Ms) -> Rolled:
    rolled = NOTHING
    for one in held:
        id = one.charts.project_id
        try:
            rolled = rolled.plus(await charts.roll(database, work, id, now))
        except PASSING:
            raise
        except Exception:
            work.numbers.forget()
            log.exception("charts of a project failed", project_id=id)
        try:
            rolled = rolled.plus(await lists.roll(database, id, now))
        except PASSING:
            raise
        except Exception:
            log.exception("customer lists of a project failed", project_id=id)
    return rolled
