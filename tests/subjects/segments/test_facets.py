"""Customer lists: whatever happens, the stored facets are those of the customers, and a list has exactly the customers
that its filter matches."""

import itertools
from random import Random
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from latchkey.database.pool import Database
from latchkey.domain.catalog import Catalog
from latchkey.domain.customers.customer import Customer, LastSeen
from latchkey.domain.instants import DAY, MINUTE, Ms
from latchkey.domain.purchases.purchase import Environment, PurchaseKind
from latchkey.domain.purchases.summary import (
    SubscriptionState,
    SubscriptionStatus,
    gives_access,
    standing_of,
    summary_of,
)
from latchkey.engine.storage import read_rows as presence
from latchkey.engine.storage.state import decode
from latchkey.subjects.customers.usecases.edits import erase
from latchkey.subjects.segments.rules.facets import CustomerStatus, Facets, facets_of, statuses
from latchkey.subjects.segments.rules.filter import CustomerFilter, Sort, When
from latchkey.subjects.segments.rules.matching import Viewer, unmet
from latchkey.subjects.segments.storage import facets_in
from latchkey.subjects.segments.usecases.customer_lists import CustomerPage, count, csv_pieces, list_page
from latchkey.subjects.segments.usecases.projector import Roller, catch_up, rebuild
from latchkey.subjects.test_clocks.usecases import advance, create_clock, create_customer
from tests.engine.fixtures import Core
from tests.engine.random_lives import ANONYMOUS, NAMED, PRODUCTS, new_shop, something

pytestmark = pytest.mark.thorough

T = TypeVar("T")
COUNTRIES = ("DE", "US", None)


async def walk(core: Core) -> None:
    """Everything is in the facets afterwards. New customers are marked first and walked to some seconds later."""
    roller = Roller(core.database)
    for _ in range(8):
        core.time += 6000
        await roller.turn(core.time)
    assert await catch_up(core.database, core.project_id, core.time)


async def kept(core: Core) -> dict[int, Facets]:
    rows = await core.database.pool.fetch("select * from customer_facets where project_id = $1", core.project_id)
    return {row["customer_id"]: facets_in(row) for row in rows}


async def computed(core: Core) -> dict[int, Facets]:
    rows = await core.database.pool.fetch("select * from customers where project_id = $1", core.project_id)
    return {row["id"]: facets_of(decode(row["state"]), row["last_seen_at"], row["last_seen_country"]) for row in rows}


async def own_times(core: Core) -> dict[int, Ms]:
    rows = await core.database.pool.fetch(
        "select c.id, t.now_ms from customers c join test_clocks t on t.project_id = c.project_id"
        " and t.id = c.test_clock_id where c.project_id = $1",
        core.project_id,
    )
    return {row["id"]: row["now_ms"] for row in rows}


async def seen(core: Core, chance: Random) -> None:
    """Some customers are seen, some of them elsewhere than before."""
    rows = await core.database.pool.fetch("select id from customers where project_id = $1 order by id", core.project_id)
    notes = [
        ((core.project_id, row["id"]), LastSeen(core.time, country=chance.choice(COUNTRIES)))
        for row in rows
        if chance.random() < 0.5
    ]
    async with core.database.acquire() as connection:
        await presence.write(connection, notes)


def some_filter(chance: Random, now: Ms) -> CustomerFilter:
    def maybe(value: T) -> T | None:
        return value if chance.random() < 0.2 else None

    def when() -> When:
        return When(days=chance.choice((1, 7, 30, 200))) if chance.random() < 0.5 else When(at=now - 20 * DAY)

    return CustomerFilter(
        status=frozenset(chance.sample(list(CustomerStatus), chance.choice((0, 0, 1, 2)))),
        product_id=maybe(chance.choice(PRODUCTS)),
        product_active=chance.random() < 0.5,
        spent_from=maybe(chance.choice((0, 5_000_000))),
        spent_to=maybe(chance.choice((0, 50_000_000))),
        country=frozenset(chance.sample(["DE", "US", "FR"], chance.choice((0, 0, 0, 1, 2)))),
        store=maybe("test_store"),
        environment=maybe(chance.choice(list(Environment))),
        last_seen_after=maybe(when()),
        last_seen_before=maybe(when()),
        first_seen_after=maybe(when()),
        first_seen_before=maybe(when()),
        trial_ends_within=maybe(chance.choice((1, 30))),
        billing_issue=chance.random() < 0.1,
    )


async def listed(core: Core, wanted: CustomerFilter, sort: Sort, now: Ms, limit: int) -> list[int]:
    found: list[int] = []
    after: str | None = None
    while True:
        page: CustomerPage = await list_page(
            core.database, core.project_id, wanted, now, sort=sort, after=after, limit=limit
        )
        found += [one.key for one in page.entries]
        after = page.next
        if after is None:
            return found


