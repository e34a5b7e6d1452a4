"""Test clocks over HTTP, and reads that show what is due before the clock role has stored it."""

import asyncio
from typing import Any

import pytest

from latchkey.domain.instants import to_iso
from latchkey.domain.stores.test_store.orders import Action
from latchkey.engine.clock import pass_time
from latchkey.engine.storage.catalog.catalogs import Catalogs
from latchkey.subjects.customers.render.customer_v2 import customer
from latchkey.subjects.search.usecases import newest, search
from latchkey.subjects.test_store import usecases as test_store
from tests.http.client import DAY, NOW, Shop
from tests.http.doings import advance, clock_with, did, make_clock, move_in, subscriber, told
from tests.http.management import delete, get, holds, walk

PAST = NOW - 1000 * DAY


async def test_clocks_are_listed_oldest_first_page_by_page(shop: Shop) -> None:
    made = []
    for number in range(7):
        made.append(await make_clock(shop, name=f"clock {number}"))
        shop.clock.now += number % 2
    listed = await walk(shop, "test_clocks?limit=2")
    assert [clock["id"] for clock in listed if clock["created_at"] == NOW + 1] == sorted(made[2:4])
    assert {clock["id"] for clock in listed} == set(made)
    assert [clock["created_at"] for clock in listed] == sorted(clock["created_at"] for clock in listed)


async def test_a_page_whose_last_clock_is_gone_meanwhile_does_not_end_the_list_in_silence(shop: Shop) -> None:
    for number in range(3):
        await make_clock(shop, name=f"clock {number}")
    first = (await get(shop, "test_clocks?limit=1")).json()
    await delete(shop, f"test_clocks/{first['items'][0]['id']}")
    assert (await shop.client.get(first["next_page"])).status == 404


async def test_a_clock_is_advanced_by_a_length_or_to_a_moment_and_also_not_at_all(steady_shop: Shop) -> None:
    clock = await make_clock(steady_shop, 1_800_000_000_000)
    assert (await advance(steady_shop, clock, by="P1M"))["now_ms"] == 1_800_000_000_000 + 31 * DAY
    assert (await advance(steady_shop, clock, by="PT1S"))["now_ms"] == 1_800_000_001_000 + 31 * DAY
    moved = await advance(steady_shop, clock, to_ms=1_900_000_000_001)
    assert (moved["now_ms"], moved["events_count"]) == (1_900_000_000_001, 0)
    assert (await advance(steady_shop, clock, to_ms=1_900_000_000_001))["now_ms"] == 1_900_000_000_001


async def test_reads_live_on_the_clock(steady_shop: Shop) -> None:
    clock = await clock_with(steady_shop, "past", PAST)
    await did(steady_shop, "purchase", "past", "pro_monthly")
    body = (await steady_shop.v1("past")).json()
    assert (body["request_date_ms"], body["request_date"]) == (PAST, to_iso(PAST))
    assert body["subscriber"]["first_seen"] == body["subscriber"]["original_purchase_date"] == to_iso(PAST)
    assert await holds(steady_shop, "past") == {"pro"}
    shown = (await steady_shop.v2("past")).json()
    assert shown["first_seen_at"] == shown["last_seen_at"] == PAST
    await did(steady_shop, "cancel", "past")
    await advance(steady_shop, clock, by="P1Y")
    assert await holds(steady_shop, "past") == set()
    assert (await steady_shop.v1("past")).json()["request_date_ms"] == PAST + 365 * DAY
    assert (await get(steady_shop, "customers/past/entitlements/pro/explanation")).json()["reason"] == "expired"


async def test_one_clock_advanced_by_many_at_once_arrives_once_and_tells_everything_once(steady_shop: Shop) -> None:
    clock = await make_clock(steady_shop)
    for number in range(5):
        await move_in(steady_shop, f"crowd{number}", clock)
        await did(steady_shop, "purchase", f"crowd{number}", "pro_monthly")
    moved = await asyncio.gather(*(advance(steady_shop, clock, to_ms=NOW + 100 * DAY) for _ in range(5)))
    assert {one["now_ms"] for one in moved} == {NOW + 100 * DAY}
    assert sum(one["events_count"] for one in moved) == 5 * 3
    for number in range(5):
        assert [event["sequence"] for event in await told(steady_shop, f"crowd{number}")] == [1, 2, 3, 4]


