"""Charts and customer lists on a distributed database: from purchases to facts, pages and grants."""

from latchkey.database.pool import Database, connect
from latchkey.subjects.charts.storage import fact_cache as rows
from latchkey.subjects.segments.rules.facets import CustomerStatus
from latchkey.subjects.segments.rules.filter import CustomerFilter
from latchkey.subjects.segments.usecases.customer_lists import count, csv_pieces, list_page
from latchkey.subjects.test_clocks.usecases import create_customer
from tests.citus.moving import MOVE, elsewhere
from tests.connections import connected
from tests.engine.fixtures import NOON, Core, new_project
from tests.subjects.bulk_grants.test_usecases import done, grants, prepared, terms
from tests.subjects.charts.stored_rows import agree, facts
from tests.subjects.segments.test_facets import walk


async def test_charts_and_lists_are_those_of_one_server(spread_url: str) -> None:
    async with Database(spread_url, max_size=3) as database:
        await new_project(database, "proj_shop", NOON)
        core = Core(database, "proj_shop")
        for number in range(4):
            await core.act("purchase", f"buyer{number}", "pro_monthly" if number % 2 else "coins_100")
        await create_customer(core.changes, core.project_id, "visitor")
        await walk(core)
        charts = await facts(database, core.project_id)
        assert len(await agree(database, core.project_id)) == 4
        here, there = await elsewhere(spread_url, core.project_id)
        for node in (there, here):
            await move(spread_url, core, node["host"], node["port"])
            assert await facts(database, core.project_id) == charts
            mark = (await seen(core)).oldest_xid
            await core.act("renew", "buyer1")
            await agree(database, core.project_id)
            charts = await facts(database, core.project_id)
            now = await seen(core)
            async with database.acquire() as connection:
                changed = await rows.changed_since(connection, core.project_id, mark, now)
            assert len(changed) == 1
        await lists_are_right(core)


async def seen(core: Core) -> rows.Snapshot:
    async with core.database.acquire() as connection:
        return await rows.snapshot(connection, core.project_id)


async def lists_are_right(core: Core) -> None:
    wanted = CustomerFilter(status=frozenset({CustomerStatus.ACTIVE}))
    first = await list_page(core.database, core.project_id, wanted, core.time, limit=1)
    rest = await list_page(core.database, core.project_id, wanted, core.time, after=first.next)
    assert {one.app_user_id for one in (*first.entries, *rest.entries)} == {"buyer1", "buyer3"}
    assert (await count(core.database, core.project_id, CustomerFilter(), core.time)).customers == 5
    pieces = csv_pieces(core.database, core.changes.catalogs, core.project_id, CustomerFilter(), ["status"], core.time)
    assert len(b"".join([piece async for piece in pieces]).splitlines()) == 6
    granted = await done(
        core, await prepared(core, CustomerFilter(status=frozenset({CustomerStatus.NEVER_BOUGHT})), terms())
    )
    assert (granted.state, granted.granted, await grants(core)) == ("done", 1, 1)


async def move(url: str, core: Core, host: str, port: int) -> None:
    async with connected(connect(url)) as connection:
        await connection.execute(MOVE.format(host=host, port=port, project=core.project_id))
