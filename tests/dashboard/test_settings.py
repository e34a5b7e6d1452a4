"""The settings page: what the API's project endpoint can set, and the first steps with it."""

from __future__ import annotations

import re

from playwright.async_api import Browser, expect

from latchkey.domain.team.account import Role
from latchkey.usecases.access.projects import load_project
from tests.dashboard.asking import somebody
from tests.dashboard.site import Site, Visitor, serious_findings, visiting


async def test_a_developer_renames_the_project_and_changes_what_a_restore_does(site: Site, developer: Visitor) -> None:
    page = await developer.open("/settings")
    assert await serious_findings(page) == []
    await page.get_by_label("Name").fill("  Réglage <i>\u202e x ")
    await page.get_by_label(re.compile("^Keep")).check()
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_text("Saved.")).to_be_visible()
    reply = await site.client.get(f"/v2/projects/{site.project_id}")
    assert (reply.json()["name"], reply.json()["restore_behavior"]) == ("Réglage <i>\u202e x", "keep")
    await expect(page.locator(".switch summary")).to_contain_text("Réglage <i>")
    await page.get_by_label("Name").fill("Demo")
    await page.get_by_label(re.compile("^Transfer It")).check()
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_text("Saved.")).to_be_visible()
    async with site.database.acquire() as connection:
        detail = await connection.fetchval(
            "select detail::text from audit_entries where action = 'project.changed' order by position desc limit 1"
        )
    assert detail == '{"name":["Réglage <i>\u202e x","Demo"],"restore_behavior":["keep","transfer"]}'


async def test_a_developer_closes_the_test_store_and_opens_it_again(site: Site, developer: Visitor) -> None:
    page = await developer.open("/settings")
    await expect(page.get_by_label(re.compile("^Open"))).to_be_checked()
    await expect(page.get_by_text("Close it before you ship.")).to_be_visible()
    for word, stored in (("^Closed", "closed"), ("^Open", "open")):
        await page.get_by_label(re.compile(word)).check()
        await page.get_by_role("button", name="Save").click()
        await expect(page.get_by_text("Saved.")).to_be_visible()
        assert (await load_project(site.database, site.project_id)).test_store == stored


async def test_the_page_says_where_the_project_is_and_shows_nobodys_key(site: Site, viewer: Visitor) -> None:
    page = await viewer.open("/settings")
    await expect(page.get_by_text(site.project_id, exact=True)).to_be_visible()
    await expect(page.get_by_text(site.url, exact=True)).to_be_visible()
    assert "sk_" not in await page.content()
    await expect(page.get_by_role("button", name="Save")).to_have_count(0)
    await expect(page.get_by_label("Name")).to_have_count(0)


async def test_what_makes_no_sense_is_refused_with_the_form_filled_in(site: Site) -> None:
    me = await somebody(site, Role.DEVELOPER)
    path = site.path("/settings").removeprefix(site.url)
    for form in (
        {"name": "", "restore_behavior": "keep", "test_store": "open"},
        {"name": "n" * 1501, "restore_behavior": "keep", "test_store": "open"},
        {"name": "Fine", "restore_behavior": "share", "test_store": "open"},
        {"name": "Fine", "restore_behavior": "keep", "test_store": "ajar"},
        {"name": "Fine", "restore_behavior": "keep"},
        {"name": "Fine"},
    ):
        assert (await me.post(path, form)).status == 400, form
    assert (await load_project(site.database, site.project_id)).name == "Demo"


async def test_on_a_phone_in_the_dark_nothing_scrolls_sideways(browser: Browser, site: Site) -> None:
    phone = {"width": 390, "height": 800}
    async with visiting(browser, site, Role.OWNER, color_scheme="dark", viewport=phone) as owner:
        page = await owner.open("/settings")
        assert await serious_findings(page) == []
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
