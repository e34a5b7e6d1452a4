"""The roller of the charts: whatever happens, in whatever order, the stored facts equal those computed from scratch,
and every question gets their plain sum."""

from __future__ import annotations

import asyncio
from random import Random

import asyncpg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from latchkey.domain.charts.fact import Kind, Question, Resolution
from latchkey.domain.customers.intake import take_in
from latchkey.domain.instants import DAY, SECOND
from latchkey.domain.purchases.purchase import Environment
from latchkey.domain.purchases.subscription import Subscription
from latchkey.storage.catalog.catalogs import Catalogs
from latchkey.storage.charts import books, progress
from latchkey.storage.customer_lists import progress as list_progress
from latchkey.storage.customers.state import load
from latchkey.storage.database import Database
from latchkey.storage.rolling import progress as rolling
from latchkey.usecases.charts import folding
from latchkey.usecases.charts import roller as charts
from latchkey.usecases.charts.numbers import Numbers
from latchkey.usecases.charts.reading import read_sums, read_values
from latchkey.usecases.charts.rebuilding import begin, choose_attributes, rebuild
from latchkey.usecases.charts.roller import Work, catch_up, roll
from latchkey.usecases.customers.attributes import put_attributes
from latchkey.usecases.customers.erasure import erase
from latchkey.usecases.customers.identities import log_in, transfer
from latchkey.usecases.engine.changes import Change
from latchkey.usecases.rolling import rolled
from latchkey.usecases.rolling.roller import Roller, pause_after, roll_all, run_roller
from latchkey.usecases.sandbox.clocks import advance, create_clock, create_customer
from tests.looking_out import looking_out
from tests.patience import PATIENCE
from tests.statements import counted
from tests.usecases.charts_books import Books, agree, kept
from tests.usecases.charts_facts import expected, in_order
from tests.usecases.conftest import NOON, Shop
from tests.usecases.random_lives import ANONYMOUS, NAMED, PRODUCTS, new_shop, something

DIMENSIONS = ("product", "store", "country", "platform", "offering")


def new_work() -> Work:
    return Work(Catalogs(), Numbers())


def question(shop: Shop, *kinds: Kind, environment: str = "PRODUCTION", segment: str | None = None) -> Question:
    today = shop.time // DAY
    return Question(environment, kinds or tuple(Kind), today - 400, today, Resolution.MONTH, segment=segment)


async def answers_agree(shop: Shop, books: Books, chance: Random) -> None:
    for environment in ("PRODUCTION", "SANDBOX"):
        for segment in (None, chance.choice(DIMENSIONS)):
            asked = question(shop, environment=environment, segment=segment)
            found = await read_sums(shop.database, shop.project_id, asked, shop.time)
            assert in_order(found.sums) == expected(books, asked, shop.time)
            assert found.behind == 0


