"""An app's connection to its store: credentials saved, shown, refused, deleted, and the notification URL."""

import asyncio
from typing import Any

import pytest
from msgspec import json

from latchkey.domain.instants import DAY, HOUR
from latchkey.settings import Settings
from latchkey.subjects.audit import usecases as audit
from latchkey.subjects.purchase_intake.storage import connection_rows as storage
from latchkey.subjects.purchase_intake.usecases.store_connections import connect
from tests.http.apple import AppStore, app_store_credentials, connected_app, new_app, processor, put
from tests.http.client import NOW, Shop
from tests.http.doings import count_rows
from tests.http.management import delete, get, post, refused


async def test_saved_credentials_are_checked_with_a_call_and_their_secret_is_never_shown(
    shop: Shop, store: AppStore
) -> None:
    app = await new_app(shop)
    saved = await put(shop, app["id"], store.credentials)
    body = saved.json()
    assert (saved.status, body["check"]) == (200, {"result": "ok", "message": "", "checked_at": NOW})
    assert body["saved_at"] == NOW
    assert {name: body["credentials"][name] for name in ("bundle_id", "app_apple_id", "key_id")} == {
        "bundle_id": "com.example.notes",
        "app_apple_id": "1234567890",
        "key_id": store.emulator.keys.key_id,
    }
    assert "SHA-256" in body["credentials"]["private_key"]
    read = await get(shop, f"apps/{app['id']}/credentials")
    assert read.json() == body
    secret = store.emulator.keys.private_key.splitlines()[1]
    log = json.encode([dict(entry.detail) for entry in await audit.entries(shop.database, shop.project_id, limit=10)])
    for text in (saved.body, read.body, log):
        assert secret not in text.decode()


async def test_credentials_that_the_store_refuses_are_saved_and_say_so(shop: Shop, store: AppStore) -> None:
    app = await new_app(shop)
    body = (await put(shop, app["id"], {**store.credentials, "key_id": "NOTTHISONE"})).json()
    assert body["check"]["result"] == "refused"
    assert body["check"]["message"]


@pytest.mark.parametrize(("name", "value"), [("root_certificates", 7), ("app_apple_id", {"x": [1]})])
async def test_a_value_of_the_wrong_type_is_named_by_its_field(
    shop: Shop, store: AppStore, name: str, value: Any
) -> None:
    reply = await put(shop, (await new_app(shop))["id"], {**store.credentials, name: value})
    assert (reply.status, reply.json()["param"]) == (400, name)


async def test_saved_credentials_are_checked_again_and_apple_sends_a_test(shop: Shop, store: AppStore) -> None:
    """Whoever has given Apple the URL after saving the credentials need not type them once more."""
    app = await connected_app(shop, store)
    # Nobody listens there: the test only looks at what is sent.
    store.emulator.outbox.url = "http://127.0.0.1:1/incoming/x"
    shop.clock.now = NOW + DAY
    checked = await post(shop, f"apps/{app['id']}/credentials/check", None)
    assert (checked.status, checked.json()["check"]) == (200, {"result": "ok", "message": "", "checked_at": NOW + DAY})
    assert checked.json()["saved_at"] == NOW
    assert [message.kind for message in store.emulator.outbox.messages] == ["TEST"]
    [done] = await audit.entries(shop.database, shop.project_id, limit=1)
    assert (done.action, done.subject) == ("app.credentials_checked", app["id"])


async def test_what_a_store_refused_and_accepts_later_is_noticed(shop: Shop, store: AppStore) -> None:
    """At Google, new permissions take up to a day."""
    app = await connected_app(shop, store)
    async with shop.database.acquire() as connection:
        await storage.note_check(connection, shop.project_id, app["id"], 2, "refused", "Not yet.", NOW, False)
    assert (await get(shop, f"apps/{app['id']}/credentials")).json()["check"]["result"] == "refused"
    shop.clock.now = NOW + 2 * HOUR
    await processor(shop).read_histories()
    check = (await get(shop, f"apps/{app['id']}/credentials")).json()["check"]
    assert check == {"result": "ok", "message": "", "checked_at": NOW + 2 * HOUR}


async def test_credentials_that_cannot_be_tried_are_saved_and_say_why(shop: Shop, store: AppStore) -> None:
    app = await new_app(shop)
    body = (await put(shop, app["id"], {**store.credentials, "api_base_url": "http://127.0.0.1:1"})).json()
    assert body["check"]["result"] == "unknown"
    assert body["check"]["message"].startswith("Could not check: ")


async def test_a_host_that_is_no_longer_allowed_disconnects_its_app_and_no_other(shop: Shop, store: AppStore) -> None:
    app = await connected_app(shop, store)
    stricter = connect(shop.database, Settings(secret_key=bytes(32)), lambda: NOW)
    assert await stricter.of_app(shop.project_id, app["id"]) is None
    assert app["id"] not in [one.app_id for one, _ in await stricter.all_connected()]
    await stricter.close()


