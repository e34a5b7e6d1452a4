"""Changes in two statements without locks, and under locks where that is not enough; and pages of the feed."""

import asyncio

import pytest
from msgspec import json
from msgspec.structs import replace

from latchkey.database.errors import OutdatedError
from latchkey.database.pool import Database
from latchkey.domain.customers.customer import LastSeen
from latchkey.domain.instants import DAY
from latchkey.domain.refusal import NotFound
from latchkey.domain.stores.test_store.orders import Action
from latchkey.engine.storage import read_rows as presence
from latchkey.engine.storage.read_rows import look
from latchkey.engine.storage.records import Stored
from latchkey.engine.storage.writes import Owned, Save, Writes, write_at_once
from latchkey.engine.unit_of_work import newcomer
from latchkey.subjects.events.usecases import page_of_events
from latchkey.subjects.test_store.usecases import act
from latchkey.subjects.webhooks.storage import lanes as parts
from tests.engine.fixtures import Core, new_project


async def test_a_customer_who_changed_since_the_look_is_not_overwritten(core: Core) -> None:
    await core.act("purchase", product="pro_monthly")
    before = await _rows(core)
    async with core.database.acquire() as connection:
        seen = await look(connection, core.changes.catalogs, core.project_id, [("alice", None)])
        assert seen is not None
        alice = seen.found["alice"]
        core.time += DAY
        await core.act("cancel")
        after = await _rows(core)
        assert after != before
        writes = Writes(core.project_id, saved=[Save(alice, alice.customer, None)])
        with pytest.raises(OutdatedError):
            await write_at_once(connection, writes, core.time)
        assert await _rows(core) == after


async def test_a_visit_noted_since_the_look_is_no_change(core: Core) -> None:
    await core.act("purchase", product="pro_monthly")
    async with core.database.acquire() as connection:
        seen = await look(connection, core.changes.catalogs, core.project_id, [("alice", None)])
        assert seen is not None
        alice = seen.found["alice"]
        await presence.write(connection, [((core.project_id, alice.key), LastSeen(core.time + DAY))])
        writes = Writes(core.project_id, saved=[Save(alice, replace(alice.customer, first_seen_at=1), None)])
        await write_at_once(connection, writes, core.time)
    row = await core.database.pool.fetchrow("select first_seen_at, last_seen_at from customers")
    assert row is not None
    assert tuple(row) == (1, core.time + DAY)


async def test_an_id_that_was_taken_since_the_look_creates_nobody(core: Core) -> None:
    taken = newcomer(core.project_id, "bob", core.time)
    free = newcomer(core.project_id, "carol", core.time)
    await core.act("purchase", user="bob", product="pro_monthly")
    before = await _rows(core)
    async with core.database.acquire() as connection:
        created = [Save(Stored(key, one), one, None) for key, one in ((-1, free), (-2, taken))]
        writes = Writes(core.project_id, created=created)
        with pytest.raises(OutdatedError):
            await write_at_once(connection, writes, core.time)
    assert await _rows(core) == before


async def test_a_purchase_that_found_another_owner_since_the_look_is_given_to_nobody_else(core: Core) -> None:
    bought = await core.act("purchase", user="bob", product="pro_monthly")
    assert bought.stored is not None
    [subscription] = bought.customer.subscriptions
    before = await _rows(core)
    writes = Writes(core.project_id, owned=[Owned(bought.stored.key, subscription.store, subscription.id)])
    async with core.database.acquire() as connection:
        with pytest.raises(OutdatedError):
            await write_at_once(connection, writes, core.time)
    assert await _rows(core) == before


async def test_processes_that_change_the_same_customers_lose_nothing(core: Core) -> None:
    """Each has its own connections, so looks and writes of both interleave."""
    async with Database(core.database.url, max_size=3) as first, Database(core.database.url, max_size=3) as second:
        shops = [
            Core(one, core.project_id, numbers=iter(range(start, 10_000)))
            for one, start in ((first, 0), (second, 5000))
        ]
        await asyncio.gather(
            *(shops[n % 2].act("purchase", user=f"user{n % 7 % 5}", product="coins_100") for n in range(120))
        )
    feed = await core.events(None)
    assert len(feed) == 240
    for n in range(5):
        events = await core.events(f"user{n}")
        assert [event.sequence for event in events] == list(range(1, len(events) + 1))
        bought = sum(event.type == "NON_RENEWING_PURCHASE" for event in events)
        balance = await core.database.pool.fetchval(
            "select sum(amount) from currency_transactions join aliases"
            " using (project_id, customer_id) where app_user_id = $1",
            f"user{n}",
        )
        assert balance == bought * 100
    positions = await core.database.pool.fetch("select position from events order by position")
    assert [row["position"] for row in positions] == list(range(1, 241))


