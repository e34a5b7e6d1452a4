"""Virtual currencies in a browser: made, changed, given, taken, and deleted only while nobody ever had any."""

from __future__ import annotations

from playwright.async_api import Browser, expect

from latchkey.domain.team.account import Role
from latchkey.usecases.catalog import currencies
from tests.api.management import get
from tests.dashboard.site import Site, Visitor, serious_findings, visiting

HOSTILE = "<b onmouseover=alert(1)>Gems</b>\u202egnp.exe"


async def balance(site: Site, who: str, code: str) -> int:
    items = (await get(site, f"customers/{who}/virtual_currencies")).json()["items"]
    found: int = next(one["balance"] for one in items if one["currency_code"] == code)
    return found


async def test_a_currency_is_made_given_taken_renamed_and_stays_because_somebody_had_it(
    site: Site, owner: Visitor
) -> None:
    await site.note("cora", colour="red")
    page = await owner.open("/new-currency")
    assert await serious_findings(page) == []
    await page.get_by_label("Code").fill("not a code")
    await page.get_by_label("Name").fill(HOSTILE)
    await page.get_by_role("button", name="Make it").click()
    await expect(page.get_by_role("alert")).to_contain_text("An id has 1 to 200 characters")
    await page.get_by_label("Code").fill("GEM")
    await page.get_by_role("button", name="Make it").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text(HOSTILE)
    assert await serious_findings(page) == []

    await page.get_by_label("Customer").fill("cora")
    await page.get_by_label("Amount").fill("1500")
    # Sent twice, it is done once: the form has an idempotency key.
    key = await page.locator("input[name=key]").input_value()
    await page.get_by_role("button", name="Do it").click()
    await expect(page.get_by_role("status").first).to_contain_text("now has 1,500 GEM")
    await page.get_by_label("Customer").fill("cora")
    await page.get_by_label("Amount").fill("1500")
    await page.locator("input[name=key]").evaluate("(input, key) => { input.value = key }", key)
    await page.get_by_role("button", name="Do it").click()
    await expect(page.get_by_role("status").first).to_contain_text("now has 1,500 GEM")
    assert await balance(site, "cora", "GEM") == 1500

    await page.get_by_label("Customer").fill("cora")
    await page.get_by_label("Do", exact=True).select_option("debit")
    await page.get_by_label("Amount").fill("2000")
    await page.get_by_role("button", name="Do it").click()
    await expect(page.get_by_role("alert")).to_contain_text("The balance of GEM is 1500; 2000 cannot be taken")
    await page.get_by_label("Amount").fill("500")
    await page.get_by_role("button", name="Do it").click()
    await expect(page.get_by_role("status").first).to_contain_text("now has 1,000 GEM")
    assert await balance(site, "cora", "GEM") == 1000
    await page.get_by_label("Customer").fill("nobody at all")
    await page.get_by_label("Amount").fill("1")
    await page.get_by_role("button", name="Do it").click()
    await expect(page.get_by_role("alert")).to_contain_text("There is no customer")

    await page.get_by_label("Name").fill("Gems")
    await page.get_by_label("Description").fill("Shiny")
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Gems")
    assert (await get(site, "virtual_currencies/GEM")).json()["description"] == "Shiny"
    await page.get_by_text("Delete this currency").click()
    await page.get_by_label("I mean it").check()
    await page.get_by_role("button", name="Delete").click()
    await expect(page.get_by_role("alert")).to_contain_text("it cannot be deleted")
    owner.complaints = [words for words in owner.complaints if "status of 4" not in words]


async def test_a_currency_that_nobody_had_can_go(site: Site, developer: Visitor) -> None:
    await currencies.create_currency(site.database, site.project_id, "TMP", "Temporary", "", site.clock.now)
    page = await developer.open("/currencies/TMP")
    await page.get_by_text("Delete this currency").click()
    await page.get_by_label("I mean it").check()
    await page.get_by_role("button", name="Delete").click()
    await expect(page.get_by_role("status").first).to_contain_text("TMP is gone")
    assert (await get(site, "virtual_currencies/TMP")).status == 404


async def test_a_viewer_and_support_read_and_find_no_button(
    browser: Browser, site: Site, viewer: Visitor, support: Visitor
) -> None:
    await currencies.create_currency(site.database, site.project_id, "EYE", HOSTILE, "x" * 1000, site.clock.now)
    for visitor in (viewer, support):
        for path in ("/currencies", "/currencies/EYE"):
            page = await visitor.open(path)
            await expect(page.get_by_text("EYE").first).to_be_visible()
            assert await page.locator("main form, main .tools a").count() == 0
    phone = {"width": 390, "height": 800}
    async with visiting(browser, site, Role.OWNER, color_scheme="dark", viewport=phone) as visitor:
        for path in ("/currencies", "/currencies/EYE"):
            page = await visitor.open(path)
            assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
            assert await serious_findings(page) == []
