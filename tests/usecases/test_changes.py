"""Changes in two statements without locks, and under locks where that is not enough."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest
from msgspec.structs import replace

from latchkey.domain.customers.customer import Attribute
from latchkey.domain.instants import DAY
from latchkey.domain.refusal import Refusal
from latchkey.domain.stores.test_store.orders import Action
from latchkey.storage.customers.records import LastSeen, Stored
from latchkey.storage.database import Connection, Database
from latchkey.storage.engine import presence
from latchkey.storage.engine.look import look
from latchkey.storage.engine.writing import Create, Owned, Save, Writes, write_at_once
from latchkey.storage.errors import OutdatedError
from latchkey.usecases.access.projects import create_project
from latchkey.usecases.customers.attributes import set_attributes
from latchkey.usecases.engine.unit_of_work import newcomer
from latchkey.usecases.sandbox.demo import add_catalog
from latchkey.usecases.sandbox.store import act
from tests.usecases.conftest import Shop


class Counted:
    """A shop behind one connection, whose statements are counted. BEGIN and COMMIT count too."""

    def __init__(self, shop: Shop) -> None:
        self.shop = shop
        self.statements: list[str] = []

    async def purchase(self, user: str) -> list[str]:
        self.statements.clear()
        await self.shop.act("purchase", user=user, product="coins_100")
        return [one.split("(")[0].split("\n")[0].strip() for one in self.statements]


@pytest.fixture
async def counted(shop: Shop) -> AsyncIterator[Counted]:
    async with Database(shop.database.url, max_size=1) as database:
        counted = Counted(Shop(database, shop.project_id))
        async with database.at_hand() as connection:
            # Whatever the first use of a connection reads about types and the catalog.
            connection.add_query_logger(lambda record: counted.statements.append(record.query))
        await counted.shop.act("purchase", user="first", product="pro_monthly")
        yield counted


@pytest.mark.one_server("it counts statements, which have other texts there")
async def test_a_purchase_is_a_look_and_a_write(counted: Counted) -> None:
    for user in ("new", "new", "first"):
        assert await counted.purchase(user) == [
            "select asked.app_user_id, asked.store, asked.store_id,",
            "select write_changes",
        ]
    assert [event.sequence for event in await counted.shop.events("new")] == [1, 2, 3, 4]


@pytest.mark.one_server("it counts statements, which have other texts there")
async def test_a_refused_change_writes_nothing(counted: Counted) -> None:
    counted.statements.clear()
    with pytest.raises(Refusal):
        await counted.shop.act("cancel", user="first", product="coins_100")
    with pytest.raises(Refusal):
        await counted.shop.act("purchase", user="nobody", product="no such product")
    assert not any("write_changes" in one for one in counted.statements)
    assert len(counted.statements) == 2


@pytest.mark.one_server("it counts statements, which have other texts there")
async def test_what_needs_more_than_one_statement_to_write_is_done_under_locks(counted: Counted) -> None:
    """An e-mail address is also written to the table that the search uses."""
    counted.statements.clear()
    noted = {"$email": Attribute("ann@example.com", counted.shop.time)}
    await set_attributes(counted.shop.changes, counted.shop.project_id, "first", noted, create=False)
    assert any("for update" in one for one in counted.statements)
    assert await counted.shop.database.pool.fetchval("select email from customer_emails") == "ann@example.com"


async def test_a_customer_who_changed_since_the_look_is_not_overwritten(shop: Shop) -> None:
    await shop.act("purchase", product="pro_monthly")
    before = await _rows(shop)
    async with shop.database.acquire() as connection:
        seen = await look(connection, shop.changes.catalogs, shop.project_id, [("alice", None)])
        assert seen is not None
        alice = seen.found["alice"]
        shop.time += DAY
        await shop.act("cancel")
        after = await _rows(shop)
        assert after != before
        writes = Writes(shop.project_id, saved=[Save(alice, alice.customer, None)])
        with pytest.raises(OutdatedError):
            await write_at_once(connection, writes, shop.time)
        assert await _rows(shop) == after


async def test_a_visit_noted_since_the_look_is_no_change(shop: Shop) -> None:
    await shop.act("purchase", product="pro_monthly")
    async with shop.database.acquire() as connection:
        seen = await look(connection, shop.changes.catalogs, shop.project_id, [("alice", None)])
        assert seen is not None
        alice = seen.found["alice"]
        await presence.write(connection, [((shop.project_id, alice.key), LastSeen(shop.time + DAY))])
        writes = Writes(shop.project_id, saved=[Save(alice, replace(alice.customer, first_seen_at=1), None)])
        await write_at_once(connection, writes, shop.time)
    row = await shop.database.pool.fetchrow("select first_seen_at, last_seen_at from customers")
    assert row is not None
    assert tuple(row) == (1, shop.time + DAY)


async def test_an_id_that_was_taken_since_the_look_creates_nobody(shop: Shop) -> None:
    taken = newcomer(shop.project_id, "bob", shop.time)
    free = newcomer(shop.project_id, "carol", shop.time)
    await shop.act("purchase", user="bob", product="pro_monthly")
    before = await _rows(shop)
    async with shop.database.acquire() as connection:
        writes = Writes(shop.project_id, created=[Create(free, None), Create(taken, None)])
        with pytest.raises(OutdatedError):
            await write_at_once(connection, writes, shop.time)
    assert await _rows(shop) == before


async def test_a_purchase_that_found_another_owner_since_the_look_is_given_to_nobody_else(shop: Shop) -> None:
    bought = await shop.act("purchase", user="bob", product="pro_monthly")
    assert bought.stored is not None
    [subscription] = bought.customer.subscriptions
    before = await _rows(shop)
    writes = Writes(shop.project_id, owned=[Owned(bought.stored.key, subscription.store, subscription.id)])
    async with shop.database.acquire() as connection:
        with pytest.raises(OutdatedError):
            await write_at_once(connection, writes, shop.time)
    assert await _rows(shop) == before


async def test_processes_that_change_the_same_customers_lose_nothing(shop: Shop) -> None:
    """Each has its own connections, so looks and writes of both interleave."""
    async with Database(shop.database.url, max_size=3) as first, Database(shop.database.url, max_size=3) as second:
        shops = [
            Shop(one, shop.project_id, numbers=iter(range(start, 10_000)))
            for one, start in ((first, 0), (second, 5000))
        ]
        await asyncio.gather(
            *(shops[n % 2].act("purchase", user=f"user{n % 7 % 5}", product="coins_100") for n in range(120))
        )
    feed = await shop.events(None)
    assert len(feed) == 240
    for n in range(5):
        events = await shop.events(f"user{n}")
        assert [event.sequence for event in events] == list(range(1, len(events) + 1))
        bought = sum(event.type == "NON_RENEWING_PURCHASE" for event in events)
        balance = await shop.database.pool.fetchval(
            "select sum(amount) from currency_transactions join aliases"
            " using (project_id, customer_id) where app_user_id = $1",
            f"user{n}",
        )
        assert balance == bought * 100
    positions = await shop.database.pool.fetch("select position from events order by position")
    assert [row["position"] for row in positions] == list(range(1, 241))


@pytest.mark.parametrize("name", ["renew", "cancel", "expire", "refund", "fail_billing", "change_product", "extend"])
async def test_a_process_whose_clock_is_behind_changes_what_another_has_just_written(shop: Shop, name: str) -> None:
    """Also without a wrong clock: a process may wait for a lock, and another one commits a later instant meanwhile."""
    more = {"change_product": {"new_product_id": "pro_yearly"}, "extend": {"days": 3}}
    bought = await shop.act("purchase", product="pro_monthly")
    shop.time -= 250
    changed = await shop.act(name, product="pro_monthly", **more.get(name, {}))  # type: ignore[arg-type]
    assert len(changed.events) in (1, 2)
    assert changed.now == bought.now
    assert [event.sequence for event in await shop.events()] == list(range(1, len(changed.events) + 2))
    assert all(event.event_timestamp_ms >= bought.now for event in changed.events)
    assert len(changed.customer.subscriptions[0].periods) == 1 + (name in ("renew", "change_product"))


async def test_changes_of_two_projects_at_the_same_moment_have_feeds_of_their_own(shop: Shop) -> None:
    await create_project(shop.database, "Other", shop.time, project_id="proj_other")
    await add_catalog(shop.database, "proj_other", shop.time)
    action = Action(name="purchase", app_user_id="ann", new_id="test_1_same", product_id="pro_monthly")
    await asyncio.gather(*(act(shop.changes, id, action) for id in (shop.project_id, "proj_other")))
    rows = await shop.database.pool.fetch("select project_id, position, sequence from events order by project_id")
    assert [tuple(row) for row in rows] == [("proj_other", 1, 1), (shop.project_id, 1, 1)]


@pytest.mark.one_server("it reads the statistics of the session, and the rows are read in one of a node")
async def test_a_plan_from_when_the_table_was_empty_reads_only_the_customers_that_change(shop: Shop) -> None:
    """The statements inside the function keep the plans of their first calls."""
    async with shop.database.acquire() as connection:
        made = await write_at_once(connection, _created(shop, "early", 3), shop.time)
        await write_at_once(connection, _saved(shop, "early", made), shop.time)
        made = await write_at_once(connection, _created(shop, "later", 2000), shop.time)
        async with connection.transaction():
            before = await _read(connection)
            await write_at_once(connection, _saved(shop, "later", made[:50]), shop.time)
            assert await _read(connection) == before + 50


async def _read(connection: Connection) -> int:
    """The customers that were read by this connection, and not yet reported to the statistics."""
    found: int = await connection.fetchval(
        "select seq_tup_read + idx_tup_fetch from pg_stat_xact_user_tables where relname = 'customers'"
    )
    return found


def _created(shop: Shop, prefix: str, count: int) -> Writes:
    people = [newcomer(shop.project_id, f"{prefix}{n}", shop.time) for n in range(count)]
    return Writes(shop.project_id, created=[Create(one, None) for one in people])


def _saved(shop: Shop, prefix: str, keys: Sequence[int]) -> Writes:
    people = [newcomer(shop.project_id, f"{prefix}{n}", shop.time) for n in range(len(keys))]
    saved = [Save(Stored(key, one), one, None) for key, one in zip(keys, people, strict=True)]
    return Writes(shop.project_id, saved=saved)


async def _rows(shop: Shop) -> list[object]:
    """Everything that a change may write."""
    found: list[object] = []
    for table in ("customers", "aliases", "purchase_owners", "events", "deliveries", "lanes", "feeds", "chart_periods"):
        found += await shop.database.pool.fetch(f"select * from {table} order by 1, 2")
    return found


async def test_many_customers_at_once_lose_nothing(shop: Shop) -> None:
    await asyncio.gather(*(shop.act("purchase", user=f"user{n % 40}", product="coins_100") for n in range(200)))
    feed = await shop.events(None)
    assert len(feed) == 400
    for n in range(40):
        events = await shop.events(f"user{n}")
        assert [event.sequence for event in events] == list(range(1, 11))
