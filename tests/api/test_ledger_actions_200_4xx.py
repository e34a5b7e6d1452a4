"""Cancel, refund and extend one subscription or purchase, in the test store and for promotional grants."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.client import DAY, NOW, Reply, Shop
from tests.api.doings import advance, did, make_clock, move_in, types_told
from tests.api.management import get, holds, post, refused
from tests.api.test_ledger_200_4xx import ENDS, search, token_of


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
    clock = await make_clock(shop)
    await move_in(shop, "clara", clock)
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


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"extend_by_days": 3},
        {"extend_by_days": 0, "extend_reason_code": 1},
        {"extend_by_days": 91, "extend_reason_code": 1},
        {"extend_by_days": 3, "extend_reason_code": 4},
        {"extend_by_days": "3", "extend_reason_code": 1},
    ],
)
async def test_v1_extend_wants_days_and_a_reason(steady_shop: Shop, body: dict[str, Any]) -> None:
    reply = await v1(steady_shop, "anybody", "subscriptions/x/extend", body)
    assert (reply.status, reply.json()["code"]) == (400, 7226)


async def test_a_closed_test_store_extends_nothing(shop: Shop) -> None:
    await did(shop, "purchase", "ada", "pro_monthly")
    token = (await get(shop, "customers/ada/events")).json()["items"][-1]["original_transaction_id"]
    closed = await shop.client.request("PATCH", f"/v2/projects/{shop.project_id}", body=b'{"test_store": "closed"}')
    assert closed.status == 200, closed
    body = {"extend_by_days": 3, "extend_reason_code": 1}
    assert (await v1(shop, "ada", f"subscriptions/{token}/extend", body)).status == 422
    assert (await v1(shop, "ada", f"subscriptions/{token}/cancel")).status == 200
