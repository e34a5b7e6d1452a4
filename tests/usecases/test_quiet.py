"""Background work follows the load: while nothing happens, hardly anything is said to the database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from latchkey.domain.instants import MINUTE, SECOND, Ms
from latchkey.now import real_now
from latchkey.storage.customer_lists import progress as list_progress
from latchkey.storage.customer_lists.progress import Roll
from latchkey.storage.database import Database
from latchkey.usecases.access.projects import create_project
from latchkey.usecases.engine import clock
from latchkey.usecases.rolling.roller import Roller, roll_all
from latchkey.usecases.sandbox.clocks import create_customer
from latchkey.usecases.sandbox.demo import add_catalog
from tests.looking_out import looking_out
from tests.patience import PATIENCE, until
from tests.statements import counted
from tests.usecases.conftest import Shop


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


async def idle(roller: Roller, now: Ms, length: Ms) -> Ms:
    end = now + length
    while now < end:
        now += round(1000 * await roller.turn(now))
    return now


async def test_a_project_on_which_the_rules_fail_stops_no_other(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    other = Shop(shop.database, "proj_other", shop.time)
    await create_project(shop.database, "Other", shop.time, project_id=other.project_id)
    await add_catalog(shop.database, other.project_id, shop.time)
    async with shop.database.acquire() as connection:
        await list_progress.start(connection)
    await other.act("purchase", product="pro_monthly")
    await shop.act("purchase", product="pro_monthly")
    write = list_progress.write_facets

    async def broken(connection: Any, gone: Any, kept: Any, roll: Roll) -> None:
        if roll.project_id == other.project_id:
            raise ValueError(other.project_id)
        await write(connection, gone, kept, roll)

    monkeypatch.setattr(list_progress, "write_facets", broken)
    await roll_all(shop.database, shop.time)
    assert (await listed(shop), await listed(other)) == (1, 0)


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
        assert await listed(shop) == 1
    await idle(roller, now, 20 * SECOND)
    assert await listed(shop) == 3


async def listed(shop: Shop) -> int:
    """Customers in the lists."""
    found: int = await shop.database.pool.fetchval(
        "select count(*) from customer_facets where project_id = $1", shop.project_id
    )
    return found
