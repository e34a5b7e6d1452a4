"""The roller: whatever happens, in whatever order, the stored figures equal those computed from scratch."""

from __future__ import annotations

import asyncio
import itertools
from random import Random
from typing import Any

import asyncpg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from latchkey.domain.figures.definitions import NEW_CUSTOMERS, PERIODS
from latchkey.domain.figures.report import Report
from latchkey.domain.figures.window import Window
from latchkey.domain.instants import DAY, HOUR, MINUTE
from latchkey.domain.purchases.purchase import Environment
from latchkey.domain.refusal import Refusal
from latchkey.storage.catalog.catalogs import Catalogs
from latchkey.storage.database import Database
from latchkey.storage.figures import books, progress
from latchkey.usecases.access.projects import create_project
from latchkey.usecases.customers.erasure import erase
from latchkey.usecases.customers.grants import grant
from latchkey.usecases.customers.identities import log_in, transfer
from latchkey.usecases.figures import roller as figures_roller
from latchkey.usecases.figures.overview import catch_up, overview
from latchkey.usecases.figures.roller import roll, roll_all
from latchkey.usecases.sandbox.clocks import create_clock, create_customer
from latchkey.usecases.sandbox.demo import add_catalog
from tests.patience import PATIENCE
from tests.usecases.conftest import NOON, Shop
from tests.usecases.figures_books import agree, kept, sums

_numbers = itertools.count()

ANONYMOUS = [f"$RCAnonymousID:{letter * 32}" for letter in "ab"]
NAMED = ["alice", "bob"]
PRODUCTS = ["pro_monthly", "pro_yearly", "team_monthly", "coins_100", "pro_lifetime"]
ACTIONS: list[Any] = [
    "purchase", "purchase", "purchase", "cancel", "uncancel", "renew", "fail_billing", "recover_billing", "expire",
    "refund", "reverse_refund", "change_product", "pause", "resume", "extend", "issue_invoice", "store_outage",
]  # fmt: skip
WAITS = [0, 1, MINUTE, 5 * HOUR, DAY, 3 * DAY, 8 * DAY, 31 * DAY, 100 * DAY]


async def new_shop(database: Database, time: int = NOON) -> Shop:
    project_id = f"proj_{next(_numbers)}"
    await create_project(database, "Shop", time, project_id=project_id)
    await add_catalog(database, project_id, time)
    return Shop(database, project_id, time)


async def something(shop: Shop, chance: Random) -> None:
    """One random action of a customer or an operator, or time that passes; refusals are ignored."""
    user, other = chance.choice(NAMED + ANONYMOUS), chance.choice(NAMED + ANONYMOUS)
    named = chance.choice(NAMED)
    try:
        match chance.randrange(24):
            case 0:
                await log_in(shop.changes, shop.project_id, chance.choice(ANONYMOUS), named)
            case 1:
                await transfer(shop.changes, shop.project_id, user, other)
            case 2:
                await shop.show(user, f"test_1_{chance.randrange(4)}", chance.choice(PRODUCTS))
            case 3:
                await erase(shop.changes, shop.project_id, user)
            case 4:
                await grant(shop.changes, shop.project_id, user, "pro", create=True)
            case 5 | 6 | 7:
                await shop.wait(chance.choice(WAITS))
            case _:
                await act(shop, chance, user)
    except Refusal:
        pass


async def act(shop: Shop, chance: Random, user: str) -> None:
    name = chance.choice(ACTIONS)
    more: dict[str, Any] = {}
    if name == "purchase":
        more = {"trial": chance.random() < 0.3, "environment": chance.choice(list(Environment))}
    elif name == "fail_billing":
        more = {"grace_days": chance.choice((0, 6))}
    elif name == "change_product":
        more = {"new_product_id": chance.choice(PRODUCTS[:3]), "at_renewal": chance.random() < 0.5}
    elif name == "pause":
        more = {"resumes_at": shop.time + 90 * DAY}
    elif name == "extend":
        more = {"days": 3}
    product = chance.choice(PRODUCTS) if name in ("purchase", "store_outage") else None
    await shop.act(name, user, product, **more)