async def test_the_first_notification_is_noted(shop: Shop, store: AppStore) -> None:
    app = await connected_app(shop, store)
    store.emulator.send_test()
    shop.clock.now += 60_000
    replies = await store.send(shop, app["notification_url"])
    assert {reply.status for reply in replies} == {200}
    shown = (await get(shop, f"apps/{app['id']}/credentials")).json()
    assert (shown["first_notification_at"], shown["last_notification_at"]) == (NOW + 60_000, NOW + 60_000)


async def test_deleted_credentials_are_gone_and_the_url_stays(shop: Shop, store: AppStore) -> None:
    app = await connected_app(shop, store)
    gone = await delete(shop, f"apps/{app['id']}/credentials")
    assert gone.status == 200
    assert (gone.json()["credentials"], gone.json()["saved_at"]) == (None, None)
    assert gone.json()["notification_url"] == app["notification_url"]
    store.emulator.send_test()
    assert {reply.status for reply in await store.send(shop, app["notification_url"])} == {503}
    assert (await delete(shop, f"apps/{app['id']}/credentials")).json() == gone.json()


async def test_every_old_url_works_for_its_own_week_however_often_the_url_is_rotated(
    shop: Shop, store: AppStore
) -> None:
    """A store may still send to any of them: the operator may have pasted the first new one, or none."""
    app = await connected_app(shop, store)
    urls = [app["notification_url"]]
    for day in (0, 3, 5):
        shop.clock.now = NOW + day * DAY
        rotated = await post(shop, f"apps/{app['id']}/credentials/rotate_notification_url", None)
        urls.append(rotated.json()["notification_url"])
    # So many of the oldest no longer work.
    for day, gone in ((5, 0), (7, 1), (10, 2), (12, 3)):
        shop.clock.now = NOW + day * DAY
        answers = []
        for url in urls:
            store.emulator.send_test()
            [reply] = await store.send(shop, url)
            answers.append(reply.status)
        assert answers == [404] * gone + [200] * (4 - gone), day
    # What no longer works is forgotten with the next two rotations.
    for _ in range(2):
        await post(shop, f"apps/{app['id']}/credentials/rotate_notification_url", None)
    assert (await count_rows(shop))["former_notification_tokens"] == 2


async def test_rotations_at_the_same_time_lose_no_url(shop: Shop, store: AppStore) -> None:
    app = await connected_app(shop, store)
    path = f"apps/{app['id']}/credentials/rotate_notification_url"
    rotated = await asyncio.gather(*(post(shop, path, None) for _ in range(4)))
    for url in (app["notification_url"], *(reply.json()["notification_url"] for reply in rotated)):
        store.emulator.send_test()
        [reply] = await store.send(shop, url)
        assert reply.status == 200


SECRET = "-----BEGIN PRIVATE KEY-----\nvery s3cret\n-----END PRIVATE KEY-----"


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
    ({"consumption": {"customer_consented": False}}, "consumption"),
    ({"colour": "green"}, "colour"),
]


async def test_400_names_the_field_and_nothing_is_saved(shop: Shop) -> None:
    app = await new_app(shop)
    for change, param in WRONG:
        reply = await put(shop, app["id"], {**app_store_credentials(), **change})
        refused(reply, 400, "parameter_error", param)
        assert "s3cret" not in reply.body.decode()
    assert (await get(shop, f"apps/{app['id']}/credentials")).json()["credentials"] is None
    log = json.encode([dict(entry.detail) for entry in await audit.entries(shop.database, shop.project_id, limit=50)])
    assert b"s3cret" not in log


@pytest.mark.parametrize(
    ("app_id", "status", "kind"),
    [("app_demo", 422, "unprocessable_entity_error"), ("app_none", 404, "resource_missing")],
)
async def test_an_app_of_the_test_store_or_of_nobody_has_no_credentials(
    shop: Shop, app_id: str, status: int, kind: str
) -> None:
    path = f"apps/{app_id}/credentials"
    refused(await get(shop, path), 404, "resource_missing", "app_id")
    refused(await put(shop, app_id, app_store_credentials()), status, kind, "app_id")
    refused(await delete(shop, path), status, kind, "app_id")
    for act in ("rotate_notification_url", "check"):
        refused(await post(shop, f"{path}/{act}", None), status, kind, "app_id")


async def test_nothing_can_be_checked_before_it_is_saved(shop: Shop) -> None:
    app = await new_app(shop)
    reply = await post(shop, f"apps/{app['id']}/credentials/check", None)
    refused(reply, 422, "unprocessable_entity_error", "app_id")
