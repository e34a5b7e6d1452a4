"""Apps, their types and public keys, in our own form and in the vendor's."""

from typing import Any

import pytest
from msgspec import json

from latchkey.stores.apple.adapter import AppleAdapter
from latchkey.subjects.api_keys import usecases as keys
from latchkey.subjects.audit import usecases as audit
from tests.contract.store_credentials import APPLE
from tests.http.client import NOW, Shop
from tests.http.doings import count_rows
from tests.http.management import delete, get, patch, post, refused, walk


async def new_app(shop: Shop) -> dict[str, Any]:
    reply = await post(shop, "apps", {"name": "Phone", "store": "app_store"})
    assert reply.status == 201
    made: dict[str, Any] = reply.json()
    return made


async def test_an_app_of_a_store_that_is_not_connected_has_no_notification_url(shop: Shop) -> None:
    made = await new_app(shop)
    shown = {item["id"]: item["notification_url"] for item in await walk(shop, "apps")}
    assert shown == {"app_demo": None, made["id"]: made["notification_url"]}
    assert (await get(shop, "apps/app_demo")).json()["notification_url"] is None
    amazon = (await post(shop, "apps", {"name": "Fire", "store": "amazon"})).json()
    assert amazon["notification_url"] is None


async def test_an_app_can_change_its_key(shop: Shop) -> None:
    app = await new_app(shop)
    path = f"apps/{app['id']}/public_api_keys"
    shop.clock.now += 1
    second = (await post(shop, path, {"name": "Version 2", "rate_limit": 5})).json()
    assert (second["name"], second["rate_limit"], second["key"][:5]) == ("Version 2", 5, "appl_")
    old = app["public_api_key"]
    revoked = await delete(shop, f"{path}/{old['id']}")
    assert revoked.json()["revoked_at"] == NOW + 1
    assert revoked.json()["key"] == old["key"]
    assert (await shop.v1("ada", key=old["key"])).status == 401
    assert (await shop.v1("ada", key=second["key"])).status == 201
    listed = await walk(shop, f"{path}?limit=1")
    assert [(item["id"], item["revoked_at"]) for item in listed] == [(old["id"], NOW + 1), (second["id"], None)]


async def test_a_deleted_app_is_locked_out_and_what_was_bought_in_it_stays(shop: Shop) -> None:
    app = await new_app(shop)
    await shop.act("purchase", "ada", "pro_monthly", app_id=app["id"])
    gone = await delete(shop, f"apps/{app['id']}")
    assert gone.json() == {"object": "app", "id": app["id"], "deleted_at": NOW}
    assert (await get(shop, f"apps/{app['id']}")).status == 404
    assert (await shop.v1("ada", key=app["public_api_key"]["key"])).status == 401
    assert (await shop.v1("ada")).json()["subscriber"]["entitlements"].keys() == {"pro"}


IN_VENDORS_NAMES = {
    "bundle_id": APPLE["bundle_id"],
    "subscription_private_key": APPLE["private_key"],
    "subscription_key_id": APPLE["key_id"],
    "subscription_key_issuer": APPLE["issuer_id"],
    "app_apple_id": APPLE["app_apple_id"],
    "root_certificates": APPLE["root_certificates"],
}
WEB = {"app_name": "Notes", "default_currency": "EUR", "support_email": "help@example.com"}


@pytest.fixture
def accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    async def accepts(*_: object) -> None: ...

    monkeypatch.setattr(AppleAdapter, "check_credentials", accepts)


@pytest.mark.parametrize(
    ("type", "sent", "shown"),
    [
        ("app_store", {"bundle_id": "com.example.app", "shared_secret": None}, {"bundle_id": "com.example.app"}),
        ("mac_app_store", {"bundle_id": "com.example.app"}, {"bundle_id": "com.example.app"}),
        ("play_store", {"package_name": "com.example.app"}, {"package_name": "com.example.app"}),
        ("amazon", {"package_name": "com.example.app"}, {"package_name": "com.example.app"}),
        ("stripe", {"stripe_account_id": "acct_1"}, {"stripe_account_id": "acct_1", "deep_link": None}),
        ("stripe", {"deep_link": "notes://"}, {"stripe_account_id": None, "deep_link": "notes://"}),
        ("stripe", None, {"stripe_account_id": None, "deep_link": None}),
        ("rc_billing", WEB, {**WEB, "seller_company_name": "Notes", "stripe_account_id": None, "deep_link": None}),
        ("paddle", {"paddle_is_sandbox": True}, {"paddle_is_sandbox": True, "paddle_api_key": None}),
        ("app_store", None, None),
        ("test_store", None, None),
    ],
)
async def test_an_app_of_each_type_shows_what_its_store_calls_it(
    shop: Shop, type: str, sent: dict[str, Any] | None, shown: dict[str, Any] | None
) -> None:
    body = {"name": "Mine", "type": type} | ({type: sent} if sent is not None else {})
    made = await post(shop, "apps", body)
    assert made.status == 201, made
    assert (made.json()["type"], made.json()["store"], made.json().get(type)) == (type, type, shown)
    read = (await get(shop, f"apps/{made.json()['id']}")).json()
    assert read == {name: value for name, value in made.json().items() if name != "public_api_key"}


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        ({"name": "x"}, 400, "store"),
        ({"name": "x", "type": "stripe", "store": "stripe"}, 400, "store"),
        ({"name": "x", "type": "roku"}, 400, "type"),
        ({"name": "x", "type": "stripe", "paddle": {}}, 400, "paddle"),
        ({"name": "x", "type": "app_store", "app_store": {"bundle_id": "a b"}}, 400, "app_store.bundle_id"),
        ({"name": "x", "type": "app_store", "app_store": {"shared_secret": "s" * 32}}, 422, "app_store.shared_secret"),
        ({"name": "x", "type": "app_store", "app_store": {"subscription_key_id": "K1"}}, 400, "bundle_id"),
        ({"name": "x", "type": "paddle", "paddle": {"paddle_api_key": "p" * 50}}, 422, "paddle.paddle_api_key"),
    ],
)
async def test_an_app_that_cannot_be_is_refused_and_not_created(
    steady_shop: Shop, body: dict[str, Any], status: int, param: str
) -> None:
    before = await count_rows(steady_shop)
    reply = await post(steady_shop, "apps", body)
    kind = "parameter_error" if status == 400 else "unprocessable_entity_error"
    refused(reply, status, kind, param)
    assert await count_rows(steady_shop) == before


