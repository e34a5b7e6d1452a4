"""GET /v2/…/subscriptions and /purchases: by id, by a store's id, of a customer."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.client import DAY, NOW, Shop
from tests.api.doings import advance, did, make_clock, move_in
from tests.api.management import get, post, refused, walk

ENDS = NOW + 31 * DAY


async def token_of(shop: Shop, who: str, product: str, **more: Any) -> str:
    """Buy it, and give the store's id."""
    await did(shop, "purchase", who, product, **more)
    events = await walk(shop, f"customers/{who}/events?limit=100")
    id: str = events[-1]["original_transaction_id"]
    return id


async def search(shop: Shop, kind: str, store_id: str) -> list[dict[str, Any]]:
    reply = await get(shop, f"{kind}s?store_{kind}_identifier={store_id}")
    assert reply.status == 200, reply
    page = reply.json()
    assert (page["object"], page["next_page"]) == ("list", None)
    items: list[dict[str, Any]] = page["items"]
    return items


async def test_a_subscription_is_found_by_its_store_id_and_read_by_its_own(steady_shop: Shop) -> None:
    token = await token_of(steady_shop, "reader", "pro_monthly")
    (found,) = await search(steady_shop, "subscription", token)
    entitlements = found.pop("entitlements")
    assert [one["id"] for one in entitlements["items"]] == ["pro"]
    path = f"/v2/projects/proj_demo/subscriptions/{found['id']}"
    assert entitlements["url"] == f"{path}/entitlements"
    paid = {"currency": "USD", "gross": 9.99, "commission": 0.0, "tax": 0.0, "proceeds": 9.99}
    assert (found["customer_id"], found["product_id"], found["status"]) == ("reader", "pro_monthly", "active")
    assert (found["total_revenue_in_usd"], found["revenue"]) == (paid, [paid])
    assert (found["store"], found["store_subscription_identifier"]) == ("test_store", token)
    assert found["id"].startswith("sub_")
    read = await steady_shop.client.get(path)
    assert (read.status, read.json()) == (200, {**found, "entitlements": entitlements})
    assert (await steady_shop.client.get(f"{path}/entitlements")).json() == entitlements


async def test_past_periods_lead_to_the_subscription_and_are_listed(shop: Shop) -> None:
    clock = await make_clock(shop)
    await move_in(shop, "clara", clock)
    token = await token_of(shop, "clara", "pro_monthly")
    await advance(shop, clock, by="P2M")
    (found,) = await search(shop, "subscription", f"{token}.1")
    assert await search(shop, "subscription", token) == [found]
    assert await search(shop, "subscription", f"{token}.9") == []
    assert found["total_revenue_in_usd"]["gross"] == pytest.approx(29.97)
    listed = (await get(shop, f"subscriptions/{found['id']}/transactions")).json()
    assert [one["id"] for one in listed["items"]] == [f"{token}.0", f"{token}.1", f"{token}.2"]
    assert listed["items"][0] == {
        "object": "subscription_transaction",
        "id": f"{token}.0",
        "purchased_at": NOW,
        "product_store_identifier": "pro_monthly",
        "expiration_date": ENDS,
        "effective_expiration_date": ENDS,
        "refunded_at": None,
    }
    assert listed["next_page"] is None


async def test_a_product_that_follows_is_a_pending_change(steady_shop: Shop) -> None:
    token = await token_of(steady_shop, "changer", "pro_monthly")
    await did(steady_shop, "change_product", "changer", new_product_id="pro_yearly", when="at_renewal")
    (found,) = await search(steady_shop, "subscription", token)
    assert found["auto_renewal_status"] == "will_change_product"
    assert found["product_id"] == "pro_monthly"
    assert found["pending_changes"]["product"] == (await get(steady_shop, "products/pro_yearly")).json()


async def test_a_promotional_grant_is_a_subscription_that_goes_with_its_owner(steady_shop: Shop) -> None:
    await did(steady_shop, "purchase", "giver", "pro_lifetime")
    granted = {"entitlement_id": "pro", "expires_at": None}
    assert (await post(steady_shop, "customers/giver/actions/grant_entitlement", granted)).status in (200, 201)
    event = (await walk(steady_shop, "customers/giver/events"))[-1]
    (found,) = await search(steady_shop, "subscription", event["transaction_id"])
    assert (found["store"], found["product_id"], found["customer_id"]) == ("promotional", None, "giver")
    assert (found["status"], found["current_period_ends_at"]) == ("active", None)
    assert [one["id"] for one in found["entitlements"]["items"]] == ["pro"]
    assert await search(steady_shop, "purchase", event["transaction_id"]) == []
    await steady_shop.note("taker", plan="x")
    moved = await post(steady_shop, "customers/giver/actions/transfer", {"target_customer_id": "taker"})
    assert moved.status == 200, moved
    assert (await get(steady_shop, f"subscriptions/{found['id']}")).json()["customer_id"] == "taker"