@pytest.mark.parametrize("name", ["renew", "cancel", "expire", "refund", "fail_billing", "change_product", "extend"])
async def test_a_process_whose_clock_is_behind_changes_what_another_has_just_written(core: Core, name: str) -> None:
    """Also without a wrong clock: a process may wait for a lock, and another one commits a later instant meanwhile."""
    more = {"change_product": {"new_product_id": "pro_yearly"}, "extend": {"days": 3}}
    bought = await core.act("purchase", product="pro_monthly")
    core.time -= 250
    changed = await core.act(name, product="pro_monthly", **more.get(name, {}))  # type: ignore[arg-type]
    assert len(changed.events) in (1, 2)
    assert changed.now == bought.now
    assert [event.sequence for event in await core.events()] == list(range(1, len(changed.events) + 2))
    assert all(event.event_timestamp_ms >= bought.now for event in changed.events)
    assert len(changed.customer.subscriptions[0].periods) == 1 + (name in ("renew", "change_product"))


async def test_changes_of_two_projects_at_the_same_moment_have_feeds_of_their_own(core: Core) -> None:
    await new_project(core.database, "proj_other", core.time)
    action = Action(name="purchase", app_user_id="ann", new_id="test_1_same", product_id="pro_monthly")
    await asyncio.gather(*(act(core.changes, id, action) for id in (core.project_id, "proj_other")))
    rows = await core.database.pool.fetch("select project_id, position, sequence from events order by project_id")
    assert [tuple(row) for row in rows] == [("proj_other", 1, 1), (core.project_id, 1, 1)]


async def _rows(core: Core) -> list[object]:
    """Everything that a change may write."""
    found: list[object] = []
    for table in ("customers", "aliases", "purchase_owners", "events", "deliveries", "lanes", "feeds", "chart_periods"):
        found += await core.database.pool.fetch(f"select * from {table} order by 1, 2")
    return found


async def test_pages_follow_each_other_over_partitions_up_to_the_newest_event(core: Core) -> None:
    await bought_in_parts(core, 0, 1, 1000, 2000)
    whole = (await page_of_events(core.database, core.project_id, after=None, limit=100)).bodies
    assert len(whole) == 8
    assert await core.database.pool.fetchval("select count(distinct tableoid) from events") == 3
    for limit in (1, 3, 8):
        read: list[bytes] = []
        after = None
        while True:
            page = await page_of_events(core.database, core.project_id, after=after, limit=limit)
            read += page.bodies
            assert page.more is (len(read) < len(whole))
            if not page.more:
                break
            after = id_of(page.bodies[-1])
        assert read == whole
    end = await page_of_events(core.database, core.project_id, after=id_of(whole[-1]), limit=3)
    assert (end.bodies, end.more) == ([], False)
    with pytest.raises(NotFound, match="start after"):
        await page_of_events(core.database, core.project_id, after="evt_nobody", limit=3)


async def test_an_event_that_is_in_another_part_than_before_is_found(core: Core) -> None:
    """As after a restore, for a process that did not stop."""
    await bought_in_parts(core, 0, 1000)
    whole = (await page_of_events(core.database, core.project_id, after=None, limit=100)).bodies
    last = id_of(whole[-1])
    assert await after_event(core, whole[-2], limit=2) == [whole[-1]]
    assert await after_event(core, whole[-1], limit=2) == []
    await core.database.pool.execute("update events set partition = 0 where project_id = $1", core.project_id)
    assert await after_event(core, whole[-2], limit=2) == [whole[-1]]
    assert await after_event(core, whole[-1], limit=2) == []
    await core.database.pool.execute("delete from events where project_id = $1 and id = $2", core.project_id, last)
    with pytest.raises(NotFound, match="start after"):
        await after_event(core, whole[-1], limit=2)


async def bought_in_parts(core: Core, *numbers: int) -> None:
    """Two events in each of these parts."""
    for part in numbers:
        if part:
            await parts.open_part(core.database, part, core.time)
        await core.act("purchase", f"user{part}", "pro_monthly")
        await core.act("renew", f"user{part}")


async def after_event(core: Core, body: bytes, limit: int) -> list[bytes]:
    return (await page_of_events(core.database, core.project_id, after=id_of(body), limit=limit)).bodies


def id_of(body: bytes) -> str:
    found: str = json.decode(body)["id"]
    return found
