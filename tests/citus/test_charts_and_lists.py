"""Charts and customer lists on a distributed database: from purchases to facts, pages and grants."""

from latchkey.database.pool import Database, connect
from latchkey.subjects.charts.storage import chart_tables as rows
from latchkey.subjects.demo.usecases.project import add_catalog
from latchkey.subjects.projects.usecases import create_project
from latchkey.subjects.segments.rules.facets import CustomerStatus
from latchkey.subjects.segments.rules.filter import CustomerFilter
from latchkey.subjects.segments.usecases.customer_lists import count, csv_pieces, list_page
from latchkey.subjects.test_clocks.usecases import create_customer
from tests.citus.moving import MOVE, elsewhere
from tests.subjects.charts.stored_rows import agree, facts
from tests.usecases.conftest import NOON, Shop
from tests.usecases.test_bulk_grants import done, grants, prepared, terms
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
        charts = await facts(database, shop.project_id)
        assert len(await agree(database, shop.project_id)) == 4
        here, there = await elsewhere(spread_url, shop.project_id)
        for node in (there, here):
            await move(spread_url, shop, node["host"], node["port"])
            assert await facts(database, shop.project_id) == charts
            mark = await marked(shop)
            await shop.act("renew", "buyer1")
            await agree(database, shop.project_id)
            charts = await facts(database, shop.project_id)
            async with database.acquire() as connection:
                _, changed = await rows.changed_since(connection, shop.project_id, mark)
            assert changed is not None
            assert len(changed) == 1
        await lists_are_right(shop)


async def marked(shop: Shop) -> rows.Mark:
    async with shop.database.acquire() as connection:
        return await rows.mark(connection, shop.project_id)


async def lists_are_right(shop: Shop) -> None:
    wanted = CustomerFilter(status=frozenset({CustomerStatus.ACTIVE}))
    first = await list_page(shop.database, shop.project_id, wanted, shop.time, limit=1)
    rest = await list_page(shop.database, shop.project_id, wanted, shop.time, after=first.next)
    assert {one.app_user_id for one in (*first.entries, *rest.entries)} == {"buyer1", "buyer3"}
    assert (await count(shop.database, shop.project_id, CustomerFilter(), shop.time)).customers == 5
    pieces = csv_pieces(shop.database, shop.changes.catalogs, shop.project_id, CustomerFilter(), ["status"], shop.time)
    assert len(b"".join([piece async for piece in pieces]).splitlines()) == 6
    granted = await done(
        shop, await prepared(shop, CustomerFilter(status=frozenset({CustomerStatus.NEVER_BOUGHT})), terms())
    )
    assert (granted.state, granted.granted, await grants(shop)) == ("done", 1, 1)


async def move(url: str, shop: Shop, host: str, port: int) -> None:
    connection = await connect(url)
    try:
        await connection.execute(MOVE.format(host=host, port=port, project=shop.project_id))
    finally:
        await connection.close()
