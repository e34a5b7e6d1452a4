"""Customers as pages: the search, the profile, and that hostile text in it does no harm."""

from __future__ import annotations

import asyncio
import re
from urllib.parse import quote

import pytest
from playwright.async_api import Page, expect

from latchkey.domain.instants import DAY
from latchkey.domain.team.account import Role
from latchkey.usecases.customers.erasure import erase
from latchkey.usecases.customers.identities import log_in
from tests.api.client import NOW
from tests.api.doings import did, told
from tests.api.management import post
from tests.dashboard.asking import somebody
from tests.dashboard.customer_stories import HOSTILE, grant, last_audit, with_a_life, with_many_events
from tests.dashboard.site import Site, Visitor
from tests.dashboard.tab import Tab, tab, words

ANONYMOUS = "$RCAnonymousID:" + "0123456789abcdef" * 2


async def look_for(page: Tab, text: str) -> Tab:
    return await page.open(f"/customers?q={quote(text, safe='')}")


def section(page: Tab, name: str) -> str:
    [heading] = [one for one in page.soup.select("section h2") if words(one) == name]
    found = heading.find_parent("section")
    assert found is not None
    return words(found)


async def fits(page: Page) -> bool:
    return bool(await page.evaluate("document.documentElement.scrollWidth <= innerWidth"))


async def test_the_first_page_says_how_to_get_a_customer_and_then_lists_the_newest_first(site: Site) -> None:
    page = await tab(site, Role.VIEWER, "/customers")
    assert page.text(".empty h2") == "No customers yet"
    assert "$LATCHKEY_KEY" in page.text(".snippet code")
    assert f"/v2/projects/{site.project_id}/test_store/actions" in page.text(".snippet code")
    await asyncio.gather(*(site.note(f"crowd_{number:02}", city="Paris") for number in range(60)))
    await site.act("purchase", "newest", "pro_monthly")
    await page.open("/customers")
    assert "newest" in page.rows[0]
    assert page.texts("tbody tr:first-child .badge") == ["Active", "pro"]
    assert len(page.rows) == 50
    await page.follow("Older")
    assert len(page.rows) == 11
    assert not page.soup.select("a[rel=next]")


async def test_a_customer_is_found_by_id_alias_email_and_transaction(site: Site) -> None:
    await did(site, "purchase", "finn", "pro_yearly")
    transaction = (await told(site, "finn"))[0]["transaction_id"]
    await site.note("finn", __email="Finn@Example.com")
    await site.note("finnegan", __email="finnegan@example.com")
    await site.note(ANONYMOUS, city="Oslo")
    await log_in(site.changes, site.project_id, ANONYMOUS, "finn")
    page = await tab(site, Role.SUPPORT)
    for text in (ANONYMOUS, "FINN@example.com", transaction, "finn"):
        assert (await look_for(page, text)).heading == "finn"
    await page.follow("all that begin like it")
    assert len(page.rows) == 2
    await look_for(page, "FIN")
    assert len(page.rows) == 2
    assert "2 customers are found by" in page.text()
    await page.follow("finnegan")
    assert page.heading == "finnegan"
    await look_for(page, "nobody at all")
    assert "No customer found" in page.text()


async def test_the_transaction_of_somebody_erased_names_nobody(site: Site) -> None:
    await did(site, "purchase", "gone", "pro_yearly")
    transaction = (await told(site, "gone"))[0]["transaction_id"]
    await erase(site.changes, site.project_id, "gone")
    page = await tab(site, Role.VIEWER)
    assert "made by a customer who was deleted" in (await look_for(page, transaction)).text()
    for id in ("gone", "$deleted:1234"):
        assert (await page.open(f"/customers/{id}")).heading == "Nothing here"


@pytest.fixture(scope="module")
async def ada(site: Site) -> str:
    """Somebody with everything on their page."""
    await site.hook("/", name="Billing <b>")
    await site.hook("/status/500", name="Broken")
    await with_a_life(site, "ada")
    await site.note("ada", __email="ada@example.com", city="Paris", essay="word " * 99)
    await grant(site, "ada", "team", NOW + 300 * DAY)
    made = await post(
        site, "experiments", {"name": "Paywall", "variants": [{"id": "a", "weight": 1}, {"id": "b", "weight": 1}]}
    )
    assert made.status == 201, made
    enrolled = await post(site, f"experiments/{made.json()['id']}/enroll", {"app_user_id": "ada"})
    assert enrolled.status == 200, enrolled
    return "ada"


async def test_a_profile_says_what_they_may_do_and_why(site: Site, ada: str) -> None:
    page = await tab(site, Role.VIEWER, f"/customers/{ada}")
    assert "whose time is 2027-07-19 08:00 UTC" in page.text()
    lost, why = sorted(text for text in page.texts(".why") if "pro" in text or "team" in text)
    assert "ada has team until 2027-11-11 08:00 UTC because it was granted" in why
    assert "What would change it: Revoking the grant would end it at once." in why
    assert "the subscription to pro_monthly is paused" in lost
    assert "Resuming the subscription would bring it back." in lost
    assert "Paywall" in section(page, "Who this is")
    assert "2027-01-15 08:00 UTC" in section(page, "Who this is")
    assert "ada@example.com" in section(page, "Attributes")
    assert "+100 COIN" in section(page, "Virtual currency")


