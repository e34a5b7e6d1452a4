"""POST /v1/subscribers/{id}/entitlements/{entitlement}/promotional and /revoke_promotionals."""

from typing import Any

import pytest

from latchkey.domain.instants import end_to_iso, to_iso
from tests.http.client import DAY, LIFETIME, NOW, Reply, Shop
from tests.http.doings import count_rows, types_told


async def grant(shop: Shop, who: str, entitlement: str = "pro", **body: Any) -> Reply:
    return await shop.client.post(f"/v1/subscribers/{who}/entitlements/{entitlement}/promotional", body)


async def revoke(shop: Shop, who: str, entitlement: str = "pro") -> Reply:
    return await shop.client.post(f"/v1/subscribers/{who}/entitlements/{entitlement}/revoke_promotionals")


async def test_an_end_of_ones_own_choice_is_taken_to_the_millisecond(steady_shop: Shop) -> None:
    reply = await grant(steady_shop, "until", end_time_ms=NOW + 1500)
    assert reply.status == 201
    assert reply.json()["subscriber"]["entitlements"]["pro"]["product_identifier"] == "rc_promo_pro_custom"
    [item] = (await steady_shop.v2("until")).json()["active_entitlements"]["items"]
    assert item["expires_at"] == NOW + 1500


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"duration": None, "end_time_ms": None},
        {"start_time_ms": NOW},
    ],
)
async def test_neither_or_anything_else_is_400(steady_shop: Shop, body: dict[str, Any]) -> None:
    before = await count_rows(steady_shop)
    reply = await grant(steady_shop, "refused", **body)
    assert (reply.status, reply.json()["code"]) == (400, 7226), reply
    assert await count_rows(steady_shop) == before


async def test_of_both_the_end_counts_and_a_start_only_moves_the_end_of_a_duration(steady_shop: Shop) -> None:
    both = await grant(steady_shop, "both", duration="monthly", end_time_ms=NOW + DAY, start_time_ms=NOW - DAY)
    assert both.json()["subscriber"]["entitlements"]["pro"]["expires_date"] == end_to_iso(NOW + DAY, NOW)
    for start in (NOW - DAY, NOW + 5 * DAY):
        moved = await grant(steady_shop, f"from {start}", duration="three_day", start_time_ms=start)
        shown = moved.json()["subscriber"]["entitlements"]["pro"]
        assert (moved.status, shown["purchase_date"]) == (201, to_iso(NOW))
        assert shown["expires_date"] == end_to_iso(start + 3 * DAY, NOW)
    assert (await grant(steady_shop, "past", duration="daily", start_time_ms=NOW - 2 * DAY)).status == 422


@pytest.mark.parametrize("end", [NOW, NOW - 1, NOW - 400 * DAY])
async def test_an_end_that_has_passed_is_422(steady_shop: Shop, end: int) -> None:
    before = await count_rows(steady_shop)
    reply = await grant(steady_shop, "refused", end_time_ms=end)
    assert (reply.status, reply.json()["code"]) == (422, 7226)
    assert await count_rows(steady_shop) == before


async def test_an_entitlement_that_does_not_exist_is_404(steady_shop: Shop) -> None:
    before = await count_rows(steady_shop)
    assert (await grant(steady_shop, "refused", "gold", duration="daily")).status == 404
    await grant(steady_shop, "known", duration="daily")
    before = await count_rows(steady_shop)
    assert (await revoke(steady_shop, "known", "gold")).status == 404
    assert await count_rows(steady_shop) == before
    assert (await steady_shop.v2("refused")).status == 404


async def test_v2_grants_until_a_moment_or_for_ever_and_revokes(steady_shop: Shop) -> None:
    path = f"/v2/projects/{steady_shop.project_id}/customers/vera/actions"
    body = {"entitlement_id": "team", "expires_at": NOW + DAY}
    assert (await steady_shop.client.post(f"{path}/grant_entitlement", body)).status == 404
    await steady_shop.note("vera", plan="x")
    reply = await steady_shop.client.post(f"{path}/grant_entitlement", body)
    assert reply.status == 201
    assert reply.json() == (await steady_shop.v2("vera")).json()
    [item] = reply.json()["active_entitlements"]["items"]
    assert (item["entitlement_id"], item["expires_at"]) == ("team", NOW + DAY)
    reply = await steady_shop.client.post(f"{path}/grant_entitlement", {"entitlement_id": "team"})
    assert reply.json()["active_entitlements"]["items"][0]["expires_at"] == LIFETIME
    reply = await steady_shop.client.post(f"{path}/revoke_granted_entitlement", {"entitlement_id": "team"})
    assert (reply.status, reply.json()["active_entitlements"]["items"]) == (200, [])
    assert await types_told(steady_shop, "vera") == ["NON_RENEWING_PURCHASE"] * 2 + ["EXPIRATION"] * 2


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        ({"entitlement_id": "gold"}, 404, "entitlement_id"),
        ({"entitlement_id": "pro", "expires_at": NOW}, 422, "expires_at"),
    ],
)
async def test_v2_grants_that_cannot_be_are_refused_by_name(
    steady_shop: Shop, body: dict[str, Any], status: int, param: str
) -> None:
    await steady_shop.note("vic", plan="x")
    before = await count_rows(steady_shop)
    path = f"/v2/projects/{steady_shop.project_id}/customers/vic/actions/grant_entitlement"
    reply = await steady_shop.client.post(path, body)
    assert (reply.status, reply.json().get("param")) == (status, param), reply
    assert await count_rows(steady_shop) == before
