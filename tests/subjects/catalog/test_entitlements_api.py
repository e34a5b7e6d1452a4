"""Entitlements, and what attaching products to them does for existing buyers."""

from latchkey.domain.instants import to_iso
from tests.http.client import DAY, NOW, Shop
from tests.http.management import delete, get, holds, post, walk

ATTACH = "entitlements/{}/actions/attach_products"
DETACH = "entitlements/{}/actions/detach_products"


async def test_entitlements_are_listed_by_id_page_by_page(shop: Shop) -> None:
    for id in ("a:1", "z.9"):
        await post(shop, "entitlements", {"id": id})
    page = (await get(shop, "entitlements?limit=1")).json()
    assert page["next_page"] == "/v2/projects/proj_demo/entitlements?limit=1&starting_after=a%3A1"
    assert [item["id"] for item in await walk(shop, "entitlements?limit=1")] == ["a:1", "pro", "team", "z.9"]


async def test_attaching_gives_it_to_those_who_bought_long_ago_at_the_very_next_read(shop: Shop) -> None:
    await shop.act("purchase", "ada", "pro_monthly")
    assert await holds(shop, "ada") == {"pro"}
    await post(shop, "entitlements", {"id": "max"})
    reply = await post(shop, ATTACH.format("max"), {"product_ids": ["pro_monthly", "pro_yearly"]})
    assert (reply.status, reply.json()["id"]) == (200, "max")
    assert await holds(shop, "ada") == {"max", "pro"}
    assert (await get(shop, "products/pro_monthly")).json()["entitlement_ids"] == ["max", "pro"]
    assert [item["id"] for item in await walk(shop, "entitlements/max/products?limit=1")] == [
        "pro_monthly",
        "pro_yearly",
    ]


async def test_what_was_detached_ended_at_that_moment_by_that_change_and_comes_back(shop: Shop) -> None:
    await shop.act("purchase", "ada", "team_monthly")
    before = (await shop.v1("ada")).json()["subscriber"]
    shop.clock.now = detached_at = NOW + 3 * DAY
    await post(shop, DETACH.format("team"), {"product_ids": ["team_monthly"]})
    await shop.act("purchase", "late", "team_monthly")
    shop.clock.now += DAY
    why = (await get(shop, "customers/ada/entitlements/team/explanation")).json()
    assert (why["has_access"], why["reason"], why["since"], why["until"]) == (False, "detached", NOW, detached_at)
    assert why["sentence"] == (
        "ada does not have team: team_monthly was detached from it, so access ended at "
        f"{to_iso(detached_at)[:16].replace('T', ' ')} UTC."
    )
    assert why["would_change"][0] == "Attaching team_monthly to the entitlement again would bring it back."
    entitlement = (await shop.v1("ada")).json()["subscriber"]["entitlements"]["team"]
    assert (entitlement["expires_date"], entitlement["product_identifier"]) == (to_iso(detached_at), "team_monthly")
    # A customer who bought afterwards never had it.
    shop.clock.now += 1
    await shop.act("purchase", "new", "team_monthly")
    assert (await get(shop, "customers/new/entitlements/team/explanation")).json()["reason"] == "never_granted"
    assert set((await shop.v1("new")).json()["subscriber"]["entitlements"]) == {"pro"}

    await post(shop, ATTACH.format("team"), {"product_ids": ["team_monthly"]})
    assert await holds(shop, "ada") == await holds(shop, "new") == {"pro", "team"}
    assert (await shop.v1("ada")).json()["subscriber"]["entitlements"] == before["entitlements"]
    assert (await get(shop, "customers/ada/entitlements/team/explanation")).json()["reason"] == "active"


async def test_attaching_twice_and_detaching_what_was_not_attached_change_nothing(shop: Shop) -> None:
    for action in (ATTACH, ATTACH, DETACH, DETACH):
        reply = await post(shop, action.format("team"), {"product_ids": ["pro_yearly", "pro_yearly"]})
        assert reply.status == 200
    assert [item["id"] for item in await walk(shop, "entitlements/team/products")] == ["team_monthly"]


async def test_a_deleted_product_can_still_be_detached(shop: Shop) -> None:
    await shop.act("purchase", "ada", "team_monthly")
    await delete(shop, "products/team_monthly")
    await post(shop, DETACH.format("team"), {"product_ids": ["team_monthly"]})
    assert await holds(shop, "ada") == {"pro"}
    assert (await delete(shop, "entitlements/team")).status == 200