def sorted_by(sort: Sort, key: int, facets: Facets) -> tuple[int, int]:
    by = {Sort.LAST_SEEN: facets.last_seen_at, Sort.FIRST_SEEN: facets.first_seen_at, Sort.SPENT: facets.spent_usd}
    return by.get(sort, key), key


@settings(
    max_examples=12, derandomize=True, deadline=None, database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
@given(seed=st.integers(0, 2**32))
async def test_whatever_happens_a_list_has_exactly_the_customers_that_its_filter_matches(
    database: Database, seed: int
) -> None:
    chance = Random(seed)
    core = await new_shop(database)
    await create_clock(database, core.project_id, "clock", "Clock", core.time - 3 * DAY, core.time)
    for user in (*NAMED, *ANONYMOUS):
        trial = chance.random() < 0.4
        await core.act("purchase", user, "pro_monthly" if trial else chance.choice(PRODUCTS), trial=trial)
    for _ in range(chance.randrange(10, 30)):
        await something(core, chance)
        if chance.random() < 0.2:
            await seen(core, chance)
        if chance.random() < 0.3:
            await catch_up(database, core.project_id, core.time)
    await create_customer(core.changes, core.project_id, "nobody yet")
    await seen(core, chance)
    await walk(core)

    facets = await kept(core)
    now = await computed(core)
    assert {key: within_the_hour(one) for key, one in facets.items()} == {
        key: within_the_hour(one) for key, one in now.items()
    }

    rows = await database.pool.fetch("select id, state from customers where project_id = $1", core.project_id)
    for row in rows:
        at = core.time + chance.choice((0, DAY, 5 * DAY, 8 * DAY, 40 * DAY, 100 * DAY))
        assert statuses(facets[row["id"]], at) == plainly(decode(row["state"]), at)

    own = await own_times(core)
    for _ in range(12):
        at = core.time + chance.choice((0, DAY, 8 * DAY, 40 * DAY, 100 * DAY))
        wanted, sort = some_filter(chance, at), chance.choice(list(Sort))
        expected = sorted(
            (key for key, one in facets.items() if matches(one, wanted, at, own.get(key))),
            key=lambda key: sorted_by(sort, key, facets[key]),
            reverse=True,
        )
        assert await listed(core, wanted, sort, at, chance.choice((1, 2, 100))) == expected, wanted
        assert (await count(database, core.project_id, wanted, at)).customers == len(expected)


def plainly(customer: Customer, now: Ms) -> frozenset[CustomerStatus]:
    """The statuses from the customer, as V2 and the explanation of access see its purchases."""
    bought = [one for one in customer.purchases if one.kind is PurchaseKind.ONE_TIME]
    timed = [one for one in bought if one.ends_at is not None]
    subscriptions = customer.subscriptions
    seen = [(one, summary_of(one, Catalog(), now), standing_of(one, now)) for one in subscriptions]
    runs = any(one.gives_access for _, one, _ in seen) or any(gives_access(one, now) for one in timed)
    renews = any(
        one.status.goes_on and one.current.refunded_at is None and one.access_ends_at > now for one in subscriptions
    )
    failing = {SubscriptionState.PAYMENT_FAILED, SubscriptionState.BILLING_RETRY}
    held = {
        CustomerStatus.ACTIVE: runs,
        CustomerStatus.TRIAL: any(one.status is SubscriptionStatus.TRIALING for _, one, _ in seen),
        CustomerStatus.IN_GRACE_PERIOD: any(standing is SubscriptionState.IN_GRACE for _, _, standing in seen),
        CustomerStatus.BILLING_ISSUE: any(
            (
                standing in failing
                or (
                    standing is SubscriptionState.IN_GRACE
                    and one.status.billing_issue_at is not None
                    and one.status.goes_on
                )
            )
            and now < one.access_ends_at + 60 * DAY
            for one, _, standing in seen
        ),
        CustomerStatus.CANCELLED: runs and not renews,
        CustomerStatus.EXPIRED: bool(subscriptions or timed) and not runs,
        CustomerStatus.ONE_TIME_PURCHASE: any(one.ends_at is None and gives_access(one, now) for one in bought),
        CustomerStatus.NEVER_BOUGHT: not subscriptions and not bought,
        CustomerStatus.GRANTED: any(
            one.kind is PurchaseKind.PROMOTIONAL and gives_access(one, now) for one in customer.purchases
        ),
    }
    return frozenset(status for status, has in held.items() if has)


def within_the_hour(facets: Facets) -> dict[str, object]:
    fields = {name: getattr(facets, name) for name in facets.__struct_fields__}
    return {**fields, "last_seen_at": facets.last_seen_at // (60 * MINUTE)}


async def statuses_of(core: Core, user: str, now: Ms) -> set[str]:
    found = set()
    for status in CustomerStatus:
        page = await list_page(core.database, core.project_id, CustomerFilter(status=frozenset({status})), now)
        if any(one.app_user_id == user for one in page.entries):
            found.add(status.value)
    return found


async def test_the_status_follows_the_time_without_a_write(core: Core) -> None:
    await catch_up(core.database, core.project_id, core.time)
    began = core.time
    await core.act("purchase", product="pro_monthly", trial=True)
    await core.act("cancel")
    await catch_up(core.database, core.project_id, core.time)
    assert await statuses_of(core, "alice", began) == {"active", "trial", "cancelled"}
    assert await statuses_of(core, "alice", began + 8 * DAY) == {"expired"}
    soon = CustomerFilter(trial_ends_within=7)
    assert len((await list_page(core.database, core.project_id, soon, began)).entries) == 1
    assert not (await list_page(core.database, core.project_id, CustomerFilter(trial_ends_within=6), began)).entries
    assert not (await list_page(core.database, core.project_id, soon, began + 8 * DAY)).entries


async def test_a_billing_issue_counts_only_while_a_store_can_still_retry(core: Core) -> None:
    await catch_up(core.database, core.project_id, core.time)
    await create_clock(core.database, core.project_id, "clock", "Clock", core.time, core.time)
    await create_customer(core.changes, core.project_id, "tina", "clock")
    for user in ("alice", "tina"):
        await core.act("purchase", user=user, product="pro_monthly")
        await core.act("fail_billing", user=user)
    [until] = [one.product_untils[0] for one in (await computed(core)).values() if one.test_clock_id is None]
    await catch_up(core.database, core.project_id, core.time)
    last = until + 60 * DAY
    failing = CustomerFilter(billing_issue=True)
    assert await statuses_of(core, "alice", last - 1) == {"billing_issue", "expired"}
    assert await statuses_of(core, "alice", last) == {"expired"}
    assert [one.app_user_id for one in (await list_page(core.database, core.project_id, failing, last)).entries] == [
        "tina"
    ], "the time of tina's clock"
    assert (await count(core.database, core.project_id, failing, last)).customers == 1
    await advance(core.changes, core.project_id, "clock", to=last + DAY)
    await catch_up(core.database, core.project_id, core.time)
    assert await statuses_of(core, "tina", core.time) == {"expired"}


async def test_facets_written_while_their_customer_is_erased_are_deleted(core: Core) -> None:
    """The roller has read the customer, the erasure commits, the roller writes: the erasure's mark takes it back."""
    await catch_up(core.database, core.project_id, core.time)
    await core.act("purchase", product="pro_monthly")
    await catch_up(core.database, core.project_id, core.time)
    stale = "insert into customer_facets select * from stale"
    await core.database.pool.execute("create table stale as select * from customer_facets")
    await erase(core.changes, core.project_id, "alice")
    await core.database.pool.execute(stale)
    page = await list_page(core.database, core.project_id, CustomerFilter(), core.time)
    assert not page.entries, "nobody without a customer is listed"
    await catch_up(core.database, core.project_id, core.time)
    assert await kept(core) == {}


async def test_facets_are_made_anew_at_will(core: Core) -> None:
    for number in range(5):
        await core.act("purchase", user=f"user{number}", product="pro_monthly")
    await create_customer(core.changes, core.project_id, "visitor")
    await walk(core)
    before = await kept(core)
    assert len(before) == 6
    await rebuild(core.database, core.project_id)
    assert await kept(core) == {}
    await walk(core)
    assert await kept(core) == before == await computed(core)


async def test_a_csv_has_the_whole_list_and_no_formula(core: Core) -> None:
    users = ["=1+1", "@cmd", "plain", *(f"user{number}" for number in range(450))]
    for user in users:
        await create_customer(core.changes, core.project_id, user)
    await walk(core)
    pieces = [
        piece
        async for piece in csv_pieces(
            core.database, core.changes.catalogs, core.project_id, CustomerFilter(), ("status", "spent"), core.time
        )
    ]
    lines = b"".join(pieces).decode().split("\r\n")
    assert len(pieces) == 1 + 3
    assert lines[0] == "customer_id,status,spent"
    assert set(lines[1:-1]) == {
        f"{prefix}{user},never_bought,0"
        for prefix, user in itertools.chain((("'", user) for user in users[:2]), (("", user) for user in users[2:]))
    }


def matches(facets: Facets, wanted: CustomerFilter, now: Ms, own_now: Ms | None = None) -> bool:
    """`own_now`: the time of the customer's test clock."""
    return not unmet(wanted, Viewer(facets, now, now if own_now is None else own_now))
