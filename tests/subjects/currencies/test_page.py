"""Virtual currencies: made, changed, given, taken, and deleted only while nobody ever had any."""

from latchkey.subjects.accounts.rules import Role
from latchkey.subjects.currencies import usecases as currencies
from tests.dashboard.site import Site
from tests.dashboard.tab import tab
from tests.http.management import get

HOSTILE = "<b onmouseover=alert(1)>Gems</b>\u202egnp.exe"


async def balance(site: Site, who: str, code: str) -> int:
    items = (await get(site, f"customers/{who}/virtual_currencies")).json()["items"]
    found: int = next(one["balance"] for one in items if one["currency_code"] == code)
    return found


async def test_a_currency_is_made_given_taken_renamed_and_stays_because_somebody_had_it(site: Site) -> None:
    await site.note("cora", colour="red")
    page = await tab(site, Role.OWNER, "/new-currency")
    await page.press("Create currency", {"Code": "not a code", "Name": HOSTILE})
    assert "An id has 1 to 200 characters" in page.alert
    await page.press("Create currency", {"Code": "GEM"})
    assert page.heading == HOSTILE

    # Sent twice, it is done once: the form has an idempotency key.
    form = page.soup
    for _ in range(2):
        page.soup = form
        await page.press("Change balance", {"Customer": "cora", "Amount": "1500"})
        assert "now has 1,500 GEM" in page.notice
    assert await balance(site, "cora", "GEM") == 1500

    await page.press("Change balance", {"Customer": "cora", "Action": "debit", "Amount": "2000"})
    assert "The balance of GEM is 1500; 2000 cannot be taken" in page.alert
    await page.press("Change balance", {"Amount": "500"})
    assert "now has 1,000 GEM" in page.notice
    assert await balance(site, "cora", "GEM") == 1000
    await page.press("Change balance", {"Customer": "nobody at all", "Amount": "1"})
    assert "There is no customer" in page.alert

    await page.press("Save", {"Name": "Gems", "Description": "Shiny"})
    assert page.heading == "Gems"
    assert (await get(site, "virtual_currencies/GEM")).json()["description"] == "Shiny"
    await page.press("Delete currency", sure=True)
    assert "it cannot be deleted" in page.alert


async def test_a_currency_that_nobody_had_can_go(site: Site) -> None:
    await currencies.create_currency(site.database, site.project_id, "TMP", "Temporary", now=site.clock.now)
    page = await tab(site, Role.DEVELOPER, "/currencies/TMP")
    await page.press("Delete currency", sure=True)
    assert "TMP was deleted" in page.notice
    assert (await get(site, "virtual_currencies/TMP")).status == 404