@settings(
    max_examples=20, derandomize=True, deadline=None, database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
@given(seed=st.integers(0, 2**32))
async def test_whatever_happens_the_books_are_those_one_would_work_out_anew(database: Database, seed: int) -> None:
    chance = Random(seed)
    shop = await new_shop(database)
    catalogs = Catalogs()
    for user in (*NAMED, *ANONYMOUS):
        await shop.act("purchase", user, chance.choice(PRODUCTS))
    for _ in range(chance.randrange(10, 50)):
        await something(shop, chance)
        if chance.random() < 0.3:
            await roll(database, catalogs, shop.project_id, shop.time)
    assert await catch_up(database, shop.project_id, shop.time)
    books = await agree(database, shop.project_id)
    assert not await roll(database, catalogs, shop.project_id, shop.time)
    assert await kept(database, shop.project_id) == books
    for days, environment in itertools.product(PERIODS, Environment):
        now = shop.time + chance.choice(WAITS)
        seen = await overview(database, shop.project_id, environment, days, now)
        window = Window(days, now)
        report = Report(window, sums(books, window, environment))
        assert seen.currencies == report.currencies
        assert [one for one in seen.cards if one.figure is not NEW_CUSTOMERS] == [
            one for one in report.cards() if one.figure is not NEW_CUSTOMERS
        ]
        assert [one for one in seen.series if one.figure is not NEW_CUSTOMERS] == [
            one for one in report.series() if one.figure is not NEW_CUSTOMERS
        ]


async def test_a_purchase_that_changes_hands_is_counted_once(shop: Shop) -> None:
    await shop.act("purchase", user=ANONYMOUS[0], product="pro_monthly")
    assert await catch_up(shop.database, shop.project_id, shop.time)
    await shop.act("purchase", user="alice", product="coins_100")
    await log_in(shop.changes, shop.project_id, ANONYMOUS[0], "alice")
    await shop.act("purchase", user="bob", product="coins_100")
    await transfer(shop.changes, shop.project_id, "alice", "bob")
    assert await catch_up(shop.database, shop.project_id, shop.time)
    assert len(await agree(shop.database, shop.project_id)) == 3


async def test_a_customer_who_was_merged_before_anybody_looked_is_in_the_figures(shop: Shop) -> None:
    await shop.act("purchase", user=ANONYMOUS[0], product="pro_monthly")
    await create_customer(shop.changes, shop.project_id, "alice")
    await log_in(shop.changes, shop.project_id, ANONYMOUS[0], "alice")
    assert await catch_up(shop.database, shop.project_id, shop.time)
    assert len(await agree(shop.database, shop.project_id)) == 1


async def test_a_merge_makes_one_of_two_who_came_and_went(shop: Shop) -> None:
    await shop.act("purchase", user=ANONYMOUS[0], product="pro_monthly")
    await shop.wait(DAY)
    await shop.act("expire", user=ANONYMOUS[0])
    await shop.wait(DAY)
    await shop.act("purchase", user="alice", product="pro_monthly")
    assert await catch_up(shop.database, shop.project_id, shop.time)
    await log_in(shop.changes, shop.project_id, ANONYMOUS[0], "alice")
    assert await catch_up(shop.database, shop.project_id, shop.time)
    books = await agree(shop.database, shop.project_id)
    assert sum(line.tally.resubscribed for lines in books.values() for line in lines) == 1


async def test_what_an_erased_customer_bought_stays_in_the_books_though_nobody_had_looked(shop: Shop) -> None:
    await shop.act("purchase", user="alice", product="pro_monthly")
    await erase(shop.changes, shop.project_id, "alice")
    assert await catch_up(shop.database, shop.project_id, shop.time)
    (lines,) = (await kept(shop.database, shop.project_id)).values()
    assert sum(line.tally.paid for line in lines) == 9_990_000
    # It ends with the paid period: nobody is there to renew it.
    assert sum(line.tally.active for line in lines) == 0


async def test_who_lives_on_a_test_clock_is_not_counted(shop: Shop) -> None:
    await create_clock(shop.database, shop.project_id, "clock", "Clock", NOON, NOON)
    await create_customer(shop.changes, shop.project_id, "alice", "clock")
    await shop.act("purchase", user="alice", product="pro_monthly")
    assert await catch_up(shop.database, shop.project_id, shop.time)
    assert await kept(shop.database, shop.project_id) == {}


@pytest.mark.parametrize("at", ["figures_batch", "write_figures"])
async def test_a_batch_that_breaks_off_leaves_nothing_of_itself(
    shop: Shop, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await shop.act("purchase", product="pro_monthly")
    assert await catch_up(shop.database, shop.project_id, shop.time)
    await shop.act("change_product", new_product_id="pro_yearly")
    before = await kept(shop.database, shop.project_id), await position(shop)
    places = {"figures_batch": (progress, "_BATCH"), "write_figures": (books, "_WRITE")}
    with monkeypatch.context() as broken:
        # The statement runs, and then its backend is terminated: after the marks were taken, or after everything.
        module, name = places[at]
        ends = {
            "figures_batch": ("order by h.project_id", "order by pg_terminate_backend(pg_backend_pid())"),
            "write_figures": (
                "where r.project_id = n.project_id",
                "where r.project_id = n.project_id returning pg_terminate_backend(pg_backend_pid())",
            ),
        }
        text = getattr(module, name)
        assert text.endswith(ends[at][0])
        broken.setattr(module, name, text.removesuffix(ends[at][0]) + ends[at][1])
        with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
            await catch_up(shop.database, shop.project_id, shop.time)
    assert (await kept(shop.database, shop.project_id), await position(shop)) == before
    assert await catch_up(shop.database, shop.project_id, shop.time)
    await agree(shop.database, shop.project_id)


async def position(shop: Shop) -> int:
    value: int = await shop.database.pool.fetchval(
        "select position from figure_rolls where project_id = $1", shop.project_id
    )
    return value


async def test_several_rollers_at_once_do_the_work_once(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures_roller, "AT_ONCE", 10)
    await asyncio.gather(*(shop.act("purchase", user=f"user{n}", product="pro_monthly") for n in range(100)))

    async with shop.database.acquire() as connection:
        await progress.start(connection)

    async def roller() -> None:
        catalogs = Catalogs()
        while (await roll_all(shop.database, catalogs, shop.time)).more:
            pass

    await asyncio.gather(*(roller() for _ in range(4)))
    # One that found the project locked may have been the last; the next turn of any takes the rest.
    assert await catch_up(shop.database, shop.project_id, shop.time)
    assert len(await agree(shop.database, shop.project_id)) == 100


async def test_a_customer_that_cannot_be_understood_stops_nobody(shop: Shop) -> None:
    await shop.act("purchase", user="alice", product="pro_monthly")
    await shop.act("purchase", user="bob", product="pro_monthly")
    await shop.database.pool.execute("""update customers set state = '{"nonsense": 1}' where app_user_id = 'alice'""")
    assert await catch_up(shop.database, shop.project_id, shop.time)
    assert len(await kept(shop.database, shop.project_id)) == 1


async def test_the_role_keeps_up_by_itself_until_it_is_told_to_stop(shop: Shop) -> None:
    stop = asyncio.Event()
    running = asyncio.create_task(figures_roller.run_roller(shop.database, lambda: shop.time, stop))
    await shop.act("purchase", product="pro_monthly")
    async with asyncio.timeout(PATIENCE):
        while not await kept(shop.database, shop.project_id):  # noqa: ASYNC110 - another connection writes it
            await asyncio.sleep(0.02)
    stop.set()
    async with asyncio.timeout(PATIENCE):
        await running
