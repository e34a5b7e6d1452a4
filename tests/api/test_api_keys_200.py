"""Secret API keys that are made, used, listed and revoked."""

from __future__ import annotations

from tests.api.client import DAY, NOW, Shop
from tests.api.management import PRODUCT, delete, get, post, walk


async def test_a_key_is_shown_once_and_masked_ever_after(shop: Shop) -> None:
    new = {"name": "Reporting", "scopes": ["read"], "rate_limit": 60, "shape": "vendor"}
    made = await post(shop, "api_keys", new)
    assert made.status == 201
    shown = made.json()
    key = shown.pop("key")
    assert key.startswith("sk_")
    assert shown.items() >= {**new, "masked_key": f"sk_…{key[-4:]}", "revoked_at": None}.items()
    listed = await get(shop, "api_keys")
    assert shown in listed.json()["items"]
    assert key.encode() not in listed.body


async def test_a_key_can_do_what_its_scopes_say(shop: Shop) -> None:
    reader = (await post(shop, "api_keys", {"name": "r", "scopes": ["read"]})).json()["key"]
    assert (await get(shop, "products", key=reader)).status == 200
    assert (await post(shop, "products", PRODUCT, key=reader)).status == 403


async def test_a_revoked_key_stops_at_once_and_stays_listed(shop: Shop) -> None:
    made = (await post(shop, "api_keys", {"name": "r", "scopes": ["read", "write"]})).json()
    revoked = await delete(shop, f"api_keys/{made['id']}")
    assert (revoked.status, revoked.json()["revoked_at"]) == (200, NOW)
    assert (await get(shop, "products", key=made["key"])).status == 401
    shop.clock.now += 1000
    assert (await delete(shop, f"api_keys/{made['id']}")).json()["revoked_at"] == NOW
    assert made["id"] in {item["id"] for item in await walk(shop, "api_keys?limit=1")}


async def test_public_keys_are_not_among_them(shop: Shop) -> None:
    assert [item["masked_key"][:3] for item in await walk(shop, "api_keys")] == ["sk_"]


async def test_a_keys_rules_are_shown_in_canonical_form_and_changed_one_by_one(shop: Shop) -> None:
    made = await post(
        shop,
        "api_keys",
        {
            "name": "r",
            "scopes": ["read"],
            "expires_at": NOW + DAY,
            "allowed_networks": ["203.0.113.7", "::ffff:10.0.0.0/104", "2001:DB8::/32", "203.0.113.7/32"],
        },
    )
    shown = made.json()
    assert shown["allowed_networks"] == ["203.0.113.7/32", "10.0.0.0/8", "2001:db8::/32"]
    assert shown["expires_at"] == NOW + DAY
    changed = await post(shop, f"api_keys/{shown['id']}", {"name": "reports"})
    assert changed.status == 200
    rest = {name: value for name, value in shown.items() if name not in ("key", "name")}
    assert changed.json() == {**rest, "name": "reports"}
    changed = await post(shop, f"api_keys/{shown['id']}", {"expires_at": None, "allowed_networks": []})
    assert (changed.json()["expires_at"], changed.json()["allowed_networks"]) == (None, [])


async def test_a_rotated_key_has_a_successor_and_works_on_for_some_days(shop: Shop) -> None:
    rules = {"expires_at": NOW + 30 * DAY, "allowed_networks": ["127.0.0.0/8"], "shape": "vendor"}
    old = (await post(shop, "api_keys", {"name": "r", "scopes": ["read"], "rate_limit": 70, **rules})).json()
    shop.clock.now += 10 * DAY
    made = await post(shop, f"api_keys/{old['id']}/actions/rotate", {"overlap_days": 2})
    assert made.status == 201
    new = made.json()
    # It lives as long as its predecessor was to live.
    assert new["expires_at"] == shop.clock.now + 30 * DAY
    assert all(new[field] == old[field] for field in ("name", "scopes", "rate_limit", "allowed_networks", "shape"))
    for key in (old["key"], new["key"]):
        assert (await get(shop, "products", key=key)).status == 200
    shop.clock.now += 2 * DAY
    assert [(await get(shop, "products", key=key)).status for key in (old["key"], new["key"])] == [401, 200]
    again = await post(shop, f"api_keys/{old['id']}/actions/rotate", {})
    assert (again.status, again.json()["param"]) == (422, "key_id")
