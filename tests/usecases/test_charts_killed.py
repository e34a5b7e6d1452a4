"""A roller of the charts that is killed several times in the middle of its work leaves correct sums."""

from __future__ import annotations

import asyncio
import signal
import sys
from random import Random

import pytest

from latchkey.storage.database import Database
from latchkey.usecases.charts.roller import catch_up
from tests.patience import PATIENCE
from tests.usecases.charts_books import agree
from tests.usecases.conftest import Shop
from tests.usecases.test_charts_roller import answers_agree

# A process that rolls in small batches, and folds often. It is killed before it commits the batch that reaches a goal.
ROLLER = """
import asyncio, os, signal, sys
from latchkey.storage.database import Database
from latchkey.usecases.charts import books, folding, roller as charts
from latchkey.usecases.engine.lookout import Lookout
from latchkey.usecases.rolling import rolled, roller

async def main():
    rolled.AT_ONCE, books.FOLD_AT, folding.FRESH_ROWS = 5, 100, 20
    reached = charts.reached

    def killed_at_the_goal(*words):
        position = reached(*words)
        if position >= int(sys.argv[3]):
            os.kill(os.getpid(), signal.SIGKILL)
        return position

    charts.reached = killed_at_the_goal
    async with Database(sys.argv[1], max_size=2) as database:
        now = lambda: int(sys.argv[2])
        lookout = Lookout(database, now)
        await asyncio.gather(lookout.run(asyncio.Event()), roller.run_roller(lookout, database, now))

asyncio.run(main())
"""
BUYERS = 60


@pytest.mark.processes
async def test_a_roller_killed_amid_its_work_counts_everything_once(shop: Shop) -> None:
    await asyncio.gather(
        *(shop.act("purchase", user=f"user{n}", product="pro_monthly", trial=n % 3 == 0) for n in range(BUYERS))
    )
    await asyncio.gather(*(shop.act("cancel", user=f"user{n}") for n in range(BUYERS)))
    head = 2 * BUYERS
    for goal in (head // 4, head // 2, head):
        words = (sys.executable, "-c", ROLLER, shop.database.url, str(shop.time), str(goal))
        roller = await asyncio.create_subprocess_exec(*words)
        assert await asyncio.wait_for(roller.wait(), PATIENCE) == -signal.SIGKILL
        assert goal - 5 <= await position(shop.database) < goal
    assert await catch_up(shop.database, shop.project_id, shop.time)
    assert await position(shop.database) == head
    await answers_agree(shop, await agree(shop.database, shop.project_id), Random(1))


async def position(database: Database) -> int:
    return await database.pool.fetchval("select max(position) from chart_rolls") or 0
