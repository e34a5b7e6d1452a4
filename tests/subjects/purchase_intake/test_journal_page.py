"""The journal: list, filters, one entry, processing again."""

from base64 import urlsafe_b64encode
from typing import Any

import pytest
from msgspec import json
from playwright.async_api import expect

from latchkey.subjects.accounts.rules import Role
from latchkey.subjects.audit import usecases as audit
from latchkey.subjects.purchase_intake.rules import opened
from tests.dashboard.asking import somebody
from tests.dashboard.site import Site, Visitor
from tests.dashboard.tab import tab
from tests.http.apple import AppStore, connected_app, process
from tests.http.management import get


@pytest.fixture
async def app(site: Site, store: AppStore) -> dict[str, Any]:
    """A connected app whose store told of a sale and sent a test; both are processed."""
    app = await connected_app(site, store)
    store.emulator.outbox.messages.clear()
    store.emulator.sell(product_id="pro_monthly", buyer="ada")
    store.emulator.send_test()
    assert {reply.status for reply in await store.send(site, app["notification_url"])} == {200}
    assert await process(site) == 2
    return app


async def entries(site: Site, app: dict[str, Any], query: str = "") -> list[dict[str, Any]]:
    reply = await get(site, f"store_notifications?app_id={app['id']}{query}")
    items: list[dict[str, Any]] = reply.json()["items"]
    return items


async def test_an_entry_shows_what_came_what_was_checked_and_what_followed(site: Site, app: dict[str, Any]) -> None:
    [sale] = await entries(site, app, "&kind=SUBSCRIBED")
    page = await tab(site, Role.VIEWER, f"/journal?app={app['id']}")
    assert len(page.rows) == 2
    await page.follow("SUBSCRIBED")
    entry = page.path
    assert "applied" in page.heading
    for shown in (sale["external_id"], *(name[:40] for name in sale["checked"].values())):
        assert shown in page.text()
    assert "Only owners and developers see it" in page.text()
    assert page.is_only_read, "a viewer changes nothing"
    await page.follow(sale["event_ids"][0])
    assert page.heading == "INITIAL_PURCHASE"
    await page.open(entry)
    await page.follow(sale["customer_id"])
    assert sale["customer_id"] in page.heading


async def test_only_who_may_change_things_sees_the_payload(site: Site, app: dict[str, Any]) -> None:
    """What is in it can be shown as a receipt."""
    [sale] = await entries(site, app, "&kind=SUBSCRIBED")
    payload = (await get(site, f"store_notifications/{sale['id']}")).json()["payload"]
    for role in (Role.VIEWER, Role.SUPPORT):
        seen = await tab(site, role, f"/journal/{sale['id']}")
        assert seen.status == 200
        assert "bundleId" not in seen.html
        assert payload[:60] not in seen.html
    page = await tab(site, Role.DEVELOPER, f"/journal/{sale['id']}")
    payload = page.text('[aria-label="Decoded payload"]')
    assert '"bundleId": "com.example.notes"' in payload
    assert '"productId": "pro_monthly"' in payload
    assert "eyJ" in page.text('[aria-label="Payload as it came"]')


async def test_the_filters_narrow_the_list(site: Site, app: dict[str, Any]) -> None:
    [sale] = await entries(site, app, "&kind=SUBSCRIBED")
    page = await tab(site, Role.VIEWER, "/journal")
    for label, value, rows in (("Kind", "TEST", 1), ("Kind", "", 2), ("Purchase", sale["subject"], 1)):
        await page.press("Filter", {"App": app["id"], label: value})
        assert len(page.rows) == rows
    await page.press("Filter", {"Status": "failed"})
    assert "No entry fits these filters" in page.text()


async def test_one_entry_and_all_since_a_moment_are_processed_again(
    site: Site, developer: Visitor, app: dict[str, Any]
) -> None:
    [sale] = await entries(site, app, "&kind=SUBSCRIBED")
    page = await developer.open(f"/journal/{sale['id']}")
    await page.get_by_role("button", name="Process again").click()
    await expect(page.get_by_role("heading", level=1)).to_contain_text("waiting")
    assert await process(site) == 1
    # The page notices by itself.
    await expect(page.get_by_role("heading", level=1)).to_contain_text("applied")
    await expect(page.locator("#entry")).to_contain_text("Known already")

    await page.goto(site.path("/journal"))
    await page.get_by_text("Process again all since…").click()
    again = page.locator("details.action")
    await again.get_by_label("Received since (UTC)").fill("2027-01-01T00:00")
    await again.get_by_label("Which").select_option("all")
    await again.get_by_label("App").select_option(app["id"])
    await again.get_by_label("Yes, process again").check()
    await again.get_by_role("button").click()
    await expect(page.get_by_role("status").first).to_contain_text("2 entries are processed again")
    assert await process(site) == 2
    done, one = await audit.entries(site.database, site.project_id, limit=2)
    assert (done.action, done.detail["count"]) == ("store_notifications.reprocessed", 2)
    assert (one.action, one.subject) == ("store_notification.reprocessed", sale["id"])


