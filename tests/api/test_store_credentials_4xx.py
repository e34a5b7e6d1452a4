"""Credentials that are refused. Nothing is saved, and no message repeats what was sent."""

from __future__ import annotations

from typing import Any

from msgspec import json

from latchkey.usecases.access import audit
from tests.api.apple import keys, new_app, put
from tests.api.client import Shop
from tests.api.management import delete, get, post, refused

SECRET = "-----BEGIN PRIVATE KEY-----\nvery s3cret\n-----END PRIVATE KEY-----"


def good() -> dict[str, Any]:
    return {
        "bundle_id": "com.example.notes",
        "app_apple_id": 1_234_567_890,
        "issuer_id": keys().issuer_id,
        "key_id": keys().key_id,
        "private_key": keys().private_key,
        "root_certificates": [keys().chain.root_pem],
        "api_base_url": "http://127.0.0.1:1",
    }


WRONG: list[tuple[dict[str, Any], str | None]] = [
    *(({name: None}, name) for name in ("bundle_id", "app_apple_id", "issuer_id", "key_id", "private_key")),
    ({"root_certificates": ["not PEM"]}, "root_certificates"),
    ({"bundle_id": "not a bundle id!"}, "bundle_id"),
    ({"bundle_id": 7}, "bundle_id"),
    ({"bundle_id": SECRET}, "bundle_id"),
    ({"root_certificates": [SECRET]}, "root_certificates"),
    ({"app_apple_id": "12x"}, "app_apple_id"),
    ({"private_key": SECRET}, "private_key"),
    ({"private_key": {"pem": SECRET}}, "private_key"),
    ({"api_base_url": "https://evil.example.com"}, "api_base_url"),
    ({"api_base_url": "http://user:very s3cret@127.0.0.1:1"}, "api_base_url"),
    ({"package_name": "com.example.notes"}, "package_name"),
    ({"consumption": {"customer_consented": False}}, None),
    ({"colour": "green"}, "colour"),
]


async def test_400_names_the_field_and_nothing_is_saved(shop: Shop) -> None:
    app = await new_app(shop)
    for change, param in WRONG:
        reply = await put(shop, app["id"], {**good(), **change})
        refused(reply, 400, "parameter_error", param)
        assert "s3cret" not in reply.body.decode()
    assert (await get(shop, f"apps/{app['id']}/credentials")).json()["credentials"] is None
    log = json.encode([dict(entry.detail) for entry in await audit.entries(shop.database, shop.project_id, limit=50)])
    assert b"s3cret" not in log


async def test_an_app_of_the_test_store_has_no_credentials(shop: Shop) -> None:
    refused(await get(shop, "apps/app_demo/credentials"), 404, "resource_missing", "app_id")
    refused(await put(shop, "app_demo", good()), 422, "unprocessable_entity_error", "app_id")
    refused(await delete(shop, "apps/app_demo/credentials"), 422, "unprocessable_entity_error", "app_id")
    for act in ("rotate_notification_url", "check"):
        path = f"apps/app_demo/credentials/{act}"
        refused(await post(shop, path, None), 422, "unprocessable_entity_error", "app_id")


async def test_nothing_can_be_checked_before_it_is_saved(shop: Shop) -> None:
    app = await new_app(shop)
    reply = await post(shop, f"apps/{app['id']}/credentials/check", None)
    refused(reply, 422, "unprocessable_entity_error", "app_id")


async def test_404_for_an_app_that_is_not_there(shop: Shop) -> None:
    refused(await get(shop, "apps/app_none/credentials"), 404, "resource_missing", "app_id")
    refused(await put(shop, "app_none", good()), 404, "resource_missing", "app_id")
    refused(await delete(shop, "apps/app_none/credentials"), 404, "resource_missing", "app_id")
    for act in ("rotate_notification_url", "check"):
        path = f"apps/app_none/credentials/{act}"
        refused(await post(shop, path, None), 404, "resource_missing", "app_id")
