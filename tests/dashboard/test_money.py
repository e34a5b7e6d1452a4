"""The page about money: programs and percentages are added and removed; missing rates are visible."""

from __future__ import annotations

from playwright.async_api import expect

from latchkey.domain.instants import DAY
from latchkey.domain.team.account import Role
from latchkey.storage.money import missing
from latchkey.usecases.money.rates import take
from tests.dashboard.asking import somebody
from tests.dashboard.site import Site, Visitor, serious_findings


async def test_programs_and_percentages_are_added_and_removed(site: Site, developer: Visitor) -> None:
    page = await developer.open("/money")
    assert await serious_findings(page) == []
    await page.get_by_label("In its small business program from").fill("2026-01-01")
    await page.get_by_role("button", name="Add program").click()
    await expect(page.get_by_text("Saved.")).to_be_visible()
    await page.get_by_label("From", exact=True).fill("2026-02-01")
    await page.get_by_label("Country").fill("de")
    await page.get_by_label("Tax in %").fill("19")
    await page.get_by_role("button", name="Add percentages").click()
    await expect(page.get_by_text("Saved.")).to_be_visible()
    assert await serious_findings(page) == []
    money = (await site.client.get(f"/v2/projects/{site.project_id}/money")).json()
    assert money["programs"] == [
        {"store": "app_store", "program": "small_business", "from": "2026-01-01", "until": None}
    ]
    assert money["percentages"] == [
        {"from": "2026-02-01", "store": None, "country": "DE", "commission_rate": None, "tax_rate": 0.19}
    ]
    await page.get_by_role("button", name="Remove the program from 2026-01-01").click()
    await expect(page.get_by_text("Removed.")).to_be_visible()
    await page.get_by_role("button", name="Remove the percentages from 2026-02-01").click()
    await expect(page.get_by_text("Removed.")).to_be_visible()
    after = (await site.client.get(f"/v2/projects/{site.project_id}/money")).json()
    assert (after["programs"], after["percentages"]) == ([], [])


async def test_rates_and_missing_ones_are_shown_here_and_on_the_overview(site: Site, viewer: Visitor) -> None:
    now = site.clock.now
    await take(site.database, "date,currency,usd\n2026-01-05,NOK,0.0991\n", "rates.csv", now)
    async with site.database.acquire() as connection:
        await missing.note(connection, [(site.project_id, "SEK", now // DAY)], now)
    page = await viewer.open("/money")
    await expect(page.get_by_role("cell", name="NOK")).to_be_visible()
    await expect(page.get_by_text("Amounts in USD of the last 30 days are estimates")).to_be_visible()
    await expect(page.get_by_role("button", name="Add program")).to_have_count(0)
    page = await viewer.open("")
    await expect(page.get_by_text("Amounts of payments in SEK are estimates")).to_be_visible()
    async with site.database.acquire() as connection:
        await connection.execute("delete from missing_rates where project_id = $1", site.project_id)


async def test_what_makes_no_sense_is_refused(site: Site) -> None:
    me = await somebody(site, Role.DEVELOPER)
    for path, form in (
        ("/money/programs", {"program_store": "stripe", "program_from": "2026-01-01"}),
        ("/money/programs", {"program_store": "app_store", "program_from": "yesterday"}),
        (
            "/money/programs",
            {"program_store": "app_store", "program_from": "2026-01-02", "program_until": "2026-01-01"},
        ),
        ("/money/percentages", {"from": "2026-01-01"}),
        ("/money/percentages", {"from": "2026-01-01", "tax": "much"}),
        ("/money/percentages", {"from": "2026-01-01", "tax": "101"}),
        ("/money/percentages", {"from": "2026-01-01", "tax": "19", "country": "ZZ"}),
    ):
        below = site.path(path).removeprefix(site.url)
        answer = await me.post(below, form)
        assert answer.status == 400, (form, answer.status)
    money = (await site.client.get(f"/v2/projects/{site.project_id}/money")).json()
    assert (money["programs"], money["percentages"]) == ([], [])
