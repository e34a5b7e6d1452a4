"""The figures on the overview page, compared with the API."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import expect

from latchkey.database.pool import Database
from latchkey.engine.clock import pass_time
from latchkey.engine.storage.catalog.catalogs import Catalogs
from latchkey.subjects.accounts.rules import Role
from tests.dashboard.site import Site, Visitor, opened
from tests.dashboard.tab import Tab, tab
from tests.http.client import DAY


@pytest.fixture
async def site(database: Database, tmp_path: Path) -> AsyncIterator[Site]:
    """A site for each test: every sale moves the numbers."""
    async with opened(database, tmp_path, deliver=False) as site:
        yield site


async def sell(site: Site) -> None:
    await site.act("purchase", "monthly", "pro_monthly", environment="PRODUCTION")
    await site.act("purchase", "yearly", "pro_yearly", environment="PRODUCTION")
    await site.act("purchase", "trying", "pro_monthly", environment="PRODUCTION", trial=True)


def value(page: Tab, figure: str) -> str:
    return page.text(f"#card-{figure} .value")


async def test_before_anything_was_sold_the_page_says_what_to_do_first(site: Site) -> None:
    page = await tab(site, Role.VIEWER)
    assert "No purchases yet" in page.texts("h2")
    assert "/v2/projects/proj_demo/test_store/actions" in page.text(".snippet code")
    assert site.secret not in page.html


async def test_the_cards_agree_with_what_was_sold_and_with_the_api(site: Site, viewer: Visitor) -> None:
    await sell(site)
    await site.act("purchase", "playing", "team_monthly")
    await site.act("purchase", "rich", "coins_100", environment="PRODUCTION")
    page = await tab(site, Role.VIEWER)
    figures = [value(page, name) for name in ("actives", "trials", "mrr", "customers_new")]
    assert figures == ["2", "1", "$16.66", "4"]
    replies = [(await site.v2(who)).json() for who in ("monthly", "yearly", "trying", "rich")]
    assert len([one for one in replies if one["active_entitlements"]["items"]]) == 3
    metrics = (await site.client.get(f"/v2/projects/{site.project_id}/metrics/overview")).json()["metrics"]
    told = {one["id"]: one["value"] for one in metrics}
    assert (told["active_subscriptions"], told["active_trials"], told["mrr"]) == (2, 1, 16.655833)
    assert told["new_customers"] == 4

    # Over a year, churn is told by the week: at the start of it there may have been nobody. A choice counts at once.
    shown = await viewer.open()
    await expect(shown.locator("#card-churn")).to_contain_text("28 days")
    await shown.get_by_label("Period").select_option("365")
    await expect(shown.locator("#card-churn .change")).to_contain_text("a week on average")
    await shown.get_by_label("Environment").select_option("sandbox")
    await expect(shown).to_have_url(re.compile("environment=sandbox"))
    await expect(shown.locator("#card-actives .value")).to_have_text("1")
    await expect(shown.locator("#card-mrr .value")).to_have_text("$29.99")


async def test_a_refund_and_a_trial_that_was_paid_for_move_the_cards(site: Site) -> None:
    await sell(site)
    site.clock.now += 8 * DAY
    await site.act("refund", "yearly", "pro_yearly")
    while await pass_time(site.database, Catalogs(), site.clock.now):
        pass
    page = await tab(site)
    assert (value(page, "actives"), value(page, "trials")) == ("2", "0")
    assert (value(page, "mrr"), value(page, "revenue")) == ("$19.98", "$19.98")
    # One of two was refunded: half of nothing at the start of the 28 days is not known.
    assert value(page, "churn") == "–"
    assert "divided by the subscriptions that were active at the start" in page.text("#card-churn")


async def test_with_sandbox_purchases_only_the_page_opens_on_the_sandbox_and_says_so(site: Site) -> None:
    await site.act("purchase", "ada", "pro_monthly")
    await site.act("purchase", "curious", "pro_monthly", trial=True)
    page = await tab(site, Role.VIEWER)
    assert page.value("Environment") == "sandbox"
    assert (value(page, "actives"), value(page, "customers_new")) == ("1", "2")
    # All trials run: how many will be paid for is not known.
    assert value(page, "trial_conversion_rate") == "–"
    assert "Nothing has been bought in production yet" in page.notice
    await page.follow("Show production")
    assert (page.value("Environment"), page.notice) == ("production", "")
    assert (value(page, "actives"), value(page, "customers_new")) == ("0", "0")
    # From the first purchase in production on, the page opens on production.
    await sell(site)
    await page.open()
    assert (page.value("Environment"), page.notice) == ("production", "")


async def test_the_numbers_come_as_a_table_too(site: Site) -> None:
    await sell(site)
    page = await tab(site, Role.VIEWER, "?days=7")
    await page.follow("The numbers as a table")
    assert 'filename="latchkey-production-7-days.csv"' in page.headers["content-disposition"]
    lines = page.html.splitlines()
    assert lines[0].startswith("date,mrr_USD,arr_USD,actives,trials,revenue_USD,customers_new")
    assert len(lines) == 8
    assert lines[-1].startswith("2027-01-15,16.655833,")


async def test_a_choice_nobody_offered_falls_back_to_the_usual_one(site: Site) -> None:
    page = await tab(site, Role.VIEWER, "?days=9999&environment=moon")
    assert (page.value("Period"), page.value("Environment")) == ("28", "production")


async def test_everything_can_be_read_without_a_script(site: Site) -> None:
    page = await tab(site, Role.OWNER, "?days=90")
    assert len(page.texts(".card")) == 10
    await page.press("Show", {"Period": "7"})
    assert "days=7" in page.path