@settings(
    max_examples=12, derandomize=True, deadline=None, database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
@given(seed=st.integers(0, 2**32))
async def test_whatever_happens_the_facts_are_those_one_would_work_out_anew(database: Database, seed: int) -> None:
    chance = Random(seed)
    shop = await new_shop(database)
    work = new_work()
    for user in (*NAMED, *ANONYMOUS):
        await shop.act("purchase", user, chance.choice(PRODUCTS))
    for _ in range(chance.randrange(10, 40)):
        await something(shop, chance)
        if chance.random() < 0.3:
            await roll(database, work, shop.project_id, shop.time)
    assert await catch_up(database, shop.project_id, shop.time)
    books = await agree(database, shop.project_id)
    await answers_agree(shop, books, chance)
    assert not (await roll(database, work, shop.project_id, shop.time)).more
    assert await kept(database, shop.project_id) == books


async def test_a_grace_period_stays_in_the_past_when_the_customer_comes_back_after_it(database: Database) -> None:
    shop = await new_shop(database)
    await shop.act("purchase", "ann", "pro_monthly")
    await shop.act("fail_billing", "ann", grace_days=6)

    async def active() -> list[tuple[int, int]]:
        """The changes by day: when it began, ended, and began again."""
        assert await catch_up(database, shop.project_id, shop.time)
        today = shop.time // DAY
        asked = Question("SANDBOX", (Kind.ACTIVE,), today - 90, today, Resolution.DAY)
        found = await read_sums(database, shop.project_id, asked, shop.time)
        return [(one.period, one.quantity) for one in in_order(found.sums) if one.period is not None]

    await shop.wait(50 * DAY)
    before = await active()
    assert [quantity for _, quantity in before] == [1, -1]
    await shop.act("recover_billing", "ann")
    assert await active() == [*before, (shop.time // DAY, 1)]
    await agree(database, shop.project_id)


async def buy(shop: Shop, product: str, user: str = "alice") -> None:
    await shop.act("purchase", user=user, product=product, environment=Environment.PRODUCTION)


async def counted_again(shop: Shop) -> None:
    """Time passes until the newcomers are counted too."""
    for _ in range(4):
        shop.time += 6 * SECOND
        assert await catch_up(shop.database, shop.project_id, shop.time)


async def total(shop: Shop, kind: Kind, environment: str = "PRODUCTION", segment: str | None = None) -> dict[str, int]:
    found = await read_sums(
        shop.database, shop.project_id, question(shop, kind, environment=environment, segment=segment), shop.time
    )
    totals: dict[str, int] = {}
    for one in found.sums:
        totals[one.segment] = totals.get(one.segment, 0) + one.quantity
    return {segment: count for segment, count in totals.items() if count}


async def test_customers_who_bought_nothing_count_where_they_came_from(shop: Shop) -> None:
    await create_customer(shop.changes, shop.project_id, "alice")
    await create_customer(shop.changes, shop.project_id, "bob")
    await buy(shop, user="carol", product="pro_monthly")
    # They count at once, though their visits are written later.
    assert await total(shop, Kind.CUSTOMER) == {"": 3}
    assert await catch_up(shop.database, shop.project_id, shop.time)
    assert await total(shop, Kind.CUSTOMER) == {"": 3}
    await shop.database.pool.execute("update customers set last_seen_platform = 'ios', last_seen_country = 'DE'")
    await counted_again(shop)
    assert await total(shop, Kind.CUSTOMER, segment="platform") == {"ios": 3}
    assert await total(shop, Kind.PAYMENT, segment="platform") == {"ios": 1}
    # Where somebody came from stays as it was when they were counted.
    await shop.database.pool.execute("update customers set last_seen_platform = 'android'")
    await buy(shop, user="bob", product="pro_monthly")
    await counted_again(shop)
    assert await total(shop, Kind.CUSTOMER, segment="platform") == {"ios": 3}
    assert {"ios", "android"} <= set(await read_values(shop.database, shop.project_id, "PRODUCTION", "platform"))


async def test_two_customers_who_become_one_count_once(shop: Shop) -> None:
    await create_customer(shop.changes, shop.project_id, ANONYMOUS[0])
    await shop.wait(DAY)
    await create_customer(shop.changes, shop.project_id, "alice")
    await counted_again(shop)
    assert await total(shop, Kind.CUSTOMER) == {"": 2}
    await log_in(shop.changes, shop.project_id, ANONYMOUS[0], "alice")
    await counted_again(shop)
    assert await total(shop, Kind.CUSTOMER) == {"": 1}


async def test_a_purchase_that_changes_hands_is_counted_once(shop: Shop) -> None:
    await buy(shop, user="alice", product="pro_monthly")
    await buy(shop, user="bob", product="coins_100")
    assert await catch_up(shop.database, shop.project_id, shop.time)
    await transfer(shop.changes, shop.project_id, "alice", "bob")
    assert await catch_up(shop.database, shop.project_id, shop.time)
    assert await total(shop, Kind.PAYMENT) == {"": 2}
    await agree(shop.database, shop.project_id)


async def test_what_an_erased_customer_bought_stays_though_nobody_had_looked(shop: Shop) -> None:
    await buy(shop, user="alice", product="pro_monthly")
    await erase(shop.changes, shop.project_id, "alice")
    assert await catch_up(shop.database, shop.project_id, shop.time)
    assert await total(shop, Kind.PAYMENT) == {"": 1}
    assert await total(shop, Kind.CUSTOMER) == {"": 1}
    # The same id again is another customer, and the first one still counts.
    await buy(shop, user="alice", product="coins_100")
    assert await catch_up(shop.database, shop.project_id, shop.time)
    assert await total(shop, Kind.CUSTOMER) == {"": 2}
    assert await total(shop, Kind.PAYING_CUSTOMER) == {"": 2}
    await rebuild(shop.database, shop.project_id, lambda: shop.time)
    assert await total(shop, Kind.PAYING_CUSTOMER) == {"": 2}


async def test_what_an_erased_customer_paid_is_not_counted_again_for_the_next_owner(shop: Shop) -> None:
    """The purchase goes on with another customer, who pays for its next period."""
    await buy(shop, user="alice", product="pro_monthly")
    async with shop.database.acquire() as connection:
        alice = await load(connection, shop.project_id, "alice")
    assert alice is not None
    (left,) = alice.subscriptions
    await erase(shop.changes, shop.project_id, "alice")

    async def give(to: str, bought: Subscription) -> None:
        change = Change(
            project_id=shop.project_id,
            app_user_id=to,
            apply=lambda situation: take_in(situation.customer, bought, shop.time),
            create=True,
            claims=frozenset({(bought.store, bought.id)}),
        )
        await shop.changes.make(change)
        assert await catch_up(shop.database, shop.project_id, shop.time)
        await agree(shop.database, shop.project_id)

    await give("bob", left)
    of_customers = (Kind.PAYING_CUSTOMER, Kind.SEEN_PAYER, Kind.SEEN_CONVERTED, Kind.SEEN_REVENUE)
    assert [await total(shop, kind) for kind in (Kind.PAYMENT, *of_customers)] == [{"": 1}] * 5
    assert await total(shop, Kind.CUSTOMER) == {"": 2}
    # The test store renews it by itself.
    shop.time = left.current.ends_at + SECOND
    await give("bob", left)
    assert [await total(shop, kind) for kind in (Kind.PAYMENT, *of_customers)] == [{"": 2}] * 5
    await rebuild(shop.database, shop.project_id, lambda: shop.time)
    assert [await total(shop, kind) for kind in (Kind.PAYMENT, *of_customers)] == [{"": 2}] * 5


async def test_who_lives_on_a_test_clock_counts_there_by_its_time(shop: Shop) -> None:
    await create_clock(shop.database, shop.project_id, "clock", "Clock", NOON, NOON)
    await create_customer(shop.changes, shop.project_id, "alice", "clock")
    await shop.act("purchase", user="alice", product="pro_monthly")
    await counted_again(shop)
    assert await total(shop, Kind.ACTIVE) == await total(shop, Kind.CUSTOMER) == {}
    assert await total(shop, Kind.ACTIVE, environment="clock") == {"": 1}
    assert await total(shop, Kind.CUSTOMER, environment="clock") == {"": 1}
    await advance(shop.changes, shop.project_id, "clock", to=NOON + 3 * DAY)
    assert await catch_up(shop.database, shop.project_id, shop.time)
    today = NOON // DAY
    asked = Question("clock", (Kind.ACTIVE,), today, today + 90, Resolution.DAY)
    found = await read_sums(shop.database, shop.project_id, asked, shop.time)
    assert found.as_of == NOON + 3 * DAY
    assert sum(one.quantity for one in found.sums) == 1
    await advance(shop.changes, shop.project_id, "clock", to=NOON + 60 * DAY)
    assert await catch_up(shop.database, shop.project_id, shop.time)
    found = await read_sums(shop.database, shop.project_id, asked, shop.time)
    books = await agree(shop.database, shop.project_id)
    assert in_order(found.sums) == expected(books, asked, NOON + 60 * DAY)
    assert await read_values(shop.database, shop.project_id, "clock", "product") == ["", "pro_monthly"]


async def test_attributes_that_were_chosen_follow_every_change(shop: Shop) -> None:
    await buy(shop, user="alice", product="pro_monthly")
    await create_customer(shop.changes, shop.project_id, "bob", attributes={"plan": "gold"})
    await counted_again(shop)
    assert await total(shop, Kind.CUSTOMER, segment="attribute:plan") == {"": 2}
    await choose_attributes(shop.database, shop.project_id, ["plan"])
    await counted_again(shop)
    assert await total(shop, Kind.CUSTOMER, segment="attribute:plan") == {"": 1, "gold": 1}
    await put_attributes(shop.changes, shop.project_id, "alice", {"plan": "silver"})
    assert await catch_up(shop.database, shop.project_id, shop.time)
    assert await total(shop, Kind.CUSTOMER, segment="attribute:plan") == {"silver": 1, "gold": 1}
    assert await total(shop, Kind.PAYMENT, segment="attribute:plan") == {"silver": 1}
    assert set(await read_values(shop.database, shop.project_id, "PRODUCTION", "attribute:plan")) == {"silver", "gold"}


@pytest.mark.one_server("it breaks statements off on the server, and there they run on a node")
@pytest.mark.parametrize("at", ["rolls_batch", "write_charts"])
async def test_a_batch_that_breaks_off_leaves_nothing_of_itself(
    shop: Shop, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await buy(shop, product="pro_monthly")
    assert await catch_up(shop.database, shop.project_id, shop.time)
    await shop.act("change_product", new_product_id="pro_yearly")
    before = await kept(shop.database, shop.project_id), await total(shop, Kind.PAYMENT)
    places = {
        "rolls_batch": (
            rolling, "_BATCH", "order by h.project_id", "order by pg_terminate_backend(pg_backend_pid())",
        ),
        "write_charts": (
            books, "_WRITE", "returning c.project_id, c.tail",
            "returning c.project_id, c.tail, pg_terminate_backend(pg_backend_pid())",
        ),
    }  # fmt: skip
    module, name, end, instead = places[at]
    with monkeypatch.context() as broken:
        text = getattr(module, name)
        assert text.endswith(end)
        broken.setattr(module, name, text.removesuffix(end) + instead)
        with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
            await catch_up(shop.database, shop.project_id, shop.time)
    assert (await kept(shop.database, shop.project_id), await total(shop, Kind.PAYMENT)) == before
    assert await catch_up(shop.database, shop.project_id, shop.time)
    await answers_agree(shop, await agree(shop.database, shop.project_id), Random(1))


async def test_several_rollers_at_once_do_the_work_once(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rolled, "AT_ONCE", 10)
    monkeypatch.setattr("latchkey.usecases.charts.books.FOLD_AT", 100)
    await asyncio.gather(*(buy(shop, user=f"user{n}", product="pro_monthly") for n in range(60)))
    async with shop.database.acquire() as connection:
        await progress.start(connection)
        await list_progress.start(connection)

    async def roller() -> None:
        work = new_work()
        while (await roll_all(shop.database, work, shop.time)).more:
            pass

    await asyncio.gather(*(roller() for _ in range(4)))
    # One that found the project locked may have been the last; the next turn of any takes the rest.
    assert await catch_up(shop.database, shop.project_id, shop.time)
    found = await agree(shop.database, shop.project_id)
    await answers_agree(shop, found, Random(1))
    assert await total(shop, Kind.PAYMENT) == {"": 60}


async def test_a_rebuild_gives_the_same_answers(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("latchkey.usecases.charts.resumming.SUBJECTS_AT_ONCE", 3)
    monkeypatch.setattr("latchkey.usecases.charts.resumming.CLEARED_AT_ONCE", 50)
    for n in range(8):
        await buy(shop, user=f"user{n}", product="pro_monthly")
    await erase(shop.changes, shop.project_id, "user0")
    assert await catch_up(shop.database, shop.project_id, shop.time)
    async with shop.database.transaction() as connection:
        await folding.fold(connection, shop.project_id, shop.time)
    before = await kept(shop.database, shop.project_id)
    # Sums that are wrong for whatever reason.
    assert await shop.database.pool.fetchval("select count(*) from chart_blocks") > 0
    await shop.database.pool.execute("delete from chart_blocks")
    told: list[str] = []
    erased = False

    async def with_an_erasure() -> None:
        """Somebody is erased, and somebody else buys, while the sums are computed."""
        nonlocal erased
        if not erased and "summing" in told:
            erased = True
            await erase(shop.changes, shop.project_id, "user1")
            await buy(shop, user="user2", product="coins_100")

    await begin(shop.database, shop.project_id)
    work = new_work()
    while True:
        await roll(shop.database, work, shop.project_id, shop.time, wait=True)
        async with shop.database.acquire() as connection:
            reached = await progress.load(connection, shop.project_id)
        assert reached is not None
        asked = await read_sums(shop.database, shop.project_id, question(shop), shop.time)
        assert asked.rebuilding == (reached.rebuilding is not None)
        if reached.rebuilding is None and reached.position == reached.head:
            break
        told.append(reached.rebuilding or "events")
        await with_an_erasure()
    assert erased
    after = await agree(shop.database, shop.project_id)
    assert len(after) == len(before) + 1
    await answers_agree(shop, after, Random(1))


async def test_the_role_keeps_up_by_itself_until_it_is_told_to_stop(shop: Shop) -> None:
    async with looking_out(shop.database, lambda: shop.time) as lookout:
        running = asyncio.create_task(run_roller(lookout, shop.database, lambda: shop.time))
        await buy(shop, product="pro_monthly")
        async with asyncio.timeout(PATIENCE):
            while not await total(shop, Kind.PAYMENT):  # noqa: ASYNC110 - another connection writes it
                await asyncio.sleep(0.02)
    async with asyncio.timeout(PATIENCE):
        await running


async def test_a_customer_that_cannot_be_understood_stops_nobody(shop: Shop) -> None:
    await buy(shop, user="alice", product="pro_monthly")
    await buy(shop, user="bob", product="pro_monthly")
    await shop.database.pool.execute("""update customers set state = '{"nonsense": 1}' where app_user_id = 'alice'""")
    assert await catch_up(shop.database, shop.project_id, shop.time)
    assert await total(shop, Kind.PAYMENT) == {"": 1}


@pytest.mark.one_server("it names the statements that are sent, which are calls of functions there")
async def test_while_nothing_happens_the_roller_looks_once_a_second(shop: Shop) -> None:
    await buy(shop, product="pro_monthly")
    async with counted(shop.database.url) as (database, said):
        roller, now = Roller(database), shop.time
        while now < shop.time + 30 * SECOND:
            now += round(1000 * await roller.turn(now))
        del said[:]
        while now < shop.time + 90 * SECOND:
            now += round(1000 * await roller.turn(now))
    assert said.count("look_out") <= 67
    assert set(said) <= {"look_out", "begin", "take_rolls_behind", "commit"}


async def test_thousands_of_new_customers_are_counted_without_a_wait_between_batches(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(charts, "NEWCOMERS_AT_ONCE", 3)
    for number in range(10):
        await create_customer(shop.changes, shop.project_id, f"visitor{number}")
    roller = Roller(shop.database)
    await roller.turn(shop.time)
    shop.time += 6 * SECOND
    # No time passes from one batch to the next.
    for _ in range(4):
        await roller.turn(shop.time)
    newest = await shop.database.pool.fetchval("select max(id) from customers")
    assert await shop.database.pool.fetchval("select counted from chart_rolls") == newest


@pytest.mark.parametrize("took", [0.0, 0.01, 0.2, 0.4])
def test_what_is_committed_while_a_batch_runs_is_in_the_charts_within_a_second(took: float) -> None:
    # The rest of this batch, the pause, and the next batch; a look takes some milliseconds besides.
    assert took + pause_after(took) + took <= 0.95
    # The next one may take twice as long, if this one was no long one.
    assert took > 0.25 or took + pause_after(took) + 2 * took <= 0.95


def test_after_a_slow_batch_the_next_one_follows_but_gives_way() -> None:
    assert 0 < pause_after(3.0) < 0.1