async def test_a_purchase_is_found_read_and_listed(steady_shop: Shop) -> None:
    token = await token_of(steady_shop, "buyer", "pro_lifetime")
    (found,) = await search(steady_shop, "purchase", token)
    assert await search(steady_shop, "subscription", token) == []
    assert found["id"].startswith("purch_")
    assert (found["status"], found["gives_access"], found["expires_at"]) == ("owned", True, None)
    assert (found["product_id"], found["quantity"], found["store_purchase_identifier"]) == ("pro_lifetime", 1, token)
    assert (found["customer_id"], found["purchased_at"], found["environment"]) == ("buyer", NOW, "sandbox")
    assert [one["id"] for one in found["entitlements"]["items"]] == ["pro"]
    assert (await get(steady_shop, f"purchases/{found['id']}")).json() == found
    assert (await get(steady_shop, f"purchases/{found['id']}/entitlements")).json() == found["entitlements"]
    assert await walk(steady_shop, "customers/buyer/purchases") == [found]
    assert await walk(steady_shop, "customers/buyer/purchases?environment=sandbox") == [found]
    assert await walk(steady_shop, "customers/buyer/purchases?environment=production") == []
    await did(steady_shop, "refund", "buyer", "pro_lifetime")
    refunded = (await get(steady_shop, f"purchases/{found['id']}")).json()
    assert (refunded["status"], refunded["gives_access"], refunded["expires_at"]) == ("refunded", False, NOW)
    assert refunded["revenue_in_usd"]["gross"] == 0


async def test_a_customers_purchases_are_paged_and_hold_no_subscription(steady_shop: Shop) -> None:
    for _ in range(5):
        await did(steady_shop, "purchase", "collector", "coins_100")
    await did(steady_shop, "purchase", "collector", "pro_monthly")
    first = (await get(steady_shop, "customers/collector/purchases?limit=2")).json()
    assert len(first["items"]) == 2
    assert first["next_page"].startswith("/v2/projects/proj_demo/customers/collector/purchases?limit=2&starting_after=")
    everything = await walk(steady_shop, "customers/collector/purchases?limit=2")
    assert len({one["id"] for one in everything}) == 5


async def test_erased_owners_leave_nothing_to_find(shop: Shop) -> None:
    token = await token_of(shop, "ada", "pro_monthly")
    (found,) = await search(shop, "subscription", token)
    assert (await shop.client.request("DELETE", "/v2/projects/proj_demo/customers/ada")).status == 200
    assert await search(shop, "subscription", token) == []
    refused(await get(shop, f"subscriptions/{found['id']}"), 404, "resource_missing", "subscription_id")


@pytest.mark.parametrize(
    "id", ["sub_", "nothing", "sub_dGVzdF9zdG9yZTpub25l", "sub_!!!!", "purch_dGVzdF9zdG9yZTpub25l"]
)
@pytest.mark.parametrize("kind", ["subscription", "purchase"])
async def test_an_id_that_names_nothing_is_404(steady_shop: Shop, kind: str, id: str) -> None:
    for more in ("", "/entitlements"):
        reply = await get(steady_shop, f"{kind}s/{id}{more}")
        refused(reply, 404, "resource_missing", f"{kind}_id")


async def test_a_purchase_is_not_found_by_the_id_of_a_subscription(steady_shop: Shop) -> None:
    token = await token_of(steady_shop, "mixer", "pro_monthly")
    (found,) = await search(steady_shop, "subscription", token)
    disguised = found["id"].replace("sub_", "purch_")
    assert (await get(steady_shop, f"purchases/{disguised}")).status == 404


@pytest.mark.parametrize(
    "query", ["", "?store_subscription_identifier=", f"?store_subscription_identifier={'x' * 256}"]
)
async def test_a_search_needs_an_identifier(steady_shop: Shop, query: str) -> None:
    refused(await get(steady_shop, f"subscriptions{query}"), 400, "parameter_error", "store_subscription_identifier")


async def test_an_unknown_environment_is_400(steady_shop: Shop) -> None:
    await steady_shop.note("plain", plan="x")
    refused(await get(steady_shop, "customers/plain/purchases?environment=moon"), 400, "parameter_error", "environment")


async def test_invoices_are_listed_with_the_product_they_were_issued_for(steady_shop: Shop) -> None:
    token = await token_of(steady_shop, "billed", "pro_monthly")
    assert await walk(steady_shop, "customers/billed/invoices") == []
    await did(steady_shop, "issue_invoice", "billed", "pro_monthly")
    await did(steady_shop, "change_product", "billed", new_product_id="pro_yearly")
    await did(steady_shop, "issue_invoice", "billed", "pro_yearly")
    first = (await get(steady_shop, "customers/billed/invoices?limit=1")).json()
    assert first["next_page"].startswith("/v2/projects/proj_demo/customers/billed/invoices?limit=1&starting_after=")
    monthly, yearly = await walk(steady_shop, "customers/billed/invoices?limit=1")
    total = {"currency": "USD", "gross": 9.99, "commission": 0.0, "tax": 0.0, "proceeds": 9.99}
    assert monthly["id"].startswith(token)
    assert (monthly["total_amount"], monthly["issued_at"]) == (total, NOW)
    assert (monthly["paid_at"], monthly["invoice_url"]) == (None, None)
    assert yearly["line_items"] == [
        {
            "object": "invoice.line_item",
            "product_identifier": "pro_yearly",
            "product_display_name": "Pro, yearly",
            "product_duration": "P1Y",
            "quantity": 1,
            "unit_amount": total | {"gross": 79.99, "proceeds": 79.99},
        }
    ]
    assert (await get(steady_shop, "customers/nobody-at-all/invoices")).status == 404