async def test_the_picture_of_a_life_is_one_axis_and_a_table_that_says_the_same(
    site: Site, ada: str, viewer: Visitor
) -> None:
    page = await viewer.open(f"/customers/{ada}")
    drawing = page.get_by_role("img", name="subscriptions or grants between")
    await expect(drawing).to_be_visible()
    kinds = await drawing.locator("rect.bar").evaluate_all("bars => [...new Set(bars.map(bar => bar.classList[1]))]")
    assert set(kinds) == {"trial", "paid", "grace", "pause", "refunded", "granted"}
    now = await drawing.locator(".now line").evaluate_all("lines => lines.map(line => line.getAttribute('x1'))")
    assert len(now) == await drawing.locator(".title").count()
    assert len(set(now)) == 1
    assert "Trial: pro_monthly, 2027-01-15 08:00 UTC to 2027-01-22 08:00 UTC" in await drawing.inner_html()
    await page.get_by_text("As a table").click()
    rows = (
        await page.get_by_role("region", name="Subscriptions and grants as a table")
        .locator("tbody tr")
        .all_inner_texts()
    )
    for kind in ("Trial", "Paid", "Grace period", "Paused", "Refunded", "Granted", "Renewal turned off"):
        assert any(kind in row for row in rows), kind


async def test_what_happened_comes_with_its_payload_and_its_deliveries(site: Site, ada: str) -> None:
    page = await tab(site, Role.VIEWER, f"/customers/{ada}")
    first = ".timeline > li:first-child"
    assert '"app_user_id": "ada"' in page.text(f"{first} pre")
    assert "Broken" in page.texts(f"{first} a")
    await page.follow("Billing <b>", first)
    assert re.search("/webhooks/[^/]+/deliveries/", page.path)
    await page.open(f"/customers/{ada}")
    await page.follow("Everything that happened")
    assert page.heading == "Events of ada"
    assert all(page.texts(".timeline > li .badge"))
    assert len(page.texts(".timeline > li")) > 15


async def test_movements_of_currency_go_on_page_after_page(site: Site) -> None:
    await site.note("rich", city="Rome")
    for number in range(53):
        path = "customers/rich/virtual_currencies/transactions"
        reply = await post(site, path, {"adjustments": {"COIN": number + 1}})
        assert reply.status == 200, reply
    page = await tab(site, Role.VIEWER, "/customers/rich")
    await page.follow("Every movement")
    rows = page.rows
    assert len(rows) == 50
    await page.follow("Older")
    rows += page.rows
    assert sorted(int(re.findall(r"\+(\d+) COIN", row)[0]) for row in rows) == list(range(1, 54))


async def test_thousands_of_events_are_read_a_page_at_a_time_and_none_twice(site: Site) -> None:
    await with_many_events(site, "busy", 3000)
    page = await tab(site, Role.VIEWER, "/customers/busy/events")
    seen: list[str] = []
    while len(seen) < 200:
        rows = page.soup.select(".timeline > li")
        assert len(rows) == 25
        seen += [str(row.select('a[href*="/events/"]')[0]["href"]).rpartition("/")[2] for row in rows]
        await page.follow("Older")
    assert "Back to the newest" in page.texts("a")
    assert seen == [f"many-{number}" for number in range(3000, 2800, -1)]
    await page.open("/customers/busy/events?before=many-3")
    # Two of the many, and the two of the purchase itself.
    assert len(page.texts(".timeline > li")) == 4
    assert (await page.open("/customers/busy/events?before=unheard-of")).status == 404


async def test_ids_and_attributes_from_outside_are_shown_as_they_are(site: Site) -> None:
    for id in HOSTILE:
        await site.act("purchase", id, "pro_monthly")
        await site.note(id, note=id, essay=(id * 500)[:500])
    page = await tab(site, Role.OWNER, "/customers")
    links = [str(one["href"]) for one in page.soup.select("tbody tr td:first-child a")]
    for link, id in zip(links, reversed(HOSTILE), strict=False):
        await page.open(link)
        [heading] = page.soup.select("h1 bdi")
        assert heading.text == id
        assert "has pro until" in section(page, "Entitlements")
        assert " ".join(id.split())[:60] in section(page, "Attributes")
        assert not page.soup.select("main img, main script")
        hidden = id.startswith((" ", "\u202e"))
        assert ("the id has invisible characters" in page.text()) is hidden


@pytest.mark.parametrize("id", HOSTILE)
async def test_whatever_an_id_is_made_of_its_pages_are_found_and_its_forms_arrive(site: Site, id: str) -> None:
    await site.act("purchase", id, "team_monthly")
    reader = await somebody(site, Role.SUPPORT)
    found = await reader.get(f"{site.path('/customers').removeprefix(site.url)}?q={quote(id, safe='')}")
    assert found.status == 303
    profile = found.headers["location"].partition("?")[0]
    assert not profile.endswith(("/.", "/.."))
    for below in ("", "/events", "/movements"):
        assert (await reader.get(profile + below)).status == 200
    sent = await reader.post(f"{profile}/grant", {"confirm": "yes", "entitlement_id": "team", "duration": "daily"})
    assert (sent.status, sent.headers["location"]) == (303, profile)
    assert (await last_audit(site))[:3] == ("customer.granted", id, "done")


async def test_an_id_that_cannot_be_is_nobody(site: Site) -> None:
    reader = await somebody(site, Role.VIEWER)
    start = site.path("/customers").removeprefix(site.url)
    for piece in ("x" * 5000, "%1F%1F", "%E2%80%AE", "%2E%2E%2E", "a%0Ab"):
        for below in ("", "/events", "/movements"):
            reply = await reader.get(f"{start}/{piece}{below}")
            assert reply.status == 404, (piece, below, reply)
    for query in ("before=x", "before=-1", f"before={10**30}", "q=%00"):
        assert (await reader.get(f"{start}?{query}")).status == 400, query
    assert (await reader.get(f"{start}?q={'x' * 3000}")).status == 200
