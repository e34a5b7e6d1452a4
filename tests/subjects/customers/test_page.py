"""Customers as pages: the search, the profile, hostile text in it, and actions: who may do them, that they must be
confirmed, and their audit entries."""

import asyncio
import re
from urllib.parse import quote

import pytest
from playwright.async_api import Page, expect

from latchkey.subjects.accounts.rules import Role
from latchkey.subjects.customers.usecases.edits import erase
from latchkey.subjects.customers.usecases.identities import log_in
from tests.dashboard.asking import somebody
from tests.dashboard.site import Site, Visitor
from tests.dashboard.tab import Tab, tab, words
from tests.http.client import DAY, NOW
from tests.http.doings import did, subscriber, told, types_told
from tests.http.management import post
from tests.subjects.customers.customer_stories import HOSTILE, grant, last_audit, with_a_life, with_many_events

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
    await page.follow("all customers that begin like this")
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
    assert "Paywall" in section(page, "Profile")
    assert "2027-01-15 08:00 UTC" in section(page, "Profile")
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
    await page.follow("All events")
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


async def holds(site: Site, id: str) -> dict[str, str | None]:
    entitlements = (await subscriber(site, id))["entitlements"]
    return {name: one["expires_date"] for name, one in entitlements.items()}


async def test_support_grants_extends_and_revokes_and_cannot_refund(site: Site) -> None:
    await site.act("purchase", "sue", "pro_monthly")
    page = await tab(site, Role.SUPPORT, "/customers/sue")
    assert page.texts("details.action summary") == ["Grant an entitlement…"]
    await page.press("Grant", {"Entitlement": "team", "For how long": "weekly"}, sure=True)
    assert page.notice == "team is granted."
    assert (await holds(site, "sue"))["team"] == "2027-01-22T08:00:01Z"
    assert await last_audit(site) == (
        "customer.granted", "sue", "done", {"entitlement": "team", "until": "weekly"}
    )  # fmt: skip
    until = {"Or until (UTC)": "2027-03-01T12:00"}
    await page.press("Extend", until, within="Extend the grant of team", sure=True)
    assert (await holds(site, "sue"))["team"] == "2027-03-01T12:00:00Z"
    await page.press("Revoke", within="Revoke the grant of team", sure=True)
    assert "Every grant of team is revoked." in page.notice
    assert "team" not in await holds(site, "sue")
    assert (await last_audit(site))[:3] == ("customer.grant_revoked", "sue", "done")
    assert any("team" in words and "was revoked" in words for words in page.texts(".why"))


async def test_a_refund_takes_access_away_at_once(site: Site) -> None:
    await site.act("purchase", "rita", "pro_monthly")
    await site.act("purchase", "rita", "pro_lifetime")
    page = await tab(site, Role.DEVELOPER, "/customers/rita")
    assert "Yes, refund $199.99" in page.text()
    await page.press("Refund $199.99", sure=True)
    assert "Refunded." in page.notice
    await page.press("Refund $9.99", sure=True)
    assert not [words for words in page.texts("details.action") if "Refund" in words]
    assert (await types_told(site, "rita")).count("REFUND") == 2
    assert (await holds(site, "rita"))["pro"] == "2027-01-15T08:00:00Z"
    action, subject, outcome, detail = await last_audit(site)
    assert (action, subject, outcome, detail["store"]) == ("customer.refunded", "rita", "done", "test_store")


async def test_a_subscription_is_extended_by_days_or_until_a_moment(site: Site) -> None:
    await site.act("purchase", "emil", "pro_monthly")
    page = await tab(site, Role.DEVELOPER, "/customers/emil")
    await page.press("Extend", {"Days more": "10"}, sure=True)
    assert page.notice == "Extended. It runs until 2027-02-25 08:00 UTC."
    await page.press("Extend", {"Or until (UTC)": "2027-06-30T18:30"}, sure=True)
    assert (await holds(site, "emil"))["pro"] == "2027-06-30T18:30:00Z"
    # An end that lies before the present one is refused, and the page says why.
    await page.press("Extend", {"Or until (UTC)": "2027-03-01T00:00"}, sure=True)
    assert "already runs until 2027-06-30 18:30:00 UTC" in page.alert
    assert (await last_audit(site))[2] == "refused"
    assert (await holds(site, "emil"))["pro"] == "2027-06-30T18:30:00Z"


async def test_somebody_on_a_test_clock_is_granted_access_in_their_own_time(site: Site) -> None:
    await with_a_life(site, "clocked")
    page = await tab(site, Role.OWNER, "/customers/clocked")
    await page.press("Grant", {"For how long": "daily", "Entitlement": "team"}, sure=True)
    assert page.notice == "team is granted."
    assert (await holds(site, "clocked"))["team"] == "2027-07-20T08:00:01Z"


