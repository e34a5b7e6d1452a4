"""/v2/…/subscriptions and /purchases: found by id, by a store's id, of a customer; cancelled, refunded and extended."""

from typing import Any

import pytest

from tests.http.client import DAY, NOW, Reply, Shop
from tests.http.doings import advance, clock_with, did, types_told
from tests.http.management import get, holds, post, refused, walk

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


async def test_past_periods_lead_to_the_subscription_and_are_listed(shop: Shop) -> None:
    clock = await clock_with(shop, "clara")
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


@pytest.mark.parametrize(
    "query", ["", "?store_subscription_identifier=", f"?store_subscription_identifier={'x' * 256}"]
)
async def test_a_search_needs_an_identifier(steady_shop: Shop, query: str) -> None:
    refused(await get(steady_shop, f"subscriptions{query}"), 400, "parameter_error", "store_subscription_identifier")


async def bought(shop: Shop, who: str, product: str, **more: Any) -> dict[str, Any]:
    kind = "purchase" if product == "pro_lifetime" else "subscription"
    (found,) = await search(shop, kind, await token_of(shop, who, product, **more))
    return found


async def act(shop: Shop, found: dict[str, Any], action: str) -> Reply:
    return await post(shop, f"{found['object']}s/{found['id']}/{action}", None)


async def v1(shop: Shop, who: str, path: str, body: Any = None) -> Reply:
    return await shop.client.post(f"/v1/subscribers/{who}/{path}", body)


async def test_cancelling_turns_renewal_off_and_access_stays(steady_shop: Shop) -> None:
    found = await bought(steady_shop, "leaver", "pro_monthly")
    reply = await act(steady_shop, found, "actions/cancel")
    assert (reply.status, reply.json()) == (200, {**found, "auto_renewal_status": "will_not_renew"})
    assert await holds(steady_shop, "leaver") == {"pro"}
    assert (await types_told(steady_shop, "leaver"))[-1] == "CANCELLATION"
    refused(await act(steady_shop, found, "actions/cancel"), 422, "unprocessable_entity_error", "action")


async def test_refunding_a_subscription_ends_access_at_once(steady_shop: Shop) -> None:
    found = await bought(steady_shop, "unhappy", "pro_monthly")
    reply = await act(steady_shop, found, "actions/refund")
    assert reply.status == 200, reply
    after = reply.json()
    assert (after["status"], after["gives_access"], after["ends_at"]) == ("expired", False, NOW)
    assert await holds(steady_shop, "unhappy") == set()
    refused(await act(steady_shop, found, "actions/refund"), 422, "unprocessable_entity_error", "action")


async def test_refunding_a_purchase_ends_access_at_once(steady_shop: Shop) -> None:
    found = await bought(steady_shop, "returner", "pro_lifetime")
    reply = await act(steady_shop, found, "actions/refund")
    assert (reply.status, reply.json()["status"], reply.json()["gives_access"]) == (200, "refunded", False)
    refused(await act(steady_shop, found, "actions/refund"), 422, "unprocessable_entity_error", "action")


async def test_refunding_an_earlier_transaction_leaves_access_as_it_is(shop: Shop) -> None:
    clock = await clock_with(shop, "clara")
    found = await bought(shop, "clara", "pro_monthly")
    await advance(shop, clock, by="P32D")
    token = found["store_subscription_identifier"]
    reply = await act(shop, found, f"transactions/{token}.0/actions/refund")
    assert reply.status == 200, reply
    transaction = reply.json()
    assert (transaction["id"], transaction["expiration_date"]) == (f"{token}.0", ENDS)
    assert transaction["refunded_at"] == NOW + 32 * DAY
    assert await holds(shop, "clara") == {"pro"}
    assert "REFUND" not in await types_told(shop, "clara")
    after = (await get(shop, f"subscriptions/{found['id']}")).json()
    assert (after["auto_renewal_status"], after["total_revenue_in_usd"]["gross"]) == ("will_renew", 9.99)
    again = await act(shop, found, f"transactions/{token}.0/actions/refund")
    refused(again, 422, "unprocessable_entity_error", "transaction_id")
    running = await act(shop, found, f"transactions/{token}.1/actions/refund")
    refused(running, 422, "unprocessable_entity_error", "transaction_id")
    unknown = await act(shop, found, f"transactions/{token}.7/actions/refund")
    refused(unknown, 404, "resource_missing", "transaction_id")


async def granted(shop: Shop, who: str) -> dict[str, Any]:
    await shop.note(who, plan="x")
    assert (await v1(shop, who, "entitlements/pro/promotional", {"duration": "monthly"})).status == 201
    events = (await get(shop, f"customers/{who}/events")).json()["items"]
    (found,) = await search(shop, "subscription", events[-1]["transaction_id"])
    return found