async def test_a_clock_that_nobody_lives_on_can_be_deleted(steady_shop: Shop) -> None:
    clock = await clock_with(steady_shop, "tenant")
    reply = await delete(steady_shop, f"test_clocks/{clock}")
    assert (reply.status, reply.json()["type"]) == (409, "unprocessable_entity_error")
    await delete(steady_shop, "customers/tenant")
    reply = await delete(steady_shop, f"test_clocks/{clock}")
    assert reply.json() == {"object": "test_clock", "id": clock, "deleted_at": NOW}
    assert (await get(steady_shop, f"test_clocks/{clock}")).status == 404


MONTH = NOW + 31 * DAY

# The actions, and a moment at which something has become due since.
LIVES: dict[str, tuple[list[tuple[str, dict[str, Any]]], int]] = {
    "a renewal": ([("purchase", {})], MONTH),
    "a millisecond before it": ([("purchase", {})], MONTH - 1),
    "a millisecond after it": ([("purchase", {})], MONTH + 1),
    "several renewals": ([("purchase", {})], NOW + 365 * DAY),
    "a trial that becomes paid": ([("purchase", {"trial": True})], NOW + 7 * DAY),
    "a trial that ends": ([("purchase", {"trial": True}), ("cancel", {})], NOW + 7 * DAY),
    "an end": ([("purchase", {}), ("cancel", {})], MONTH),
    "a change that waited": (
        [("purchase", {}), ("change_product", {"new_product_id": "team_monthly", "when": "at_renewal"})],
        MONTH,
    ),
    "a pause": ([("purchase", {}), ("pause", {"resume_at_ms": MONTH + 9 * DAY})], MONTH + DAY),
    "the end of a pause": ([("purchase", {}), ("pause", {"resume_at_ms": MONTH + 9 * DAY})], MONTH + 9 * DAY),
    "the end of a grace period": ([("purchase", {}), ("fail_billing", {"grace_days": 3})], MONTH + 3 * DAY),
}


async def answers(shop: Shop, who: str = "ada") -> list[Any]:
    """Every reply about the customer's access."""
    path = f"customers/{who}"
    return [
        (await shop.v1(who)).json(),
        (await shop.v2(who)).json(),
        (await get(shop, f"{path}/active_entitlements")).json(),
        (await get(shop, f"{path}/entitlements/pro/explanation")).json(),
        (await get(shop, f"{path}/entitlements/team/explanation")).json(),
    ]


@pytest.mark.parametrize("life", LIVES)
async def test_what_has_fallen_due_is_shown_before_anybody_wrote_it_down(shop: Shop, life: str) -> None:
    done, now = LIVES[life]
    for action, fields in done:
        await did(shop, action, "ada", "pro_monthly", **fields)
    shop.clock.now = now
    state = await stored(shop)

    before = await answers(shop)
    assert await stored(shop) == state, "a read never writes"
    while await pass_time(shop.database, Catalogs(), now):
        pass
    assert await answers(shop) == before


async def test_lists_of_customers_show_it_too(shop: Shop) -> None:
    await did(shop, "purchase", "ada", "pro_monthly")
    shop.clock.now = MONTH
    found = await search(shop.database, Catalogs(), shop.project_id, "ada", MONTH)
    listed = await newest(shop.database, Catalogs(), shop.project_id, MONTH)
    for view in (found.matches[0].view, listed.views[0]):
        assert [one.entitlement_id for one in customer(view).active_entitlements.items] == ["pro"]


async def test_the_answer_to_a_change_shows_what_fell_due_while_it_was_made(shop: Shop) -> None:
    await did(shop, "purchase", "ada", "pro_monthly")
    action = Action(name="issue_invoice", app_user_id="ada", new_id="x", product_id="pro_monthly")
    made = await test_store.act(shop.changes, shop.project_id, action)
    assert [one.current.purchased_at for one in made.view(MONTH).customer.subscriptions] == [MONTH]


async def test_a_customer_whom_the_rules_cannot_carry_on_is_shown_as_written_down(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    await did(shop, "purchase", "ada", "pro_monthly")

    def fail(*_: object) -> None:
        raise ValueError("That time is too far in the future.")

    monkeypatch.setattr("latchkey.domain.stores.test_store.billing.renewed", fail)
    shop.clock.now = MONTH
    assert (await subscriber(shop, "ada"))["subscriptions"]["pro_monthly"]["expires_date"] == "2027-02-15T08:00:00Z"
    assert await holds(shop, "ada") == set()


async def stored(shop: Shop) -> bytes:
    state: bytes = await shop.database.pool.fetchval("select state::text from customers where app_user_id = 'ada'")
    return state
