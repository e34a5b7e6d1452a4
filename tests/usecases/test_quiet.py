"""Background work follows the load: while nothing happens, hardly anything is said to the database."""

from __future__ import annotations

import pytest

from latchkey.domain.instants import DAY, MINUTE, SECOND, Ms
from latchkey.storage.catalog.catalogs import Catalogs
from latchkey.storage.charts import progress as chart_progress
from latchkey.storage.customer_lists import progress as list_progress
from latchkey.usecases.access.projects import create_project
from latchkey.usecases.charts.numbers import Numbers
from latchkey.usecases.charts.roller import Work
from latchkey.usecases.engine import clock
from latchkey.usecases.rolling.roller import Roller, roll_all
from latchkey.usecases.sandbox.clocks import create_customer
from latchkey.usecases.sandbox.demo import add_catalog
from tests.statements import counted
from tests.usecases.charts_books import agree, kept
from tests.usecases.conftest import Shop

BATCH = ["begin", "take_rolls_behind", "rolls_batch", "chart_subjects_of", "write_charts", "write_facets", "commit"]


async def test_an_idle_clock_asks_once_a_second_when_the_next_customer_is_due(shop: Shop) -> None:
    await shop.act("purchase", product="pro_monthly")
    async with counted(shop.database.url) as (database, said):
        catalogs, now = Catalogs(), shop.time
        while now < shop.time + MINUTE:
            now += await clock.turn(database, catalogs, now)
    assert said == ["next_customer_due"] * 60


async def test_a_purchase_that_falls_due_in_a_month_does_not_make_the_clock_do_more(shop: Shop) -> None:
    async with counted(shop.database.url) as (database, said):
        assert await clock.turn(database, Catalogs(), shop.time) == clock.LONGEST_WAIT
        await shop.act("purchase", product="pro_monthly")
        assert await clock.turn(database, Catalogs(), shop.time + 1) == clock.LONGEST_WAIT
    assert said == ["next_customer_due"] * 2


@pytest.mark.parametrize("written_after", [0, 1, 400, 999])
async def test_what_another_process_writes_while_the_clock_sleeps_is_applied_when_it_falls_due(
    shop: Shop, written_after: Ms
) -> None:
    """It falls due in two seconds: longer than the clock ever sleeps."""
    began, catalogs = shop.time, Catalogs()
    wait = await clock.turn(shop.database, catalogs, began)
    due = began + written_after + 2 * SECOND
    shop.time = began + written_after
    await shop.act("purchase", product="pro_monthly")
    await shop.database.pool.execute("update customers set next_due_at = $1", due)
    now = began + wait
    while now < due:
        now += await clock.turn(shop.database, catalogs, now)
    assert now == due
    assert await clock.turn(shop.database, catalogs, now) == clock.APART
    left = await shop.database.pool.fetchval("select next_due_at from customers")
    assert left > due


async def test_customers_that_another_process_holds_do_not_make_the_clock_spin(shop: Shop) -> None:
    await shop.act("purchase", product="pro_monthly")
    async with shop.database.transaction() as other:
        await other.execute("select from customers where project_id = $1 for update", shop.project_id)
        assert await clock.turn(shop.database, Catalogs(), shop.time + 40 * DAY) == clock.APART


async def idle(roller: Roller, now: Ms, length: Ms) -> Ms:
    end = now + length
    while now < end:
        now += round(1000 * await roller.turn(now))
    return now


@pytest.mark.one_server("it counts statements, which have other texts there")
async def test_a_lone_purchase_is_in_the_charts_after_one_batch_and_its_customer_is_counted_with_a_second(
    shop: Shop,
) -> None:
    async with counted(shop.database.url) as (database, said):
        roller = Roller(database)
        await shop.act("purchase", user="bob", product="pro_monthly")
        now = await idle(roller, shop.time, 2 * MINUTE)
        said.clear()
        await shop.act("purchase", product="pro_monthly")
        wait = await roller.turn(now)
        assert said == ["look_at_rolls", *BATCH]
        assert len(await agree(shop.database, shop.project_id)) == 4
        said.clear()
        now = await idle(roller, now + round(1000 * wait), 30 * SECOND)
    rest = [one for one in said if one not in ("look_at_rolls", "begin", "commit")]
    assert rest == [
        "take_rolls_behind", "rolls_batch", "chart_newcomers", "chart_subjects_of", "write_charts", "facets_stretch",
        "write_facets",
    ]  # fmt: skip
    assert await shop.database.pool.fetchval("select counted from chart_rolls") == await last_customer(shop)