@pytest.mark.usefixtures("accepted")
async def test_keys_given_with_the_app_are_its_credentials_and_never_shown(shop: Shop) -> None:
    made = await post(shop, "apps", {"name": "Mine", "type": "app_store", "app_store": IN_VENDORS_NAMES})
    assert made.status == 201, made
    id = made.json()["id"]
    saved = (await get(shop, f"apps/{id}/credentials")).json()
    assert (saved["check"]["result"], saved["credentials"]["key_id"]) == ("ok", APPLE["key_id"])
    later = await post(shop, f"apps/{id}", {"app_store": {"subscription_key_id": "NEWKEY1234"}})
    assert later.status == 200
    kept = (await get(shop, f"apps/{id}/credentials")).json()["credentials"]
    assert (kept["key_id"], kept["issuer_id"]) == ("NEWKEY1234", APPLE["issuer_id"])
    renamed = await post(shop, f"apps/{id}", {"app_store": {"bundle_id": "com.example.other"}})
    assert renamed.json()["app_store"] == {"bundle_id": "com.example.other"}
    assert (await get(shop, f"apps/{id}/credentials")).json()["credentials"]["bundle_id"] == "com.example.other"
    log = json.encode([dict(one.detail) for one in await audit.entries(shop.database, shop.project_id)]).decode()
    for told in (made.body.decode(), later.body.decode(), log):
        assert "PRIVATE KEY" not in told
        assert "NEWKEY1234" not in told


async def test_a_credential_that_the_connected_app_already_has_names_it(shop: Shop) -> None:
    made = (await post(shop, "apps", {"name": "Mine", "store": "play_store"})).json()
    assert "play_store" not in made
    reply = await patch(shop, f"apps/{made['id']}", {"name": "Ours", "play_store": {"package_name": "com.example"}})
    assert (reply.json()["name"], reply.json()["play_store"]) == ("Ours", {"package_name": "com.example"})
    refused(await post(shop, f"apps/{made['id']}", {"type": "stripe"}), 400, "parameter_error", "type")
    refused(await post(shop, f"apps/{made['id']}", {"stripe": {}}), 400, "parameter_error", "stripe")
    refused(await post(shop, "apps/app_none", {"name": "x"}), 404, "resource_missing", "app_id")


async def test_public_keys_can_be_read_again_and_secret_ones_cannot(shop: Shop) -> None:
    web = (await post(shop, "apps", {"name": "Web", "type": "rc_billing"})).json()
    shop.clock.now += 1
    await post(shop, f"apps/{web['id']}/public_api_keys", {"environment": "sandbox"})
    first, second = (await get(shop, f"apps/{web['id']}/public_api_keys")).json()["items"]
    assert (first["key"], first["environment"]) == (web["public_api_key"]["key"], "production")
    assert (second["key"][:7], second["environment"]) == ("rcb_sb_", "sandbox")
    [demo] = (await get(shop, "apps/app_demo/public_api_keys")).json()["items"]
    assert (demo["key"], demo["environment"]) == (shop.public, "sandbox")
    revoked = (await delete(shop, f"apps/{web['id']}/public_api_keys/{second['id']}")).json()
    assert (revoked["key"], revoked["revoked_at"]) == (second["key"], NOW + 1)
    secret = await keys.create_secret_key(shop.database, shop.project_id, "mine", NOW)
    stored = await shop.database.pool.fetchval("select plaintext from api_keys where id = $1", secret.key.id)
    await shop.database.pool.execute("update api_keys set plaintext = null")
    assert stored is None
    [old] = (await get(shop, "apps/app_demo/public_api_keys")).json()["items"]
    assert (old["key"], old["masked_key"]) == (None, demo["masked_key"])
