"""The roller: follows each project's feed and keeps its customer lists up to date.

A batch is one transaction: the customers that its events and marks name are read, their facets are written, and the
positions in the feeds move on, of several projects at once. If a roller is killed, its whole batch is rolled back.
Everything is computed from the customers as they are now, not from the events, so processing a batch twice or late is
harmless.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import structlog

from latchkey.domain.instants import MINUTE, Ms
from latchkey.storage.customer_lists import progress
from latchkey.storage.customer_lists.progress import Roll
from latchkey.storage.database import Database
from latchkey.storage.outages import PASSING
from latchkey.storage.outlook import Outlook, look_out
from latchkey.usecases.customer_lists import roller as lists
from latchkey.usecases.engine.lookout import EVERY, Lookout
from latchkey.usecases.rolling.rolled import MOMENT, NOTHING, Rolled

# Projects per transaction.
PROJECTS = 50
# Seconds between two batches while there is more to do, so that purchases are not delayed.
_BREATH = 0.02
# What is left of the time that a batch took, when the next one has ended.
_FADES = 0.7
# How often projects are looked through for customers whose key became visible late.
_CHORES_EVERY: Ms = 1 * MINUTE

log = structlog.get_logger()


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
    """Decides when to roll."""

    def __init__(self, database: Database) -> None:
        self._database = database
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
                await progress.start(connection)
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
                held = await progress.take_behind(connection, after, PROJECTS, chores=chores, now=now, moment=MOMENT)
                rolled = await lists.apply(connection, held, now)
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
            rolled = rolled.plus(await lists.roll(database, one.project_id, now))
        except PASSING:
            raise
        except Exception:
            log.exception("customer lists of a project failed", project_id=one.project_id)
    return rolled
