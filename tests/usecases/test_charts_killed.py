"""A roller of the charts that is killed several times in the middle of its work leaves correct sums."""

from __future__ import annotations

import asyncio
import sys
from random import Random

import pytest

from latchkey.storage.database import Database
from tests.patience import PATIENCE
from tests.usecases.charts_books import agree
from tests.usecases.conftest import Shop
from tests.usecases.test_charts_roller import answers_agree

# A process that rolls in small batches, and folds often, until it is killed.
ROLLER = """
import asyncio, sys
from latchkey.storage.database import Database
from latchkey.usecases.charts import books, folding
from latchkey.usecases.engine.lookout import Lookout
from latchkey.usecases.rolling import batches, roller

async def main():
    batches.AT_ONCE, books.FOLD_AT, folding.FRESH_ROWS = 5, 100, 20
    # Long enough for the test to notice in time that the roller is half-way.
    roller._BREATH = 0.02
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
    stopped_at = []
    for goal in (head // 4, head // 2, head):
        roller = await asyncio.create_subprocess_exec(sys.executable, "-c", ROLLER, shop.database.url, str(shop.time))
        try:
            async with asyncio.timeout(PATIENCE):
                while await position(shop.database) < goal:  # noqa: ASYNC110 - another process writes it
                    await asyncio.sleep(0.002)
        finally:
            roller.kill()
            await roller.wait()
        stopped_at.append(await position(shop.database))
    assert stopped_at[0] < head, "the roller had finished before it was killed"
    assert stopped_at[-1] == head
    await answers_agree(shop, await agree(shop.database, shop.project_id), Random(1))


async def position(database: Database) -> int:
    return await database.pool.fetchval("select max(position) from chart_rolls") or 0
