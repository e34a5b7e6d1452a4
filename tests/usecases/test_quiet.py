"""Background work follows the load: while nothing happens, hardly anything is said to the database."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from latchkey.app import run_process
from latchkey.delivery.queue.worker import SWEEP_SECONDS
from latchkey.domain.instants import DAY, MINUTE, SECOND, Ms
from latchkey.now import real_now
from latchkey.settings import Settings
from latchkey.storage.catalog.catalogs import Catalogs
from latchkey.storage.charts import progress as chart_progress
from latchkey.storage.customer_lists import progress as list_progress
from latchkey.storage.database import Database
from latchkey.usecases.access.projects import create_project
from latchkey.usecases.charts.numbers import Numbers
from latchkey.usecases.charts.roller import Work
from latchkey.usecases.engine import clock, lookout
from latchkey.usecases.rolling.roller import Roller, roll_all
from latchkey.usecases.sandbox.clocks import create_customer
from latchkey.usecases.sandbox.demo import add_catalog
from tests.looking_out import looking_out
from tests.patience import PATIENCE, until
from tests.statements import counted
from tests.usecases.charts_books import agree, kept
from tests.usecases.conftest import Shop

BATCH = ["begin", "take_rolls_behind", "rolls_batch", "chart_subjects_of", "write_charts", "write_facets", "commit"]


# What a process of the clock role and one of the delivery role say besides the look, and how often at most.
SWEEPS = {"due_webhooks", "unfinished_replays"}


@pytest.mark.one_server("it counts statements, which have other texts there")
async def test_while_nothing_happens_one_statement_asks_for_all_background_work(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = lookout.EVERY
    monkeypatch.setattr(lookout, "EVERY", 0.02)
    stop, settings = asyncio.Event(), Settings(database_url=shop.database.url, secret_key=bytes(32))
    async with counted(shop.database.url) as (_, said):
        running = asyncio.create_task(run_process(settings, ("clock", "delivery"), None, stop, lambda: None))

        async def quiet() -> bool:
            """Everything that a start brings is done."""
            return said[-20:] == ["look_out"] * 20

        await until(quiet)
        said.clear()
        await until(lambda: _said(said, "look_out", 50))
        rest = Counter(one for one in said if one != "look_out")
        stop.set()
        await running
    # Fifty looks are 45 s. The sweeps are ten seconds apart.
    assert set(rest) <= SWEEPS
    assert max(rest.values(), default=0) <= 1
    assert 1 / real + len(SWEEPS) / SWEEP_SECONDS <= 2


async def _said(said: list[str], name: str, times: int) -> bool:
    return said.count(name) >= times


async def due_at(shop: Shop) -> Ms:
    at: Ms = await shop.database.pool.fetchval("select next_due_at from customers")
    return at


@asynccontextmanager
async def clock_running(database: Database, now: Callable[[], Ms], every: float = 0.01) -> AsyncIterator[None]:
    async with looking_out(database, now, every) as looks:
        running = asyncio.create_task(clock.run_clock(looks, database, now))
        yield
    await running


@pytest.mark.one_server("it counts statements, which have other texts there")
async def test_what_another_process_writes_is_applied_when_it_falls_due(shop: Shop) -> None:
    async with counted(shop.database.url) as (database, said), clock_running(database, lambda: shop.time):
        await until(lambda: _said(said, "look_out", 3))
        await shop.act("purchase", product="pro_monthly")
        due = shop.time + 2 * SECOND
        await shop.database.pool.execute("update customers set next_due_at = $1", due)
        shop.time = due - 1
        said.clear()
        await until(lambda: _said(said, "look_out", 10))
        assert set(said) == {"look_out"}, "nobody is due yet"
        shop.time = due

        async def applied() -> bool:
            return await due_at(shop) > due

        await until(applied)


@pytest.mark.one_server("it counts statements, which have other texts there")
async def test_what_falls_due_before_the_next_look_is_applied_then(shop: Shop) -> None:
    await shop.act("purchase", product="pro_monthly")
    due = real_now() + 300
    await shop.database.pool.execute("update customers set next_due_at = $1", due)
    async with (
        counted(shop.database.url) as (database, said),
        clock_running(database, real_now, every=10 * PATIENCE),
    ):
        await until(lambda: _said(said, "commit", 1))
    assert real_now() >= due
    # The second look follows what was applied: more may have fallen due meanwhile.
    assert said[:2] == ["look_out", "begin"]


async def test_customers_that_another_process_holds_do_not_make_the_clock_spin(shop: Shop) -> None:
    await shop.act("purchase", product="pro_monthly")
    shop.time += 40 * DAY
    async with shop.database.transaction() as other:
        await other.execute("select from customers where project_id = $1 for update", shop.project_id)
        async with counted(shop.database.url) as (database, said):
            began = time.monotonic()
            async with clock_running(database, lambda: shop.time, every=10 * PATIENCE):
                await until(lambda: _said(said, "commit", 3))
            assert time.monotonic() - began >= 2 * clock.APART / SECOND


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
        assert said == ["look_out", *BATCH]
        assert len(await agree(shop.database, shop.project_id)) == 4
        said.clear()
        now = await idle(roller, now + round(1000 * wait), 30 * SECOND)
    rest = [one for one in said if one not in ("look_out", "begin", "commit")]
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
    # The facets of each project by a statement of its own.
    assert said == ["look_out", *BATCH[:-1], *["write_facets"] * len(others), "commit"]
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
