"""Customers in a browser: the search, the profile, and that hostile text in it does no harm."""

from __future__ import annotations

import asyncio
import re
from urllib.parse import quote

import pytest
from playwright.async_api import Browser, Locator, Page, expect

from latchkey.domain.instants import DAY
from latchkey.domain.team.account import Role
from latchkey.usecases.customers.erasure import erase
from latchkey.usecases.customers.identities import log_in
from tests.api.client import NOW
from tests.api.doings import did, told
from tests.api.management import post
from tests.dashboard.asking import somebody
from tests.dashboard.customer_stories import HOSTILE, grant, last_audit, with_a_life, with_many_events
from tests.dashboard.site import Site, Visitor, serious_findings, visiting

ANONYMOUS = "$RCAnonymousID:" + "0123456789abcdef" * 2


async def look_for(page: Page, text: str) -> None:
    start = page.url.partition("/customers")[0]
    await page.goto(f"{start}/customers?q={quote(text, safe='')}")


def section(page: Page, name: str) -> Locator:
    return page.locator("section", has=page.get_by_role("heading", name=name, exact=True, level=2))


async def fits(page: Page) -> bool:
    return bool(await page.evaluate("document.documentElement.scrollWidth <= innerWidth"))


async def test_the_first_page_says_how_to_get_a_customer_and_then_lists_the_newest_first(
    site: Site, viewer: Visitor
) -> None:
    page = await viewer.open("/customers")
    await expect(page.get_by_role("heading", name="No customers yet")).to_be_visible()
    await expect(page.locator(".snippet code")).to_contain_text("$LATCHKEY_KEY")
    await expect(page.locator(".snippet code")).to_contain_text(f"/v2/projects/{site.project_id}/test_store/actions")
    assert await serious_findings(page) == []
    await asyncio.gather(*(site.note(f"crowd_{number:02}", city="Paris") for number in range(60)))
    await site.act("purchase", "newest", "pro_monthly")
    await page.reload()
    await expect(page.locator("tbody tr").first).to_contain_text("newest")
    await expect(page.locator("tbody tr").first.locator(".badge")).to_have_text(["Active", "pro"])
    await expect(page.locator("tbody tr")).to_have_count(50)
    assert await serious_findings(page) == []
    await page.get_by_role("link", name="Older").click()
    await expect(page.locator("tbody tr")).to_have_count(11)
    await expect(page.get_by_role("link", name="Older")).to_have_count(0)


async def test_a_customer_is_found_by_id_alias_email_and_transaction(site: Site, support: Visitor) -> None:
    await did(site, "purchase", "finn", "pro_yearly")
    transaction = (await told(site, "finn"))[0]["transaction_id"]
    await site.note("finn", __email="Finn@Example.com")
    await site.note("finnegan", __email="finnegan@example.com")
    await site.note(ANONYMOUS, city="Oslo")
    await log_in(site.changes, site.project_id, ANONYMOUS, "finn")
    page = await support.open("/customers")
    for text in ("finn", ANONYMOUS, "FINN@example.com", transaction):
        await look_for(page, text)
        await expect(page.get_by_role("heading", name="finn", exact=True)).to_be_visible()
        await page.goto(site.path("/customers"))
    await look_for(page, "finn")
    await page.get_by_role("link", name="all that begin like it").click()
    await expect(page.locator("tbody tr")).to_have_count(2)
    await look_for(page, "FIN")
    await expect(page.locator("tbody tr")).to_have_count(2)
    await expect(page.get_by_text("2 customers are found by")).to_be_visible()
    assert await serious_findings(page) == []
    await page.get_by_role("link", name="finnegan", exact=True).click()
    await expect(page.get_by_role("heading", name="finnegan", exact=True)).to_be_visible()
    await page.keyboard.press("/")
    await page.keyboard.type("nobody at all")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="Nothing found")).to_be_visible()
    assert await serious_findings(page) == []


async def test_the_transaction_of_somebody_erased_names_nobody(site: Site, viewer: Visitor) -> None:
    await did(site, "purchase", "gone", "pro_yearly")
    transaction = (await told(site, "gone"))[0]["transaction_id"]
    await erase(site.changes, site.project_id, "gone")
    page = await viewer.open("/customers")
    await look_for(page, transaction)
    await expect(page.get_by_text("made by a customer who was deleted")).to_be_visible()
    for id in ("gone", "$deleted:1234"):
        await page.goto(site.path(f"/customers/{id}"))
        await expect(page.get_by_role("heading", name="Nothing here")).to_be_visible()
    viewer.complaints.clear()  # the browser's console error for each 404


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


async def test_a_profile_says_what_they_may_do_and_why(site: Site, ada: str, viewer: Visitor) -> None:
    page = await viewer.open(f"/customers/{ada}")
    await expect(page.get_by_text("whose time is 2027-07-19 08:00 UTC")).to_be_visible()
    may = section(page, "Entitlements")
    why = may.locator(".why", has=page.get_by_role("heading", name="team"))
    await expect(why).to_contain_text("ada has team until 2027-11-11 08:00 UTC because it was granted")
    await expect(why).to_contain_text("What would change it: Revoking the grant would end it at once.")
    lost = may.locator(".why", has=page.get_by_role("heading", name="pro"))
    await expect(lost).to_contain_text("the subscription to pro_monthly is paused")
    await expect(lost).to_contain_text("Resuming the subscription would bring it back.")
    who = section(page, "Who this is")
    await expect(who).to_contain_text("Paywall")
    await expect(who).to_contain_text("2027-01-15 08:00 UTC")
    attributes = section(page, "Attributes")
    await expect(attributes).to_contain_text("ada@example.com")
    await expect(section(page, "Virtual currency")).to_contain_text("+100 COIN")
    await expect(section(page, "Subscriptions").locator("article")).to_have_count(3)
    await expect(section(page, "Other purchases and grants").locator("article")).to_have_count(2)


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
    for words in ("Trial", "Paid", "Grace period", "Paused", "Refunded", "Granted", "Renewal turned off"):
        assert any(words in row for row in rows), words


