"""The page about money: programs and percentages are added and removed; missing rates are visible."""

from latchkey.domain.instants import DAY
from latchkey.engine.storage.catalog import rates as missing
from latchkey.subjects.accounts.rules import Role
from latchkey.subjects.money.usecases import take
from tests.dashboard.asking import somebody
from tests.dashboard.site import Site
from tests.dashboard.tab import tab


async def test_programs_and_percentages_are_added_and_removed(site: Site) -> None:
    page = await tab(site, Role.DEVELOPER, "/money")
    await page.press("Add program", {"In its small business program from": "2026-01-01"})
    assert "Saved." in page.notice
    await page.press("Add percentages", {"From": "2026-02-01", "Country": "de", "Tax in %": "19"})
    assert "Saved." in page.notice
    money = (await site.client.get(f"/v2/projects/{site.project_id}/money")).json()
    assert money["programs"] == [
        {"store": "app_store", "program": "small_business", "from": "2026-01-01", "until": None}
    ]
    assert money["percentages"] == [
        {"from": "2026-02-01", "store": None, "country": "DE", "commission_rate": None, "tax_rate": 0.19}
    ]
    await page.press("Remove the program from 2026-01-01")
    await page.press("Remove the percentages from 2026-02-01")
    assert "Removed." in page.notice
    after = (await site.client.get(f"/v2/projects/{site.project_id}/money")).json()
    assert (after["programs"], after["percentages"]) == ([], [])


async def test_rates_and_missing_ones_are_shown_here_and_on_the_overview(site: Site) -> None:
    now = site.clock.now
    await take(site.database, "date,currency,usd\n2026-01-05,NOK,0.0991\n", "rates.csv", now)
    async with site.database.acquire() as connection:
        await missing.note(connection, [(site.project_id, "SEK", now // DAY)])
    page = await tab(site, Role.VIEWER, "/money")
    assert page.row("NOK")
    assert "Amounts in USD of the last 30 days are estimates" in page.text()
    assert page.is_only_read
    await page.open()
    assert "Amounts of payments in SEK are estimates" in page.text()
    await site.database.pool.execute("delete from missing_rates where project_id = $1", site.project_id)


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