async def test_refunding_a_grant_revokes_this_grant_alone(steady_shop: Shop) -> None:
    found = await granted(steady_shop, "visitor")
    await granted(steady_shop, "visitor")
    refused(await act(steady_shop, found, "actions/cancel"), 422, "unprocessable_entity_error", None)
    inner = f"transactions/{found['store_subscription_identifier']}/actions/refund"
    refused(await act(steady_shop, found, inner), 422, "unprocessable_entity_error", "transaction_id")
    reply = await act(steady_shop, found, "actions/refund")
    assert (reply.status, reply.json()["status"]) == (200, "expired")
    assert await holds(steady_shop, "visitor") == {"pro"}
    refused(await act(steady_shop, found, "actions/refund"), 422, "unprocessable_entity_error", None)


async def test_there_is_no_page_to_manage_a_purchase_of_the_test_store(steady_shop: Shop) -> None:
    found = await bought(steady_shop, "manager", "pro_monthly")
    reply = await get(steady_shop, f"subscriptions/{found['id']}/authenticated_management_url")
    refused(reply, 404, "resource_missing", None)


@pytest.mark.parametrize(
    "path",
    [
        "subscriptions/sub_none/actions/cancel",
        "subscriptions/sub_none/actions/refund",
        "subscriptions/sub_none/transactions/x/actions/refund",
    ],
)
async def test_a_subscription_that_nobody_has_is_404(steady_shop: Shop, path: str) -> None:
    refused(await post(steady_shop, path, None), 404, "resource_missing", "subscription_id")


# V1, by transaction.


async def test_v1_extends_and_cancels_and_refunds_by_transaction(steady_shop: Shop) -> None:
    token = await token_of(steady_shop, "sam", "pro_monthly")
    reply = await v1(
        steady_shop, "sam", f"subscriptions/{token}/extend", {"extend_by_days": 3, "extend_reason_code": 1}
    )
    assert reply.status == 200, reply
    assert reply.json() == (await steady_shop.v1("sam")).json()
    (found,) = await search(steady_shop, "subscription", token)
    assert found["current_period_ends_at"] == ENDS + 3 * DAY
    reply = await v1(steady_shop, "sam", f"subscriptions/{token}.0/cancel")
    shown = reply.json()["subscriber"]["subscriptions"]["pro_monthly"]
    assert shown["unsubscribe_detected_at"] is not None
    reply = await v1(steady_shop, "sam", f"transactions/{token}.0/refund")
    assert reply.json()["subscriber"]["subscriptions"]["pro_monthly"]["refunded_at"] is not None
    assert await types_told(steady_shop, "sam") == [
        "INITIAL_PURCHASE",
        "SUBSCRIPTION_EXTENDED",
        "CANCELLATION",
        "REFUND",
    ]


async def test_v1_refunds_a_one_time_purchase_and_a_grant(steady_shop: Shop) -> None:
    token = await token_of(steady_shop, "tom", "pro_lifetime")
    assert (await v1(steady_shop, "tom", f"transactions/{token}/refund")).status == 200
    assert await holds(steady_shop, "tom") == set()
    found = await granted(steady_shop, "tom")
    reply = await v1(steady_shop, "tom", f"transactions/{found['store_subscription_identifier']}/refund")
    assert reply.status == 200
    assert await holds(steady_shop, "tom") == set()


async def test_v1_knows_only_the_transactions_of_its_subscriber(steady_shop: Shop) -> None:
    token = await token_of(steady_shop, "owner", "pro_monthly")
    await steady_shop.note("thief", plan="x")
    for path, body in (
        (f"transactions/{token}/refund", None),
        (f"subscriptions/{token}/cancel", None),
        (f"subscriptions/{token}/extend", {"extend_by_days": 3, "extend_reason_code": 1}),
    ):
        reply = await v1(steady_shop, "thief", path, body)
        assert (reply.status, reply.json()["code"]) == (404, 7226)
        reply = await v1(steady_shop, "nobody-at-all", path, body)
        assert (reply.status, reply.json()["code"]) == (404, 7259)
    assert await holds(steady_shop, "owner") == {"pro"}


async def test_v1_extends_only_what_renews(steady_shop: Shop) -> None:
    token = await token_of(steady_shop, "una", "pro_lifetime")
    for verb, body in (("extend", {"extend_by_days": 3, "extend_reason_code": 1}), ("cancel", None)):
        reply = await v1(steady_shop, "una", f"subscriptions/{token}/{verb}", body)
        assert (reply.status, reply.json()["code"]) == (422, 7226)
