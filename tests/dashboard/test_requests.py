"""The log of requests in a browser: what a key did, how it was answered, and how to find it."""

from __future__ import annotations

from typing import Any

from playwright.async_api import Browser, expect

from latchkey.domain.team.account import Role
from latchkey.storage.access import request_log
from latchkey.usecases.access import keys
from tests.dashboard.site import Site, Visitor, serious_findings, visiting

V1 = "/v1/subscribers/{app_user_id}"
PHONE = {"width": 390, "height": 800}


async def fill(site: Site, name: str) -> keys.ApiKey:
    """A key with 62 requests: 40 that succeeded, 20 refused, one that failed, and a line about those left out."""
    key = (await keys.create_secret_key(site.database, site.project_id, name, site.clock.now)).key

    def row(number: int, **more: Any) -> request_log.Logged:
        at = site.clock.now + number
        return request_log.Logged(site.project_id, key.id, at, **more)

    seen = {"address": "203.0.113.7", "agent": "curl/8.5.0", "request_id": "5f0a9c1d2e3b4a5600000001"}
    rows = [row(n, method="GET", route=V1, status=200, took_us=1_530, bytes=812, **seen) for n in range(40)]
    rows += [row(40 + n, method="POST", route="/v1/receipts", status=422, took_us=900, **seen) for n in range(20)]
    rows += [row(60, method="GET", route=V1, status=500, took_us=90_000, **seen), row(61, left_out=1234)]
    async with site.database.acquire() as connection:
        await request_log.write(connection, rows)
        await request_log.note_uses(connection, {key.id: (site.project_id, site.clock.now)})
    return key


async def test_the_requests_of_a_key_are_found_from_the_list_of_keys(site: Site, viewer: Visitor) -> None:
    await fill(site, "till")
    page = await viewer.open("/keys")
    row = page.get_by_role("row").filter(has_text="till")
    await expect(row).not_to_contain_text("never")
    assert await serious_findings(page) == []
    await page.get_by_role("link", name="Requests with till").click()
    rows = page.locator("tbody tr")
    await expect(rows).to_have_count(50)
    await expect(rows.nth(0)).to_contain_text("1,234 more requests not kept")
    await expect(rows.nth(1)).to_contain_text("500")
    assert await serious_findings(page) == []
    await page.get_by_role("link", name="Older").click()
    await expect(rows).to_have_count(12)


async def test_requests_are_filtered_by_status_and_route(site: Site, viewer: Visitor) -> None:
    key = await fill(site, "counter")
    page = await viewer.open("/requests")
    await page.get_by_label("Key").select_option(key.id)
    await page.get_by_label("Status").select_option("4")
    await page.get_by_role("button", name="Filter").click()
    rows = page.locator("tbody tr")
    await expect(rows).to_have_count(20)
    await expect(rows.first).to_contain_text("POST /v1/receipts")
    await page.get_by_label("Route").select_option(V1)
    await page.get_by_role("button", name="Filter").click()
    await expect(page.get_by_role("heading", name="No request matches")).to_be_visible()
    assert await serious_findings(page) == []


async def test_the_page_is_readable_in_the_dark_and_on_a_phone(site: Site, browser: Browser) -> None:
    await fill(site, "kiosk")
    async with visiting(browser, site, Role.VIEWER, color_scheme="dark", viewport=PHONE) as visitor:
        page = await visitor.open("/requests")
        await expect(page.locator("tbody tr").first).to_be_visible()
        assert await serious_findings(page) == []
        # Each request is a block, although one row has a sentence across several columns.
        await expect(page.locator("main table")).to_have_class("stacked")
        assert await page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
