"""The vendor's shape, asked for by a header or by the key, and webhooks in the vendor's words."""

from typing import Any

import pytest

from latchkey.subjects.api_keys import usecases as keys
from tests.http.client import NOW, Reply, Shop
from tests.http.doings import count_rows
from tests.http.management import delete, get, post, refused

VENDOR = {"latchkey-shape": "vendor"}
HOOK = {"name": "Mine", "url": "https://93.184.215.14/hook"}


async def create_hook(shop: Shop, **more: Any) -> Reply:
    return await post(shop, "integrations/webhooks", {**HOOK, **more}, headers=VENDOR)


async def test_a_webhook_in_the_vendors_words(shop: Shop) -> None:
    made = await create_hook(shop, event_types=["renewal", "EXPIRATION"], environment="sandbox")
    assert made.status == 201
    assert made.json() == {
        "object": "webhook_integration",
        "id": made.json()["id"],
        "project_id": "proj_demo",
        "name": "Mine",
        "url": HOOK["url"],
        "environment": "sandbox",
        "event_types": ["renewal", "expiration"],
        "app_id": None,
        "created_at": NOW,
    }
    assert made.headers["content-length"] == str(len(made.body))
    path = f"integrations/webhooks/{made.json()['id']}"
    assert (await get(shop, path, headers=VENDOR)).json() == made.json()
    assert (await get(shop, "integrations/webhooks", headers=VENDOR)).json()["items"] == [made.json()]
    # Without the header: our own fields and words, as ever.
    own = (await get(shop, path)).json()
    assert (own["object"], own["event_types"]) == ("webhook", ["RENEWAL", "EXPIRATION"])
    assert "health" in own
    every = await post(shop, path, {"event_types": None})
    assert every.json()["event_types"] == []
    assert (await get(shop, path, headers=VENDOR)).json()["event_types"] is None
    address = f"/v2/projects/{shop.project_id}/{path}"
    gone = await shop.client.request("DELETE", address, headers=VENDOR)
    assert gone.json() == {"object": "webhook_integration", "id": made.json()["id"], "deleted_at": NOW}


async def test_no_event_types_and_null_mean_all_of_them(shop: Shop) -> None:
    bodies: tuple[dict[str, Any], ...] = ({}, {"event_types": None}, {"event_types": []})
    for more in bodies:
        assert (await post(shop, "integrations/webhooks", {**HOOK, **more})).json()["event_types"] == []


async def test_the_hot_read_and_lists_are_cut_too(shop: Shop) -> None:
    await shop.act("purchase", "ada", "pro_monthly")
    read = await shop.v2("ada", headers=VENDOR)
    assert read.json() == (await shop.v2("ada")).json()
    products = (await get(shop, "products", headers=VENDOR)).json()["items"]
    assert products
    assert all("price" not in one and one["store_identifier"] == one["id"] for one in products)
    assert "restore_behavior" not in (await get(shop, "", headers=VENDOR)).json()
    assert "restore_behavior" in (await get(shop, "")).json()


async def test_only_keys_that_work_are_listed_for_the_vendors_clients(shop: Shop) -> None:
    path = "apps/app_demo/public_api_keys"
    second = (await post(shop, path, {"name": "two"})).json()
    await delete(shop, f"{path}/{second['id']}")
    [key] = (await get(shop, path, headers=VENDOR)).json()["items"]
    assert key.keys() == {"object", "id", "key", "environment", "app_id", "created_at"}
    assert key["key"] == shop.public
    assert len((await get(shop, path)).json()["items"]) == 2


async def test_errors_and_v1_are_the_same_with_the_header(shop: Shop) -> None:
    missing = await get(shop, "products/nothing", headers=VENDOR)
    refused(missing, 404, "resource_missing", "product_id")
    assert (await shop.v1("ada", key=shop.public, headers={"latchkey-shape": "other"})).status == 201


async def vendors_key(shop: Shop) -> str:
    issued = await keys.create_secret_key(shop.database, shop.project_id, "moved", NOW, shape="vendor")
    return issued.plaintext


# The reads without a framework, what the framework answers, and what is not JSON.
@pytest.mark.parametrize(
    "path", ["customers/ada", "customers/ada/subscriptions", "products", "", "charts/mrr", "charts/mrr?format=csv"]
)
async def test_a_key_of_the_vendors_shape_needs_no_header(shop: Shop, path: str) -> None:
    await shop.act("purchase", "ada", "pro_monthly")
    asked, by_key = await get(shop, path, headers=VENDOR), await get(shop, path, key=await vendors_key(shop))
    assert (by_key.status, by_key.body) == (200, asked.body)


async def test_what_a_key_of_the_vendors_shape_does_is_answered_in_that_shape(shop: Shop) -> None:
    key = await vendors_key(shop)
    action = {"action": "purchase", "app_user_id": "ada", "product_id": "coins_100"}
    assert (await post(shop, "test_store/actions", action, key=key)).status == 200
    made = await post(shop, "integrations/webhooks", HOOK, key=key)
    assert (made.status, made.json()["object"]) == (201, "webhook_integration")
    assert (await shop.v1("ada", key=key)).json().keys() == (await shop.v1("ada")).json().keys()


async def test_a_customers_subscriptions_are_listed_in_the_vendors_shape_alone(shop: Shop) -> None:
    for product in ("pro_monthly", "team_monthly", "coins_100"):
        await shop.act("purchase", "ada", product)
    absent = await get(shop, "customers/ada/subscriptions")
    assert (absent.status, absent.body) == (404, (await get(shop, "nothing/at/all")).body)
    first = (await get(shop, "customers/ada/subscriptions?limit=1&environment=sandbox", headers=VENDOR)).json()
    assert first["next_page"].startswith(f"{first['url']}?environment=sandbox&limit=1&starting_after=")
    rest = (await shop.client.get(first["next_page"], headers=VENDOR)).json()
    listed = [*first["items"], *rest["items"]]
    assert {one["product_id"] for one in listed} == {"pro_monthly", "team_monthly"}
    for one in listed:
        assert one == (await get(shop, f"subscriptions/{one['id']}", headers=VENDOR)).json()
    assert (await get(shop, "customers/ada/subscriptions?environment=production", headers=VENDOR)).json()["items"] == []
    refused(await get(shop, "customers/nobody/subscriptions", headers=VENDOR), 404, "resource_missing", "customer_id")


async def test_what_is_still_in_use_is_422_for_the_vendors_clients(shop: Shop) -> None:
    path = f"/v2/projects/{shop.project_id}/entitlements/pro"
    for options, status in (({"headers": VENDOR}, 422), ({"key": await vendors_key(shop)}, 422), ({}, 409)):
        reply = await shop.client.request("DELETE", path, **options)
        refused(reply, status, "unprocessable_entity_error", reply.json()["param"])
    taken = await post(shop, "entitlements", {"id": "pro"}, headers=VENDOR)
    assert (taken.status, taken.json()["type"]) == (409, "resource_already_exists")


@pytest.mark.parametrize("sent", ["", "Vendor", "other"])
async def test_another_shape_is_refused_before_anything_happens(steady_shop: Shop, sent: str) -> None:
    before = await count_rows(steady_shop)
    action = {"action": "purchase", "app_user_id": "shaped", "product_id": "pro_monthly"}
    for path, body in (("entitlements", {"id": "gold"}), ("test_store/actions", action)):
        reply = await post(steady_shop, path, body, headers={"latchkey-shape": sent})
        refused(reply, 400, "parameter_error", "Latchkey-Shape")
    assert await count_rows(steady_shop) == before