async def test_a_failed_entry_is_announced_and_says_why(site: Site, store: AppStore) -> None:
    app = await connected_app(site, store)
    store.emulator.outbox.messages.clear()
    store.emulator.sell(product_id="pro_monthly", buyer="bob")
    await store.send(site, app["notification_url"])
    await site.client.request("DELETE", f"/v2/projects/{site.project_id}/apps/{app['id']}/credentials")
    await process(site)
    page = await tab(site, Role.DEVELOPER)
    await page.follow("See why")
    assert "The app has no credentials for its store" in page.rows[0]
    await page.follow("", "tbody tr:first-child")
    assert "Why it failed" in page.text("#entry")


async def test_a_forged_receipt_does_not_link_to_a_customer_who_does_not_exist(site: Site, store: AppStore) -> None:
    app = await connected_app(site, store)
    shown = {"app_user_id": "mallory", "fetch_token": "eyJ.forged.jws", "product_id": "pro_monthly"}
    assert (await site.client.post("/v1/receipts", shown, key=app["public_api_key"]["key"])).status == 400
    page = await tab(site, Role.VIEWER, f"/journal?app={app['id']}")
    assert "mallory" in page.rows[0]
    assert "customers/mallory" not in page.html
    [entry] = await entries(site, app)
    await page.open(f"/journal/{entry['id']}")
    assert "mallory" in page.text("#entry")
    assert "customers/mallory" not in page.html


async def test_what_is_not_there_or_makes_no_sense_is_answered_with_a_page(site: Site) -> None:
    me = await somebody(site, Role.OWNER)
    start = f"/dashboard/projects/{site.project_id}/journal"
    for id in ("ntf_999999", "ntf_x", "x", "ntf_" + "9" * 40):
        assert (await me.get(f"{start}/{id}")).status == 404
        assert (await me.post(f"{start}/{id}/reprocess")).status == 404
    assert (await me.get(f"{start}?after=ntf_x")).status == 404
    for query in ("status=done", "since=yesterday", "since=2027-02-01&until=2027-01-01", "kind=%00"):
        assert (await me.get(f"{start}?{query}")).status == 400
    for form in ({}, {"confirm": "yes"}, {"confirm": "yes", "since": "2027-01-01", "status": "odd"}):
        assert (await me.post(f"{start}/reprocess", form)).status == 400
    gone = {"confirm": "yes", "since": "2027-01-01", "status": "all", "app": "app_none"}
    assert (await me.post(f"{start}/reprocess", gone)).status == 404


def signed(claims: object) -> str:
    return f"eyJhbGciOiJFUzI1NiJ9.{urlsafe_b64encode(json.encode(claims)).decode().rstrip('=')}.c2lnbmF0dXJl"


def test_signed_parts_are_opened_also_within_each_other() -> None:
    inner = signed({"productId": "pro"})
    assert opened(signed({"data": {"signedTransactionInfo": inner}})) == {
        "data": {"signedTransactionInfo": {"productId": "pro"}}
    }
    assert opened(json.encode({"token": inner, "list": [inner, 7]}).decode()) == {
        "token": {"productId": "pro"},
        "list": [{"productId": "pro"}, 7],
    }


@pytest.mark.parametrize(
    "payload",
    [
        "",
        "plain text",
        "a.b.c",
        "aaaa.bbbb.cccc",
        "eyJh.////.x",
        "eyJh.eyJhIjox.c2ln",
        signed([1]),
        "MIIT" * 50_000,
        "\ud800",
    ],
)
def test_what_is_neither_json_nor_signed_json_stays_as_it_came(payload: str) -> None:
    assert opened(payload) is None


def test_what_is_nested_too_deep_is_left_closed() -> None:
    value: object = "end"
    for _ in range(10):
        value = signed({"next": value})
    assert isinstance(value, str)
    found = opened(value)
    while isinstance(found, dict):
        found = found["next"]
    assert isinstance(found, str)
    assert found != "end"
    assert opened("[" * 100_000) is None
