"""The figures on the overview page, compared with the API."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, expect

from latchkey.storage.catalog.catalogs import Catalogs
from latchkey.storage.database import Database
from latchkey.usecases.engine.clock import pass_time
from tests.api.client import DAY
from tests.dashboard.site import Site, Visitor, opened, serious_findings, visiting


@pytest.fixture
async def site(database: Database, tmp_path: Path) -> AsyncIterator[Site]:
    """A site for each test: every sale moves the numbers."""
    async with opened(database, tmp_path, deliver=False) as site:
        yield site


async def sell(site: Site) -> None:
    await site.act("purchase", "monthly", "pro_monthly", environment="PRODUCTION")
    await site.act("purchase", "yearly", "pro_yearly", environment="PRODUCTION")
    await site.act("purchase", "trying", "pro_monthly", environment="PRODUCTION", trial=True)


async def value(page: Page, figure: str) -> str:
    return await page.locator(f"#card-{figure} .value").inner_text()


async def test_before_anything_was_sold_the_page_says_what_to_do_first(site: Site, viewer: Visitor) -> None:
    page = await viewer.open()
    await expect(page.get_by_role("heading", name="Nobody has bought anything yet")).to_be_visible()
    snippet = await page.locator(".snippet code").inner_text()
    assert f"{site.url}/v2/projects/proj_demo/test_store/actions" in snippet
    assert site.secret not in await page.content()
    assert await serious_findings(page) == []


async def test_the_cards_agree_with_what_was_sold_and_with_the_api(site: Site, viewer: Visitor) -> None:
    await sell(site)
    await site.act("purchase", "playing", "team_monthly")
    await site.act("purchase", "rich", "coins_100", environment="PRODUCTION")
    page = await viewer.open()
    assert await value(page, "actives") == "2"
    assert await value(page, "trials") == "1"
    assert await value(page, "mrr") == "$16.66"
    assert await value(page, "customers_new") == "4"
    replies = [(await site.v2(who)).json() for who in ("monthly", "yearly", "trying", "rich")]
    active = [one for one in replies if one["active_entitlements"]["items"]]
    assert len(active) == int(await value(page, "actives")) + int(await value(page, "trials"))
    metrics = (await site.client.get(f"/v2/projects/{site.project_id}/metrics/overview")).json()["metrics"]
    told = {one["id"]: one["value"] for one in metrics}
    assert (told["active_subscriptions"], told["active_trials"], told["mrr"]) == (2, 1, 16.655833)
    assert told["new_customers"] == 4

    # Over a year, churn is told by the week: at the start of it there may have been nobody.
    await expect(page.locator("#card-churn")).to_contain_text("28 days")
    await page.get_by_label("Period").select_option("365")
    await expect(page.locator("#card-churn .change")).to_contain_text("a week on average")
    await page.get_by_label("Environment").select_option("sandbox")
    await expect(page).to_have_url(re.compile("environment=sandbox"))
    assert (await value(page, "actives"), await value(page, "mrr")) == ("1", "$29.99")
    assert await serious_findings(page) == []


async def test_a_refund_and_a_trial_that_was_paid_for_move_the_cards(site: Site, browser: Browser) -> None:
    await sell(site)
    site.clock.now += 8 * DAY
    await site.act("refund", "yearly", "pro_yearly")
    while await pass_time(site.database, Catalogs(), site.clock.now):
        pass
    async with visiting(browser, site, color_scheme="dark", viewport={"width": 390, "height": 800}) as phone:
        page = await phone.open()
        assert (await value(page, "actives"), await value(page, "trials")) == ("2", "0")
        assert await value(page, "mrr") == "$19.98"
        # One of two was refunded: half of nothing at the start of the 28 days is not known.
        assert await value(page, "churn") == "–"
        assert await value(page, "revenue") == "$19.98"
        await page.locator("#card-churn summary").click()
        await expect(page.locator("#card-churn")).to_contain_text(
            "divided by the subscriptions that were active at the start"
        )
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert await serious_findings(page) == []


async def test_with_sandbox_purchases_only_the_page_opens_on_the_sandbox_and_says_so(
    site: Site, viewer: Visitor
) -> None:
    await site.act("purchase", "ada", "pro_monthly")
    await site.act("purchase", "curious", "pro_monthly", trial=True)
    page = await viewer.open()
    assert await page.get_by_label("Environment").input_value() == "sandbox"
    assert (await value(page, "actives"), await value(page, "customers_new")) == ("1", "2")
    # All trials run: how many will be paid for is not known.
    assert await value(page, "trial_conversion_rate") == "–"
    await expect(page.get_by_role("status")).to_contain_text("Nothing has been bought in production yet")
    assert await serious_findings(page) == []
    await page.get_by_role("link", name="Show production").click()
    assert await page.get_by_label("Environment").input_value() == "production"
    await expect(page.get_by_role("status")).to_have_count(0)
    assert (await value(page, "actives"), await value(page, "customers_new")) == ("0", "0")
    # From the first purchase in production on, the page opens on production.
    await sell(site)
    page = await viewer.open()
    assert await page.get_by_label("Environment").input_value() == "production"
    await expect(page.get_by_role("status")).to_have_count(0)


async def test_the_numbers_come_as_a_table_too(site: Site, viewer: Visitor) -> None:
    await sell(site)
    page = await viewer.open("?days=7")
    async with page.expect_download() as coming:
        await page.get_by_role("link", name="The numbers as a table").click()
    download = await coming.value
    assert download.suggested_filename == "latchkey-production-7-days.csv"
    lines = (await download.path()).read_text().splitlines()
    assert lines[0].startswith("date,mrr_USD,arr_USD,actives,trials,revenue_USD,customers_new")
    assert len(lines) == 8
    assert lines[-1].startswith("2027-01-15,16.655833,")


async def test_a_choice_nobody_offered_falls_back_to_the_usual_one(viewer: Visitor) -> None:
    page = await viewer.open("?days=9999&environment=moon")
    assert await page.get_by_label("Period").input_value() == "28"
    assert await page.get_by_label("Environment").input_value() == "production"


async def test_everything_can_be_read_without_a_script(site: Site, browser: Browser) -> None:
    async with visiting(browser, site, java_script_enabled=False) as visitor:
        page = await visitor.open("?days=90")
        assert await page.locator(".card").count() == 10
        await page.get_by_label("Period").select_option("7")
        await page.get_by_role("button", name="Show").click()
        assert "days=7" in page.url
