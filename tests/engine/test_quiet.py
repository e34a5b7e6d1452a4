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
from latchkey.subjects.purchase_intake.rules import NewEntry
from latchkey.subjects.purchase_intake.storage import journal_rows as journal
from latchkey.subjects.purchase_intake.usecases.notifications import Processor, run_stores
from latchkey.subjects.segments import storage as list_progress
from latchkey.subjects.segments.storage import Roll
from latchkey.subjects.segments.usecases.projector import Roller, roll_all
from latchkey.subjects.test_clocks.usecases import create_customer
from tests.engine.fixtures import Core, new_project
from tests.looking_out import looking_out
from tests.patience import PATIENCE, until
from tests.statements import counted


async def _said(said: list[str], name: str, times: int) -> bool:
    return said.count(name) >= times


async def due_at(core: Core) -> Ms:
    at: Ms = await core.database.pool.fetchval("select next_due_at from customers")
    return at


@asynccontextmanager
async def clock_running(database: Database, now: Callable[[], Ms], every: float = 0.01) -> AsyncIterator[None]:
    async with looking_out(database, now, every) as looks:
        running = asyncio.create_task(clock.run_clock(looks, database, now))
        yield
    await running


@pytest.mark.one_server("it counts statements, which have other texts there")
async def test_what_another_process_writes_is_applied_when_it_falls_due(core: Core) -> None:
    async with counted(core.database.url) as (database, said), clock_running(database, lambda: core.time):
        await until(lambda: _said(said, "look_out_in_projects", 3))
        await core.act("purchase", product="pro_monthly")
        due = core.time + 2 * SECOND
        await core.database.pool.execute("update customers set next_due_at = $1", due)
        core.time = due - 1
        said.clear()
        await until(lambda: _said(said, "look_out_in_projects", 10))
        assert set(said) == {"look_out_at_home", "look_out_in_projects"}, "nobody is due yet"
        core.time = due

        async def applied() -> bool:
            return await due_at(core) > due

        await until(applied)


@pytest.mark.one_server("it counts statements, which have other texts there")
async def test_what_falls_due_before_the_next_look_is_applied_then(core: Core) -> None:
    await core.act("purchase", product="pro_monthly")
    due = real_now() + 300
    await core.database.pool.execute("update customers set next_due_at = $1", due)
    async with (
        counted(core.database.url) as (database, said),
        clock_running(database, real_now, every=10 * PATIENCE),
    ):
        await until(lambda: _said(said, "commit", 1))
    assert real_now() >= due
    # The second look follows what was applied: more may have fallen due meanwhile.
    assert said[:3] == ["look_out_at_home", "look_out_in_projects", "begin"]


async def idle(roller: Roller, now: Ms, length: Ms) -> Ms:
    end = now + length
    while now < end:
        now += round(1000 * await roller.turn(now))
    return now


async def test_a_project_on_which_the_rules_fail_stops_no_other(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    other = Core(core.database, "proj_other", core.time)
    await new_project(core.database, other.project_id, core.time)
    async with core.database.acquire() as connection:
        await list_progress.start(connection, None)
    await other.act("purchase", product="pro_monthly")
    await core.act("purchase", product="pro_monthly")
    write = list_progress.write_facets

    async def broken(connection: Any, gone: Any, kept: Any, roll: Roll) -> None:
        if roll.project_id == other.project_id:
            raise ValueError(other.project_id)
        await write(connection, gone, kept, roll)

    monkeypatch.setattr(list_progress, "write_facets", broken)
    await roll_all(core.database, core.time)
    assert (await listed(core), await listed(other)) == (1, 0)


@pytest.mark.one_server("it adds customers past the counter of keys, which makes them visible in order there")
async def test_a_customer_whose_transaction_still_runs_is_not_passed_over(core: Core) -> None:
    """A lower key becomes visible after a higher one was marked: the count waits for its transaction."""
    roller = Roller(core.database)
    add = (
        "insert into customers (project_id, app_user_id, state, first_seen_at, last_seen_at)"
        " select project_id, $2, state, first_seen_at, last_seen_at from customers where app_user_id = $1"
    )
    await create_customer(core.changes, core.project_id, "first")
    now = await idle(roller, core.time, MINUTE)
    async with core.database.transaction() as slow:
        await slow.execute(add, "first", "lower")
        await core.database.pool.execute(add, "first", "higher")
        now = await idle(roller, now, 20 * SECOND)
        assert await listed(core) == 1
    await idle(roller, now, 20 * SECOND)
    assert await listed(core) == 3


async def listed(core: Core) -> int:
    """Customers in the lists."""
    found: int = await core.database.pool.fetchval(
        "select count(*) from customer_facets where project_id = $1", core.project_id
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

    async def process_due(self, *_: object) -> int:
        self.times["process"] += 1
        async with self.database.acquire() as connection:
            return len(await journal.claim(connection, real_now(), real_now() + 60_000, 10, []))

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


async def test_a_filed_notification_is_processed_without_waiting_for_the_next_look(core: Core) -> None:
    asked = Asked(core.database)
    async with running(core.database, asked, 10 * PATIENCE):
        await until(happened(asked.times, "process", 1))
        now = real_now()
        entry = NewEntry(
            project_id=core.project_id, app_id="app_shop", store="play_store", source="notification",
            external_id="n1", kind="test", environment=None, subject=None, occurred_at=now, received_at=now, checked={},
            payload="{}", next_at=now,
        )  # fmt: skip
        async with core.database.acquire() as connection:
            await journal.file(connection, [entry])
        await until(happened(asked.times, "process", 2))


@pytest.mark.parametrize("name", ["acknowledge", "check"])
async def test_what_falls_due_later_is_done_then(core: Core, name: str) -> None:
    due = real_now() + 300
    await core.database.pool.execute(HANDLE, core.project_id, *((due, None) if name == "check" else (None, due)))
    asked = Asked(core.database)
    async with running(core.database, asked, 10 * PATIENCE):
        await until(happened(asked.times, name, 1))
    assert real_now() >= due
    assert asked.times[name] == 1
