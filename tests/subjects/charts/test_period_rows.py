"""The rows of periods: whatever happens, in whatever order, they are those one would write anew, and nothing that a
transaction commits late is missed."""

from collections import Counter
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from latchkey.database.pool import Database
from latchkey.domain.customers.customer import LastSeen
from latchkey.domain.customers.intake import take_in
from latchkey.domain.instants import DAY, SECOND
from latchkey.domain.purchases.purchase import Environment
from latchkey.domain.purchases.subscription import Subscription
from latchkey.engine.changes import Change
from latchkey.engine.storage import read_rows as presence
from latchkey.engine.storage.state import load
from latchkey.subjects.charts.rules.facts import Kind
from latchkey.subjects.charts.storage import fact_cache as rows
from latchkey.subjects.customers.usecases.edits import erase, put_attributes
from latchkey.subjects.customers.usecases.identities import log_in
from latchkey.subjects.test_clocks.usecases import advance, create_clock, create_customer
from tests.engine.fixtures import NOON, Core
from tests.engine.random_lives import ANONYMOUS, NAMED, PRODUCTS, new_shop, something
from tests.subjects.charts.stored_rows import agree, facts


@settings(
    max_examples=20, derandomize=True, deadline=None, database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
@given(seed=st.integers(0, 2**32))
async def test_whatever_happens_the_rows_are_those_one_would_write_anew(database: Database, seed: int) -> None:
    chance = Random(seed)
    core = await new_shop(database)
    for user in (*NAMED, *ANONYMOUS):
        await core.act("purchase", user, chance.choice(PRODUCTS))
    for _ in range(chance.randrange(10, 40)):
        await something(core, chance)
        await agree(database, core.project_id)


async def buy(core: Core, product: str, user: str = "alice") -> None:
    await core.act("purchase", user=user, product=product, environment=Environment.PRODUCTION)


async def totals(
    core: Core, *kinds: Kind, environment: str = "PRODUCTION", segment: str | None = None
) -> list[dict[str, int]]:
    """Of each kind up to now, by a dimension."""
    found = await facts(core.database, core.project_id)
    counts: dict[Kind, Counter[str]] = {kind: Counter() for kind in kinds}
    for key, (quantity, *_) in found.items():
        if key.kind in counts and key.environment == environment and key.moment <= core.time:
            counts[Kind(key.kind)]["" if segment is None else getattr(key, segment)] += quantity
    return [{value: count for value, count in counts[kind].items() if count} for kind in kinds]


async def test_customers_count_where_they_were_first_seen(core: Core) -> None:
    await create_customer(core.changes, core.project_id, "alice")
    await buy(core, user="bob", product="pro_monthly")
    assert await totals(core, Kind.CUSTOMER) == [{"": 2}]

    async def visit(platform: str) -> None:
        keys = await core.database.pool.fetch("select id from customers order by id")
        async with core.database.transaction() as connection:
            seen = LastSeen(core.time, platform, None, "1.0", "DE")
            await presence.write(connection, [((core.project_id, row["id"]), seen) for row in keys])

    # A purchase may be written before the visit that it came with.
    await visit("ios")
    assert await totals(core, Kind.CUSTOMER, Kind.PAYMENT, segment="platform") == [{"ios": 2}, {"ios": 1}]
    # What is bought later comes from where the customer was seen then.
    await visit("android")
    await buy(core, user="alice", product="pro_monthly")
    found = await totals(core, Kind.CUSTOMER, Kind.PAYMENT, segment="platform")
    assert found == [{"ios": 2}, {"ios": 1, "android": 1}]


async def test_erasing_a_customer_changes_no_chart(core: Core) -> None:
    await core.database.pool.execute("update projects set chart_attributes = '{team}'")
    await create_customer(core.changes, core.project_id, "alice", attributes={"team": "red", "secret": "x"})
    for product in ("pro_monthly", "coins_100"):
        await buy(core, product)
        await core.wait(DAY)
    await core.act("refund", user="alice")
    before = await facts(core.database, core.project_id)
    await erase(core.changes, core.project_id, "alice")
    assert await facts(core.database, core.project_id) == before
    # The same id again is another customer, and the first one still counts.
    await buy(core, "coins_100")
    assert await totals(core, Kind.CUSTOMER, Kind.PAYING_CUSTOMER) == [{"": 2}] * 2


async def test_what_an_erased_customer_paid_is_not_counted_again_for_the_next_owner(core: Core) -> None:
    """The purchase goes on with another customer, who pays for its next period."""
    await buy(core, "pro_monthly")
    async with core.database.acquire() as connection:
        alice = await load(connection, core.project_id, "alice")
    assert alice is not None
    (left,) = alice.subscriptions
    await erase(core.changes, core.project_id, "alice")

    async def give(to: str, bought: Subscription) -> None:
        change = Change(
            project_id=core.project_id,
            app_user_id=to,
            apply=lambda situation: take_in(situation.customer, bought, core.time),
            create=True,
            claims=frozenset({(bought.store, bought.id)}),
        )
        await core.changes.make(change)
        await agree(core.database, core.project_id)

    await give("bob", left)
    of_customers = (Kind.PAYING_CUSTOMER, Kind.SEEN_PAYER, Kind.SEEN_CONVERTED, Kind.SEEN_REVENUE)
    assert await totals(core, Kind.PAYMENT, *of_customers, Kind.CUSTOMER) == [{"": 1}] * 5 + [{"": 2}]
    # The test store renews it by itself.
    core.time = left.current.ends_at + SECOND
    await give("bob", left)
    assert await totals(core, Kind.PAYMENT, *of_customers) == [{"": 2}] * 5


async def test_who_lives_on_a_test_clock_counts_there_by_its_time(core: Core) -> None:
    await create_clock(core.database, core.project_id, "clock", "Clock", NOON, NOON)
    await create_customer(core.changes, core.project_id, "alice", "clock")
    await core.act("purchase", user="alice", product="pro_monthly")
    assert await totals(core, Kind.ACTIVE, Kind.CUSTOMER) == [{}, {}]
    assert await totals(core, Kind.ACTIVE, Kind.CUSTOMER, environment="clock") == [{"": 1}, {"": 1}]
    await advance(core.changes, core.project_id, "clock", to=NOON + 60 * DAY)
    await agree(core.database, core.project_id)


async def test_attributes_that_were_chosen_follow_every_change(core: Core) -> None:
    await buy(core, "pro_monthly")
    await create_customer(core.changes, core.project_id, "bob", attributes={"plan": "gold", "age": "7"})
    assert await totals(core, Kind.CUSTOMER, segment="attributes") == [{"": 2}]
    await core.database.pool.execute("update projects set chart_attributes = '{plan}'")
    assert await totals(core, Kind.CUSTOMER, segment="attributes") == [{"": 1, "plan=gold": 1}]
    await put_attributes(core.changes, core.project_id, "alice", {"plan": "silver"})
    assert await totals(core, Kind.PAYMENT, segment="attributes") == [{"plan=silver": 1}]


async def changed(core: Core, known_xid: int) -> tuple[int, set[str]]:
    """The names of customers that changed since, and of those who are gone."""
    async with core.database.transaction(isolation="repeatable_read", readonly=True) as connection:
        seen = await rows.snapshot(connection, core.project_id)
        keys = await rows.changed_since(connection, core.project_id, known_xid, seen)
        names = await connection.fetch("select app_user_id from customers where id = any($1)", keys)
    return seen.oldest_xid, {row["app_user_id"] for row in names} | ({"gone"} if len(names) < len(keys) else set())


@pytest.mark.one_server("it holds a transaction open on the server, and there they run on a node")
async def test_a_transaction_that_commits_late_is_not_missed(core: Core) -> None:
    await buy(core, user="alice", product="pro_monthly")
    async with core.database.acquire() as connection:
        mark = (await rows.snapshot(connection, core.project_id)).oldest_xid
    async with core.database.transaction() as slow:
        await slow.execute("update customers set changed_xid = default where app_user_id = 'alice'")
        await buy(core, user="bob", product="pro_monthly")
        mark, found = await changed(core, mark)
        assert found == {"bob"}
    mark, found = await changed(core, mark)
    assert "alice" in found
    _, found = await changed(core, mark)
    assert found == set()


@pytest.mark.one_server("customers are counted by the transaction ids of one server")
async def test_everything_that_charts_may_show_is_a_change(core: Core) -> None:
    async with core.database.acquire() as connection:
        mark = (await rows.snapshot(connection, core.project_id)).oldest_xid
    await create_customer(core.changes, core.project_id, ANONYMOUS[0])
    mark, found = await changed(core, mark)
    assert found == {ANONYMOUS[0]}
    await buy(core, "pro_monthly")
    mark, found = await changed(core, mark)
    assert found == {"alice"}
    await log_in(core.changes, core.project_id, ANONYMOUS[0], "alice")
    mark, found = await changed(core, mark)
    assert found == {"alice", "gone"}
    await put_attributes(core.changes, core.project_id, "alice", {"plan": "silver"})
    mark, found = await changed(core, mark)
    assert found == {"alice"}
    await erase(core.changes, core.project_id, "alice")
    _, found = await changed(core, mark)
    assert found == {"gone"}
