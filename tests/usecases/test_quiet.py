"""Background work follows the load: while nothing happens, hardly anything is said to the database."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from latchkey.database.pool import Database
from latchkey.domain.instants import MINUTE, SECOND, Ms
from latchkey.engine import clock
from latchkey.now import real_now
from latchkey.subjects.demo.usecases.project import add_catalog
from latchkey.subjects.projects.usecases import create_project
from latchkey.subjects.purchase_intake.rules import NewEntry
from latchkey.subjects.purchase_intake.storage import journal_rows as journal
from latchkey.subjects.purchase_intake.usecases.notifications import Processor, run_stores
from latchkey.subjects.segments.storage import projections as list_progress
from latchkey.subjects.segments.storage.projections import Roll
from latchkey.subjects.segments.usecases.projector import Roller, roll_all
from latchkey.subjects.test_clocks.usecases import create_customer
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
        "insert into customers (project_id, app_user_id, state, first_seen_at, last_seen_at)"
        " select project_id, $2, state, first_seen_at, last_seen_at from customers where app_user_id = $1"
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


HANDLE = (
    "insert into store_handles (project_id, store, handle_hash, handle, app_id, environment, store_id, kind,"
    " product_id, first_seen_at, last_told_at, check_at, acknowledge_at)"
    " values ($1, 'play_store', 'x', 'x', 'app_shop', 'PRODUCTION', 'x', 'subscription', 'pro_monthly', 1, 1, $2, $3)"
)


class Asked:
    """In place of a `Processor`: counts what it is asked to do, and does it."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.times: Counter[str] = Counter()

    async def process_due(self) -> int:
        self.times["process"] += 1
        async with self.database.acquire() as connection:
            return len(await journal.claim(connection, real_now(), real_now() + 60_000, 10))

    async def acknowledge_due(self) -> int:
        self.times["acknowledge"] += 1
        await self.database.pool.execute("update store_handles set acknowledge_at = null")
        return 1

    async def check_due(self) -> int:
        self.times["check"] += 1
        await self.database.pool.execute("update store_handles set check_at = null")
        return 1

    async def read_histories(self) -> int:
        return 0


@asynccontextmanager
async def running(database: Database, asked: Asked, every: float) -> AsyncIterator[None]:
    stop = asyncio.Event()
    async with looking_out(database, real_now, every) as lookout:
        role = asyncio.create_task(run_stores(lookout, cast("Processor", asked), database, real_now, 30, stop))
        try:
            yield
        finally:
            stop.set()
            await role


def happened(times: Counter[str], name: str, often: int) -> Callable[[], Any]:
    async def enough() -> bool:
        return times[name] >= often

    return enough


async def test_a_filed_notification_is_processed_without_waiting_for_the_next_look(shop: Shop) -> None:
    asked = Asked(shop.database)
    async with running(shop.database, asked, 10 * PATIENCE):
        await until(happened(asked.times, "process", 1))
        now = real_now()
        entry = NewEntry(
            project_id=shop.project_id, app_id="app_shop", store="play_store", source="notification",
            external_id="n1", kind="test", environment=None, subject=None, occurred_at=now, received_at=now, checked={},
            payload="{}", next_at=now,
        )  # fmt: skip
        async with shop.database.acquire() as connection:
            await journal.file(connection, [entry])
        await until(happened(asked.times, "process", 2))


@pytest.mark.parametrize("name", ["acknowledge", "check"])
async def test_what_falls_due_later_is_done_then(shop: Shop, name: str) -> None:
    due = real_now() + 300
    await shop.database.pool.execute(HANDLE, shop.project_id, *((due, None) if name == "check" else (None, due)))
    asked = Asked(shop.database)
    async with running(shop.database, asked, 10 * PATIENCE):
        await until(happened(asked.times, name, 1))
    assert real_now() >= due
    assert asked.times[name] == 1
