"""The journal of what stores sent: listed, filtered, read, processed again."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from latchkey.domain.instants import DAY, HOUR, Ms
from latchkey.stores.adapter import ConnectedApp, Notification, StoreReading
from latchkey.stores.apple.adapter import AppleAdapter
from latchkey.subjects.api_keys import usecases as keys
from latchkey.subjects.purchase_intake.storage import connection_rows
from latchkey.subjects.purchase_intake.usecases import notifications
from tests.http.apple import AppStore, connected_app, process, processor
from tests.http.client import NOW, Shop
from tests.http.management import get, post, refused, walk
from tests.looking_out import looking_out
from tests.patience import until


@pytest.fixture
async def app(shop: Shop, store: AppStore) -> dict[str, Any]:
    """A connected app with a sale and a test notification in its journal; nothing is processed yet."""
    app = await connected_app(shop, store)
    store.emulator.outbox.messages.clear()
    store.emulator.sell(product_id="pro_monthly", buyer="ada")
    assert {reply.status for reply in await store.send(shop, app["notification_url"])} == {200}
    shop.clock.now += 1_000
    store.emulator.send_test()
    assert {reply.status for reply in await store.send(shop, app["notification_url"])} == {200}
    return app


async def ids(shop: Shop, query: str) -> list[str]:
    return [item["kind"] for item in await walk(shop, f"store_notifications?limit=1{query}")]


async def test_only_a_key_that_may_write_gets_the_payload(shop: Shop, app: dict[str, Any]) -> None:
    """A signed transaction in it could be shown as a receipt, for another customer."""
    reader = await keys.create_secret_key(shop.database, shop.project_id, "reader", NOW, scopes=["read"])
    [_, sale] = await walk(shop, "store_notifications")
    read = await get(shop, f"store_notifications/{sale['id']}", key=reader.plaintext)
    assert (read.status, read.json()) == (200, sale)
    assert "payload" not in read.json()
    listed = await get(shop, "store_notifications", key=reader.plaintext)
    assert listed.json()["items"][1] == sale


async def test_a_processed_entry_names_the_customer_and_the_events(shop: Shop, app: dict[str, Any]) -> None:
    await process(shop)
    [test, sale] = await walk(shop, "store_notifications")
    assert (test["status"], sale["status"], sale["attempts"]) == ("ignored", "applied", 1)
    assert (sale["finished_at"], sale["next_attempt_at"]) == (NOW + 1_000, None)
    [event_id] = sale["event_ids"]
    events = await walk(shop, "events")
    assert [item["app_user_id"] for item in events if item["id"] == event_id] == [sale["customer_id"]]


async def test_the_list_is_newest_first_and_filters(shop: Shop, app: dict[str, Any]) -> None:
    await process(shop)
    both = await ids(shop, "")
    assert both[0] == "TEST"
    assert both[1].startswith("SUBSCRIBED")
    subject = (await walk(shop, "store_notifications?kind=SUBS"))[0]["subject"]
    for query, found in (
        (f"&app_id={app['id']}", both),
        ("&app_id=app_demo", []),
        ("&status=applied", both[1:]),
        ("&status=failed", []),
        ("&kind=TE", both[:1]),
        ("&kind=te", []),
        ("&kind=%25", []),
        ("&kind=T_ST", []),
        ("&kind=%5C", []),
        (f"&subject={subject}", both[1:]),
        ("&subject=0", []),
        (f"&since_ms={NOW + 1}", both[:1]),
        (f"&until_ms={NOW + 1}", both[1:]),
        (f"&since_ms={NOW}&until_ms={NOW + 1}&status=applied&kind=SUB", both[1:]),
    ):
        assert await ids(shop, query) == found, query


async def test_one_entry_is_processed_again_and_changes_nothing_twice(shop: Shop, app: dict[str, Any]) -> None:
    await process(shop)
    before = await walk(shop, "events")
    sale = (await walk(shop, "store_notifications"))[1]
    again = await post(shop, f"store_notifications/{sale['id']}/reprocess", None)
    assert (again.status, again.json()["status"], again.json()["attempts"]) == (200, "waiting", 0)
    assert "payload" not in again.json()
    assert await process(shop) == 1
    assert (await get(shop, f"store_notifications/{sale['id']}")).json()["status"] == "applied"
    assert await walk(shop, "events") == before


async def test_all_since_a_moment_are_processed_again(shop: Shop, app: dict[str, Any]) -> None:
    await process(shop)
    for asked, count in (
        ({"since_ms": NOW + 1}, 1),
        ({"since_ms": NOW, "status": "applied"}, 1),
        ({"since_ms": NOW, "status": "failed"}, 0),
        ({"since_ms": NOW, "app_id": "app_demo"}, 0),
        ({"since_ms": NOW, "app_id": app["id"]}, 2),
        ({"since_ms": NOW + 2_000}, 0),
    ):
        reply = await post(shop, "store_notifications/reprocess", asked)
        assert reply.json() == {"object": "store_notifications_reprocessed", "count": count}, asked
        assert await process(shop) == count


async def test_a_notification_that_is_not_there_is_404(shop: Shop) -> None:
    for id in ("ntf_1", "ntf_0", "1", "ntf_x", "ntf_" + "9" * 30, "ntf_-1"):
        refused(await get(shop, f"store_notifications/{id}"), 404, "resource_missing", "notification_id")
        refused(
            await post(shop, f"store_notifications/{id}/reprocess", None), 404, "resource_missing", "notification_id"
        )
        found = await get(shop, f"store_notifications?starting_after={id}")
        refused(found, 404, "resource_missing", "starting_after")
    asked = {"since_ms": NOW, "app_id": "app_none"}
    refused(await post(shop, "store_notifications/reprocess", asked), 404, "resource_missing", "app_id")


async def test_a_query_that_makes_no_sense_is_400(shop: Shop) -> None:
    for query, param in (
        ("status=done", "status"),
        ("kind=", "kind"),
        ("subject=%00", "subject"),
        ("app_id=" + "x" * 201, "app_id"),
        ("since_ms=yesterday", "since_ms"),
        ("until_ms=0", "until_ms"),
        (f"since_ms={NOW + 1}&until_ms={NOW}", "until_ms"),
        ("limit=0", "limit"),
    ):
        refused(await get(shop, f"store_notifications?{query}"), 400, "parameter_error", param)


async def test_an_app_whose_store_is_slow_keeps_no_other_waiting(
    shop: Shop, store: AppStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifications, "AT_ONCE", 4)
    monkeypatch.setattr(notifications, "SHARE", 2)
    slow, other = [await connected_app(shop, store) for _ in range(2)]
    answers, stop, read = asyncio.Event(), asyncio.Event(), AppleAdapter.read

    async def slowly(self: AppleAdapter, app: ConnectedApp, payload: str) -> StoreReading:
        if app.app_id == slow["id"]:
            await answers.wait()
        return await read(self, app, payload)

    async def waiting(app: dict[str, Any]) -> int:
        count = "select count(*) from store_notifications where status = 'waiting' and app_id = $1"
        found: int = await shop.database.pool.fetchval(count, app["id"])
        return found

    monkeypatch.setattr(AppleAdapter, "read", slowly)
    for app in (slow, slow, slow, slow, slow, other, other):
        store.emulator.outbox.messages.clear()
        store.emulator.send_test()
        assert {reply.status for reply in await store.send(shop, app["notification_url"])} == {200}
        shop.clock.now += 1
    async with looking_out(shop.database, shop.clock) as lookout:
        role = notifications.run_stores(lookout, processor(shop), shop.database, shop.clock, 30, stop)
        running = asyncio.create_task(role)

        async def none(*apps: dict[str, Any]) -> bool:
            return not any([await waiting(app) for app in apps])

        await until(lambda: none(other))
        assert await waiting(slow) >= 5
        answers.set()
        await until(lambda: none(slow, other))
        stop.set()
        await running


async def test_of_a_history_that_cannot_be_read_to_its_end_the_rest_is_read_later(
    shop: Shop, store: AppStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = sorted([(await connected_app(shop, store))["id"] for _ in range(2)])
    asked: list[Ms] = []

    async def missed(self: AppleAdapter, app: ConnectedApp, since: Ms, until: Ms) -> AsyncIterator[Notification]:
        if app.app_id == first:
            asked.append(since)
            if until > NOW - DAY:
                raise TimeoutError
        for number in range(3):
            yield Notification(
                external_id=f"{since}/{number}", kind="TEST", environment=None, occurred_at=since, subject=None,
                payload="{}", checked={},
            )  # fmt: skip

    monkeypatch.setattr(AppleAdapter, "missed", missed)
    monkeypatch.setattr(notifications, "FILED_AT_ONCE", 2)
    assert await processor(shop).read_histories() > 0
    read_to = [
        row.history_read_to
        for id in (first, second)
        if (row := await connection_rows.load(shop.database, shop.project_id, id)) is not None
    ]
    assert read_to == [asked[-1], NOW]
    assert asked[0] == NOW - 3 * DAY < asked[-1]
    filed = "select count(*) from store_notifications where app_id = $1"
    assert await shop.database.pool.fetchval(filed, first) == 3 * len(asked[:-1])
    asked.clear()
    await processor(shop).read_histories()
    assert asked[0] == (read_to[0] or 0) - HOUR, "with an overlap of an hour"
