"""The events of a customer, newest first, also those from before a merge."""

from __future__ import annotations

from latchkey.domain.instants import DAY
from latchkey.storage.sql import query
from latchkey.usecases.customers.identities import log_in
from latchkey.usecases.customers.profile import movements, timeline
from tests.usecases.conftest import Shop

ANONYMOUS = "$RCAnonymousID:" + "b" * 32


async def key_of(shop: Shop, user: str) -> int:
    key: int = await shop.database.pool.fetchval(query("customer_key"), shop.project_id, user)
    return key


async def pages(shop: Shop, user: str, limit: int) -> list[list[str]]:
    """The ids of every page, until there are no more."""
    found, before, key = [], None, await key_of(shop, user)
    while True:
        page = await timeline(shop.database, shop.project_id, key, before=before, limit=limit)
        found.append([one.id for one in page.happenings])
        before = page.before
        if before is None:
            return found


async def test_it_goes_back_page_after_page_also_into_the_time_before_a_merge(shop: Shop) -> None:
    await shop.show(ANONYMOUS, "test_1_a", "pro_monthly")
    await shop.show("alice", "test_1_b", "coins_100")
    await shop.wait(40 * DAY)
    await shop.show("alice", "test_1_c", "coins_100")
    await shop.show(ANONYMOUS, "test_1_d", "coins_100")
    await log_in(shop.changes, shop.project_id, ANONYMOUS, "alice")
    await shop.wait(40 * DAY)
    everything = [event.id for event in await shop.events("alice")]
    assert len(everything) > 6
    for limit in (1, 2, 3, 100):
        found = await pages(shop, "alice", limit)
        assert [id for page in found for id in page] == everything[::-1]
        assert all(len(page) == limit for page in found[:-1])


async def test_nobody_elses_events_are_among_them(shop: Shop) -> None:
    await shop.show("alice", "test_1_a", "pro_monthly")
    await shop.show("bob", "test_1_b", "pro_monthly")
    assert await pages(shop, "bob", 10) == [[event.id for event in await shop.events("bob")]]


async def test_movements_go_back_page_after_page(shop: Shop) -> None:
    for number in range(5):
        await shop.show("alice", f"test_1_{number}", "coins_100")
        shop.time += 1
    key = await key_of(shop, "alice")
    first = await movements(shop.database, shop.project_id, key, limit=3)
    assert ([one.balance for one in first.items], first.more) == ([500, 400, 300], True)
    last = first.items[-1]
    rest = await movements(shop.database, shop.project_id, key, before=(last.at, last.key, last.code), limit=3)
    assert ([one.balance for one in rest.items], rest.more) == ([200, 100], False)