async def test_a_transfer_gives_everything_to_another_customer(site: Site) -> None:
    await site.act("purchase", "from_me", "pro_monthly")
    await site.note(" to me ", city="Lima")
    page = await tab(site, Role.DEVELOPER, "/customers/from_me")
    await page.press("Transfer", {"To the customer with the id": "somebody who is not there"}, sure=True)
    assert page.alert == "There is no customer 'somebody who is not there'."
    assert (await last_audit(site))[2] == "refused"
    await page.press("Transfer", {"To the customer with the id": " to me "}, sure=True)
    assert page.notice == "All purchases of 'from_me' are here now."
    assert page.soup.select("h1 bdi")[0].text == " to me "
    assert await last_audit(site) == ("customer.transferred", "from_me", "done", {"target": " to me "})
    assert await holds(site, "from_me") == {}
    assert page.text(".timeline > li .badge") == "TRANSFER"


async def test_a_customer_is_deleted_only_by_typing_their_id(site: Site) -> None:
    await site.act("purchase", "del@me.example", "pro_monthly")
    page = await tab(site, Role.OWNER, "/customers/del@me.example")
    await page.press("Delete for ever", {"Type the id to confirm": "del@me"})
    assert "Type the customer's id" in page.alert
    assert await holds(site, "del@me.example")
    await page.press("Delete for ever", {"Type the id to confirm": " del@me.example "})
    assert "'del@me.example' is deleted." in page.notice
    assert (await last_audit(site))[:3] == ("customer.deleted", "$deleted", "done")
    # The refused attempt before it had the id too; the log no longer has it.
    left = await site.database.pool.fetchval("select count(*) from audit_entries e where e::text like '%del@me%'")
    assert left == 0
    assert (await page.open("/customers/del@me.example")).status == 404


async def test_nothing_happens_by_a_slip_or_by_nonsense(site: Site) -> None:
    await site.act("purchase", "calm", "pro_monthly")
    await grant(site, "calm", "team", site.clock.now + DAY)
    before, told = await holds(site, "calm"), await types_told(site, "calm")
    person = await somebody(site, Role.OWNER)
    start = site.path("/customers/calm").removeprefix(site.url)
    sub = {"store": "test_store", "purchase_id": "none of theirs"}
    wrong: list[tuple[str, dict[str, str], int]] = [
        ("grant", {"entitlement_id": "team", "duration": "daily"}, 400),
        ("grant", {"confirm": "y", "duration": "daily"}, 400),
        ("grant", {"confirm": "y", "entitlement_id": "team"}, 400),
        ("grant", {"confirm": "y", "entitlement_id": "team", "duration": "eternal"}, 400),
        ("grant", {"confirm": "y", "entitlement_id": "nothing", "duration": "daily"}, 404),
        ("grant", {"confirm": "y", "entitlement_id": "team", "until": "2020-01-01T00:00"}, 422),
        ("grant", {"confirm": "y", "entitlement_id": "team", "until": "9999-12-31T23:59"}, 400),
        ("grant", {"confirm": "y", "entitlement_id": "team", "until": "0001-01-01"}, 400),
        ("grant", {"confirm": "y", "entitlement_id": "team", "until": "tomorrow"}, 400),
        ("revoke", {"entitlement_id": "team"}, 400),
        ("refund", {"store": "test_store", "purchase_id": "x"}, 400),
        ("refund", {"confirm": "y", **sub}, 422),
        ("cancel", {"confirm": "y", **sub}, 422),
        ("extend", {"confirm": "y", **sub, "days": "1"}, 422),
        ("extend", {"confirm": "y", **sub, "days": "0"}, 400),
        ("extend", {"confirm": "y", **sub, "days": "1000000"}, 400),
        ("transfer", {"confirm": "y", "target": "  "}, 400),
        ("transfer", {"confirm": "y", "target": "calm"}, 422),
        ("delete", {"customer_id": ""}, 400),
        ("delete", {"customer_id": "Calm"}, 400),
    ]
    for action, form, status in wrong:
        reply = await person.post(f"{start}/{action}", form)
        assert reply.status == status, (action, form, reply)
        assert (await last_audit(site))[2] == "refused", (action, form)
    for action in ("grant", "revoke", "refund", "extend", "transfer", "delete"):
        nobody = start.replace("calm", "nobody-here")
        assert (await person.post(f"{nobody}/{action}", {"confirm": "y"})).status == 404
    assert (await holds(site, "calm"), await types_told(site, "calm")) == (before, told)
