"""POST /v1/subscribers/{id}/subscriptions/{product}/revoke and /defer."""

from typing import Any

import pytest

from latchkey.domain.instants import LATEST, end_to_iso, to_iso
from tests.http.client import DAY, NOW, Reply, Shop
from tests.http.doings import count_rows, did, show_receipt, told, types_told
from tests.http.management import holds

ENDS = NOW + 31 * DAY


async def revoke(shop: Shop, who: str, product: str = "pro_monthly") -> Reply:
    return await shop.client.post(f"/v1/subscribers/{who}/subscriptions/{product}/revoke")


async def defer(shop: Shop, who: str, product: str = "pro_monthly", **body: Any) -> Reply:
    return await shop.client.post(f"/v1/subscribers/{who}/subscriptions/{product}/defer", body)


async def test_revoking_refunds_and_ends_access_at_once(shop: Shop) -> None:
    await show_receipt(shop, "ada")
    shop.clock.now += DAY
    reply = await revoke(shop, "ada")
    assert reply.status == 200
    assert reply.json() == (await shop.v1("ada")).json()
    body = reply.json()["subscriber"]
    assert body["subscriptions"]["pro_monthly"]["refunded_at"] == to_iso(NOW + DAY)
    assert body["subscriptions"]["pro_monthly"]["expires_date"] == to_iso(NOW + DAY)
    assert body["entitlements"]["pro"]["expires_date"] == to_iso(NOW + DAY)
    event = (await told(shop))[-1]
    assert (event["type"], event["price"], event["entitlements"]) == ("REFUND", 9.99, {})
    assert await holds(shop, "ada") == set()


async def test_revoking_a_trial_that_cost_nothing_is_422(steady_shop: Shop) -> None:
    await did(steady_shop, "purchase", "trialist", "pro_monthly", trial=True)
    assert (await revoke(steady_shop, "trialist")).status == 422


@pytest.mark.parametrize("product", ["pro_yearly", "pro_lifetime", "nothing"])
async def test_a_subscription_that_the_subscriber_does_not_have_is_404(steady_shop: Shop, product: str) -> None:
    await steady_shop.note("plain", plan="x")
    for reply in (
        await revoke(steady_shop, "plain", product),
        await defer(steady_shop, "plain", product, extend_by_days=1),
    ):
        assert (reply.status, reply.json()["code"]) == (404, 7226)


async def test_nobody_is_404(steady_shop: Shop) -> None:
    for reply in (await revoke(steady_shop, "nobody"), await defer(steady_shop, "nobody", extend_by_days=1)):
        assert (reply.status, reply.json()["code"]) == (404, 7259)


@pytest.mark.parametrize(
    ("who", "body", "ends"),
    [
        ("by_days", {"extend_by_days": 5}, ENDS + 5 * DAY),
        ("to_moment", {"expiry_time_ms": ENDS + 1}, ENDS + 1),
    ],
)
async def test_deferring_moves_the_end_and_is_told(
    steady_shop: Shop, who: str, body: dict[str, Any], ends: int
) -> None:
    await show_receipt(steady_shop, who, f"test_1_{who.replace('_', '-')}")
    reply = await defer(steady_shop, who, **body)
    assert reply.status == 200
    assert reply.json() == (await steady_shop.v1(who)).json()
    assert reply.json()["subscriber"]["subscriptions"]["pro_monthly"]["expires_date"] == end_to_iso(ends, NOW)
    event = (await told(steady_shop, who))[-1]
    assert (event["type"], event["expiration_at_ms"]) == ("SUBSCRIPTION_EXTENDED", ends)
    [item] = (await steady_shop.v2(who)).json()["active_entitlements"]["items"]
    assert item["expires_at"] == ends


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"extend_by_days": 1, "expiry_time_ms": ENDS + DAY},
    ],
)
async def test_deferring_by_what_cannot_be_is_400(steady_shop: Shop, body: dict[str, Any]) -> None:
    await steady_shop.note("plain", plan="x")
    reply = await defer(steady_shop, "plain", **body)
    assert (reply.status, reply.json()["code"]) == (400, 7226), reply


async def test_deferring_to_an_earlier_end_or_what_has_ended_is_422(shop: Shop) -> None:
    await show_receipt(shop, "ada")
    assert (await defer(shop, "ada", expiry_time_ms=ENDS)).status == 422
    await revoke(shop, "ada")
    assert (await defer(shop, "ada", extend_by_days=1)).status == 422
    assert await types_told(shop) == ["INITIAL_PURCHASE", "REFUND"]


async def test_a_deferral_never_leaves_the_years_that_can_be_shown(steady_shop: Shop) -> None:
    await show_receipt(steady_shop, "far", "test_1_far")
    assert (await defer(steady_shop, "far", expiry_time_ms=LATEST)).status == 200
    before = await count_rows(steady_shop)
    reply = await defer(steady_shop, "far", extend_by_days=3650)
    assert (reply.status, reply.json()["code"]) == (422, 7226)
    assert await count_rows(steady_shop) == before
