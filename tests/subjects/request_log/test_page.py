"""The log of requests as a page: what a key did, how it was answered, and how to find it."""

from typing import Any

from playwright.async_api import Browser, expect

from latchkey.engine.storage import keys as keys_keys
from latchkey.subjects.accounts.rules import Role
from latchkey.subjects.api_keys import usecases as keys
from latchkey.subjects.request_log import storage as request_log
from tests.dashboard.site import Site, visiting
from tests.dashboard.tab import tab

V1 = "/v1/subscribers/{app_user_id}"
PHONE = {"width": 390, "height": 800}


async def fill(site: Site, name: str) -> keys_keys.ApiKey:
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
        await request_log.note_uses(connection, {key.id: site.clock.now})
    return key


async def test_the_requests_of_a_key_are_found_from_the_list_of_keys(site: Site) -> None:
    await fill(site, "till")
    page = await tab(site, Role.VIEWER, "/keys")
    assert "never" not in page.row("till")
    await page.follow("Requests with till")
    assert len(page.rows) == 50
    assert "1,234 more requests not kept" in page.rows[0]
    assert "500" in page.rows[1]
    await page.follow("Older")
    assert len(page.rows) == 12


async def test_requests_are_filtered_by_status_and_route(site: Site) -> None:
    key = await fill(site, "counter")
    page = await tab(site, Role.VIEWER, "/requests")
    await page.press("Filter", {"Key": key.id, "Status": "4"})
    assert len(page.rows) == 20
    assert "POST /v1/receipts" in page.rows[0]
    await page.press("Filter", {"Route": V1})
    assert "No request matches" in page.text()


async def test_on_a_phone_each_request_is_a_block(site: Site, browser: Browser) -> None:
    await fill(site, "kiosk")
    async with visiting(browser, site, Role.VIEWER, viewport=PHONE) as visitor:
        page = await visitor.open("/requests")
        # Although one row has a sentence across several columns.
        await expect(page.locator("main table")).to_have_class("stacked")
