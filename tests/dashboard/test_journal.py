"""The journal in a browser: list, filters, one entry, processing again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from playwright.async_api import expect

from latchkey.domain.team.account import Role
from latchkey.usecases.access import audit
from tests.api.apple import AppStore, app_store, connected_app, process
from tests.api.management import get
from tests.dashboard.asking import somebody
from tests.dashboard.site import Site, Visitor, serious_findings


@pytest.fixture
async def store() -> AsyncIterator[AppStore]:
    async with app_store() as store:
        yield store


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


async def test_an_entry_shows_what_came_what_was_checked_and_what_followed(
    site: Site, viewer: Visitor, app: dict[str, Any]
) -> None:
    [sale] = await entries(site, app, "&kind=SUBSCRIBED")
    page = await viewer.open(f"/journal?app={app['id']}")
    await expect(page.locator("tbody tr")).to_have_count(2)
    assert await serious_findings(page) == []
    await page.get_by_role("link", name="SUBSCRIBED").click()
    await expect(page.get_by_role("heading", level=1)).to_contain_text("applied")
    main = page.locator("main")
    await expect(main).to_contain_text(sale["external_id"])
    for name in sale["checked"].values():
        await expect(main).to_contain_text(name[:40])
    await expect(main).to_contain_text("Only owners and developers see it")
    assert await page.locator("main form").count() == 0, "a viewer changes nothing"
    assert await serious_findings(page) == []
    await page.get_by_role("link", name=sale["event_ids"][0]).click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("INITIAL_PURCHASE")
    await page.go_back()
    await page.get_by_role("link", name=sale["customer_id"]).click()
    await expect(page.get_by_role("heading", level=1)).to_contain_text(sale["customer_id"])


async def test_only_who_may_change_things_sees_the_payload(site: Site, developer: Visitor, app: dict[str, Any]) -> None:
    """What is in it can be shown as a receipt."""
    [sale] = await entries(site, app, "&kind=SUBSCRIBED")
    payload = (await get(site, f"store_notifications/{sale['id']}")).json()["payload"]
    for role in (Role.VIEWER, Role.SUPPORT):
        seen = await (await somebody(site, role)).get(f"/dashboard/projects/{site.project_id}/journal/{sale['id']}")
        assert seen.status == 200
        assert "bundleId" not in seen.body.decode()
        assert payload[:60] not in seen.body.decode()
    page = await developer.open(f"/journal/{sale['id']}")
    await expect(page.get_by_label("What the payload says")).to_contain_text('"bundleId": "com.example.notes"')
    await expect(page.get_by_label("What the payload says")).to_contain_text('"productId": "pro_monthly"')
    await page.get_by_text("As it came").click()
    await expect(page.get_by_label("Payload as it came")).to_contain_text("eyJ")
    assert await serious_findings(page) == []


async def test_the_filters_narrow_the_list(site: Site, viewer: Visitor, app: dict[str, Any]) -> None:
    [sale] = await entries(site, app, "&kind=SUBSCRIBED")
    page = await viewer.open("/journal")
    await page.get_by_label("App").select_option(app["id"])
    for label, value, rows in (("Kind", "TEST", 1), ("Kind", "", 2), ("Purchase", sale["subject"], 1)):
        await page.get_by_label(label, exact=True).fill(value)
        await page.get_by_role("button", name="Filter").click()
        await expect(page.locator("tbody tr")).to_have_count(rows)
    await page.get_by_label("Status").select_option("failed")
    await page.get_by_role("button", name="Filter").click()
    await expect(page.get_by_text("No entry fits these filters")).to_be_visible()


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
    await again.get_by_label("I mean it").check()
    await again.get_by_role("button").click()
    await expect(page.get_by_role("status").first).to_contain_text("2 entries are processed again")
    assert await process(site) == 2
    done, one = await audit.entries(site.database, site.project_id, limit=2)
    assert (done.action, done.detail["count"]) == ("store_notifications.reprocessed", 2)
    assert (one.action, one.subject) == ("store_notification.reprocessed", sale["id"])


async def test_a_failed_entry_is_announced_and_says_why(site: Site, developer: Visitor, store: AppStore) -> None:
    app = await connected_app(site, store)
    store.emulator.outbox.messages.clear()
    store.emulator.sell(product_id="pro_monthly", buyer="bob")
    await store.send(site, app["notification_url"])
    await site.client.request("DELETE", f"/v2/projects/{site.project_id}/apps/{app['id']}/credentials")
    await process(site)
    page = await developer.open()
    await page.get_by_role("link", name="See why").click()
    row = page.locator("tbody tr").first
    await expect(row).to_contain_text("The app has no credentials for its store")
    await row.get_by_role("link").first.click()
    await expect(page.locator("#entry")).to_contain_text("Why it failed")


async def test_what_is_not_there_or_makes_no_sense_is_answered_with_a_page(site: Site) -> None:
    me = await somebody(site, Role.OWNER)
    start = f"/dashboard/projects/{site.project_id}/journal"
    for id in ("ntf_999999", "ntf_x", "x", "ntf_" + "9" * 40):
        assert (await me.get(f"{start}/{id}")).status == 404
        assert (await me.post(f"{start}/{id}/reprocess")).status == 404
    for query in ("status=done", "since=yesterday", "after=ntf_x", "since=2027-02-01&until=2027-01-01", "kind=%00"):
        assert (await me.get(f"{start}?{query}")).status == 400
    for form in ({}, {"confirm": "yes"}, {"confirm": "yes", "since": "2027-01-01", "status": "odd"}):
        assert (await me.post(f"{start}/reprocess", form)).status == 400
    gone = {"confirm": "yes", "since": "2027-01-01", "status": "all", "app": "app_none"}
    assert (await me.post(f"{start}/reprocess", gone)).status == 404
