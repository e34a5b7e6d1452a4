"""A read shows everything that is due by now, even if the clock role has not stored it yet."""

from __future__ import annotations

from typing import Any

import pytest

from latchkey.domain.stores.test_store.orders import Action
from latchkey.storage.catalog.catalogs import Catalogs
from latchkey.usecases.customers.search import newest, search
from latchkey.usecases.engine.clock import pass_time
from latchkey.usecases.rendering.v2 import customer
from latchkey.usecases.sandbox import store as test_store
from tests.api.client import DAY, NOW, Shop
from tests.api.doings import did, subscriber
from tests.api.management import get, holds

MONTH = NOW + 31 * DAY
SECOND_MONTH = MONTH + 28 * DAY

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


async def test_at_a_renewal_nobody_loses_access_for_a_moment(shop: Shop) -> None:
    await did(shop, "purchase", "ada", "pro_monthly")
    for now in (MONTH - 1, MONTH, MONTH + 1, SECOND_MONTH - 1, SECOND_MONTH):
        shop.clock.now = now
        assert await holds(shop, "ada") == {"pro"}
        [item] = (await shop.v2("ada")).json()["active_entitlements"]["items"]
        assert item["expires_at"] > now


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
