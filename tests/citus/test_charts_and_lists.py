"""Charts and customer lists on a distributed database: from purchases to sums, pages and grants."""

from __future__ import annotations

import asyncio
from random import Random
from unittest.mock import patch

from latchkey.usecases.charts.roller import catch_up

from latchkey.domain.customers.facets import Status
from latchkey.domain.customers.filter import Filter
from latchkey.storage.charts import progress
from latchkey.storage.database import Database, connect
from latchkey.usecases.access.projects import create_project
from latchkey.usecases.charts import folding
from latchkey.usecases.customer_lists.csv_file import csv_pieces
from latchkey.usecases.customer_lists.listing import count, list_page
from latchkey.usecases.sandbox.clocks import create_customer
from latchkey.usecases.sandbox.demo import add_catalog
from tests.citus.moving import MOVE, elsewhere
from tests.cli.running import typed
from tests.usecases.charts_books import agree
from tests.usecases.conftest import NOON, Shop
from tests.usecases.test_bulk_grants import done, grants, prepared, terms
from tests.usecases.test_charts_roller import answers_agree
from tests.usecases.test_customer_facets import walk


async def test_charts_and_lists_are_those_of_one_server(spread_url: str) -> None:
    async with Database(spread_url, max_size=3) as database:
        await create_project(database, "Shop", NOON, project_id="proj_shop")
        await add_catalog(database, "proj_shop", NOON)
        shop = Shop(database, "proj_shop")
        for number in range(4):
            await shop.act("purchase", f"buyer{number}", "pro_monthly" if number % 2 else "coins_100")
        await create_customer(shop.changes, shop.project_id, "visitor")
        await walk(shop)
        await sums_are_right(shop)
        # The tail is in fresh blocks, then in blocks of all cuboids, which are merged with those of the next.
        await fold(shop)
        assert await cuboids(shop) == 1
        await fold(shop, fresh_rows=1)
        here, there = await elsewhere(spread_url, shop.project_id)
        for node in (there, here):
            await move(spread_url, shop, node["host"], node["port"])
            before = await newest_block(shop)
            await shop.act("renew", "buyer1")
            assert await catch_up(shop.database, shop.project_id, shop.time)
            await fold(shop, fresh_rows=1)
            assert await newest_block(shop) > before, "the newest block has the highest number, on whatever node"
        assert await cuboids(shop) > 2

        told = await asyncio.to_thread(
            typed, "admin", "rebuild-charts", "--project", shop.project_id, LATCHKEY_DATABASE_URL=spread_url
        )
        assert told.returncode == 0, told.stderr
        await sums_are_right(shop)
        await lists_are_right(shop)


async def sums_are_right(shop: Shop) -> None:
    """Those of the facts that are stored, and these are the facts of the customers."""
    await answers_agree(shop, await agree(shop.database, shop.project_id), Random(1))


async def fold(shop: Shop, fresh_rows: int = folding.FRESH_ROWS) -> None:
    """The tail, and if there are so many rows, the blocks of three kinds."""
    for _ in range(3):
        with patch.object(folding, "FRESH_ROWS", fresh_rows):
            async with shop.database.transaction() as connection:
                assert await progress.hold(connection, shop.project_id, wait=True) is not None
                await folding.fold(connection, shop.project_id, shop.time)
    await sums_are_right(shop)


async def lists_are_right(shop: Shop) -> None:
    wanted = Filter(status=frozenset({Status.ACTIVE}))
    first = await list_page(shop.database, shop.project_id, wanted, shop.time, limit=1)
    rest = await list_page(shop.database, shop.project_id, wanted, shop.time, after=first.next)
    assert {one.app_user_id for one in (*first.entries, *rest.entries)} == {"buyer1", "buyer3"}
    assert (await count(shop.database, shop.project_id, Filter(), shop.time)).customers == 5
    pieces = csv_pieces(shop.database, shop.changes.catalogs, shop.project_id, Filter(), ["status"], shop.time)
    assert len(b"".join([piece async for piece in pieces]).splitlines()) == 6
    granted = await done(shop, await prepared(shop, Filter(status=frozenset({Status.NEVER_BOUGHT})), terms()))
    assert (granted.state, granted.granted, await grants(shop)) == ("done", 1, 1)


async def move(url: str, shop: Shop, host: str, port: int) -> None:
    connection = await connect(url)
    try:
        await connection.execute(MOVE.format(host=host, port=port, project=shop.project_id))
    finally:
        await connection.close()


async def newest_block(shop: Shop) -> int:
    found: int = await shop.database.pool.fetchval("select max(run) from chart_blocks")
    return found


async def cuboids(shop: Shop) -> int:
    found: int = await shop.database.pool.fetchval("select count(distinct cuboid) from chart_blocks")
    return found