async def test_what_happened_comes_with_its_payload_and_its_deliveries(site: Site, ada: str, viewer: Visitor) -> None:
    page = await viewer.open(f"/customers/{ada}")
    first = section(page, "What happened").locator("ol > li").first
    await first.get_by_text("Payload").click()
    await expect(first.locator("pre")).to_contain_text('"app_user_id": "ada"')
    await expect(first.get_by_role("link", name="Broken")).to_be_visible()
    await first.get_by_role("link", name="Billing <b>").click()
    await expect(page).to_have_url(re.compile("/webhooks/[^/]+/deliveries/"))
    await page.go_back()
    await page.get_by_role("link", name="Everything that happened").click()
    await expect(page.get_by_role("heading", name="Events of ada")).to_be_visible()
    types = await page.locator(".timeline > li .badge").first.inner_text()
    assert types
    assert await page.locator(".timeline > li").count() > 15
    assert await serious_findings(page) == []


async def unfold_all(page: Page) -> None:
    """Open every fold, but only the first of the payloads."""
    await page.evaluate(
        "() => { for (const fold of document.querySelectorAll('main details:not(.json)')) fold.open = true;"
        " document.querySelector('details.json')?.setAttribute('open', ''); }"
    )


async def test_the_pages_are_accessible_in_the_dark_and_fit_a_phone(site: Site, ada: str, browser: Browser) -> None:
    options = {"color_scheme": "dark", "viewport": {"width": 390, "height": 844}}
    async with visiting(browser, site, Role.OWNER, **options) as visitor:
        for path in ("/customers", f"/customers/{ada}", f"/customers/{ada}/events", f"/customers/{ada}/movements"):
            page = await visitor.open(path)
            await unfold_all(page)
            assert await fits(page), path
            if not path.endswith("/events"):
                assert await serious_findings(page) == [], path


async def test_a_profile_with_everything_open_is_accessible(site: Site, ada: str, owner: Visitor) -> None:
    page = await owner.open(f"/customers/{ada}")
    await unfold_all(page)
    assert await serious_findings(page) == []


async def test_movements_of_currency_go_on_page_after_page(site: Site, viewer: Visitor) -> None:
    await site.note("rich", city="Rome")
    for number in range(53):
        path = "customers/rich/virtual_currencies/transactions"
        reply = await post(site, path, {"adjustments": {"COIN": number + 1}})
        assert reply.status == 200, reply
    page = await viewer.open("/customers/rich")
    await page.get_by_role("link", name="Every movement").click()
    await expect(page.locator("tbody tr")).to_have_count(50)
    rows = await page.locator("tbody tr").all_inner_texts()
    await page.get_by_role("link", name="Older").click()
    await expect(page.locator("tbody tr")).to_have_count(3)
    rows += await page.locator("tbody tr").all_inner_texts()
    assert sorted(int(re.findall(r"\+(\d+) COIN", row)[0]) for row in rows) == list(range(1, 54))


async def test_thousands_of_events_are_read_a_page_at_a_time_and_none_twice(site: Site, viewer: Visitor) -> None:
    await with_many_events(site, "busy", 3000)
    page = await viewer.open("/customers/busy/events")
    await expect(page.locator(".timeline > li")).to_have_count(25)
    await page.get_by_role("link", name="Older").click()
    await expect(page.get_by_role("link", name="Back to the newest")).to_be_visible()
    reader = await somebody(site, Role.VIEWER)
    path = site.path("/customers/busy/events").removeprefix(site.url)
    seen: list[str] = []
    next_page: str | None = path
    while next_page is not None and len(seen) < 200:
        body = (await reader.get(next_page)).body.decode()
        seen += [part.split('"')[0] for part in body.split("/events/")[1:]]
        next_page = f"{path}?before={seen[-1]}" if 'rel="next"' in body else None
    assert seen == [f"many-{number}" for number in range(3000, 2800, -1)]
    tail = (await reader.get(f"{path}?before=many-3")).body.decode()
    assert tail.count('class="row"') == 4  # two of the many, and the two of the purchase itself
    assert (await reader.get(f"{path}?before=unheard-of")).status == 404


async def test_ids_and_attributes_from_outside_are_shown_as_they_are_and_do_nothing(site: Site, owner: Visitor) -> None:
    for id in HOSTILE:
        await site.act("purchase", id, "pro_monthly")
        await site.note(id, note=id, essay=(id * 500)[:500])
    page = await owner.open("/customers")
    page.on("dialog", lambda dialog: owner.complaints.append(f"a script ran: {dialog.message}"))
    await page.set_viewport_size({"width": 390, "height": 844})
    assert await fits(page)
    for place, id in enumerate(reversed(HOSTILE)):
        await page.goto(site.path("/customers"))
        await page.locator("tbody tr").nth(place).get_by_role("link").click()
        assert (await page.locator("h1").text_content()) == id
        await expect(section(page, "Entitlements")).to_contain_text("has pro until")
        await expect(section(page, "Attributes")).to_contain_text(id.strip()[:60])
        assert await page.locator("h1 bdi").count() == 1
        assert await page.locator("main img, main script").count() == 0
        hidden = id.startswith((" ", "\u202e"))
        await expect(page.get_by_text("the id has invisible characters")).to_have_count(1 if hidden else 0)
        assert await fits(page), id


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