@pytest.mark.one_server("it counts statements, which have other texts there")
async def test_a_busy_second_is_one_batch_whatever_it_brought(shop: Shop) -> None:
    others = [Shop(shop.database, f"proj_{number}", shop.time) for number in range(3)]
    for other in others:
        await create_project(shop.database, "Shop", shop.time, project_id=other.project_id)
        await add_catalog(shop.database, other.project_id, shop.time)
    async with counted(shop.database.url) as (database, said):
        roller = Roller(database)
        for one in (shop, *others):
            await one.act("purchase", user="first", product="pro_monthly")
        await roller.turn(shop.time)
        said.clear()
        for one in (shop, *others):
            for number in range(5):
                await one.act("purchase", user=f"user{number}", product="pro_monthly")
        wait = await roller.turn(shop.time + SECOND)
    assert said == ["look_at_rolls", *BATCH]
    # At most a few times a second, and at most a second late.
    assert 0.25 <= wait <= 1
    for one in (shop, *others):
        assert len(await agree(shop.database, one.project_id)) == 12


async def test_a_project_on_which_the_rules_fail_stops_no_other(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    other = Shop(shop.database, "proj_other", shop.time)
    await create_project(shop.database, "Other", shop.time, project_id=other.project_id)
    await add_catalog(shop.database, other.project_id, shop.time)
    async with shop.database.acquire() as connection:
        await chart_progress.start(connection)
        await list_progress.start(connection)
    await other.act("purchase", product="pro_monthly")
    await shop.act("purchase", product="pro_monthly")
    catalogs = Catalogs()
    priced = catalogs.priced

    async def broken(connection: object, project_id: str, *versions: int) -> object:
        if project_id == "proj_other":
            raise ValueError(project_id)
        return await priced(connection, project_id, *versions)

    monkeypatch.setattr(catalogs, "priced", broken)
    await roll_all(shop.database, Work(catalogs, Numbers()), shop.time)
    assert len(await kept(shop.database, shop.project_id)) == 2
    assert await kept(shop.database, other.project_id) == {}
    # Nor do its charts stop its lists.
    listed = await shop.database.pool.fetch("select project_id from customer_facets")
    assert sorted(row["project_id"] for row in listed) == sorted([shop.project_id, other.project_id])


@pytest.mark.one_server("it adds customers past the counter of keys, which makes them visible in order there")
async def test_a_customer_whose_transaction_still_runs_is_not_passed_over(shop: Shop) -> None:
    """A lower key becomes visible after a higher one was marked: the count waits for its transaction."""
    roller = Roller(shop.database)
    add = (
        "insert into customers (project_id, app_user_id, original_app_user_id, state, first_seen_at, last_seen_at)"
        " select project_id, $2, $2, state, first_seen_at, last_seen_at from customers where app_user_id = $1"
    )
    await create_customer(shop.changes, shop.project_id, "first")
    now = await idle(roller, shop.time, MINUTE)
    async with shop.database.transaction() as slow:
        await slow.execute(add, "first", "lower")
        await shop.database.pool.execute(add, "first", "higher")
        now = await idle(roller, now, 20 * SECOND)
        assert len(await kept(shop.database, shop.project_id)) == 1
    await idle(roller, now, 20 * SECOND)
    assert len(await kept(shop.database, shop.project_id)) == 3


async def last_customer(shop: Shop) -> int:
    last: int = await shop.database.pool.fetchval("select max(id) from customers")
    return last
