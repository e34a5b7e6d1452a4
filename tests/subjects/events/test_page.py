"""The list of events: newest first, filtered, page by page; and one event as it was delivered."""

from urllib.parse import quote

import pytest
from playwright.async_api import expect

from latchkey.subjects.accounts.rules import Role
from latchkey.subjects.events import usecases as event_list
from latchkey.subjects.events.rules import EventFilter
from latchkey.subjects.projects import usecases as projects
from tests.dashboard.site import Site, Visitor
from tests.dashboard.tab import tab
from tests.http.doings import did
from tests.http.management import delete

# Ids with markup, a script URL, a change of direction, and one that is longer than a line.
HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "'\"><script>alert(1)<",
    "javascript:alert(1)",
    "\u202egnp.live\u202c",
    "w" * 100,
)


def elsewhere(site: Site, project_id: str) -> Site:
    """The same site, with another project."""
    return Site(**{name: getattr(site, name) for name in site.__dataclass_fields__} | {"project_id": project_id})


async def test_an_empty_project_says_what_to_do_first(site: Site) -> None:
    project = await projects.create_project(site.database, "Nothing yet", site.clock.now)
    page = await tab(elsewhere(site, project.id), Role.OWNER, "/events")
    assert page.text(".empty h2") == "Nothing has happened yet"
    assert f"/v2/projects/{project.id}/" in page.text(".snippet code")
    assert "$LATCHKEY_KEY" in page.text(".snippet code")


async def test_what_happened_stands_newest_first_and_leads_to_its_payload_customer_and_deliveries(site: Site) -> None:
    hook = await site.hook(name="Listed <b>hook</b>")
    await did(site, "purchase", "walked", "pro_monthly")
    await did(site, "cancel", "walked")
    await site.settled(hook["id"], "delivered", 2)
    page = await tab(site, Role.VIEWER, "/events?customer=walked")
    [cancelled, bought] = page.rows
    assert "CANCELLATION" in cancelled
    assert "INITIAL_PURCHASE" in bought
    assert "delivered" in bought
    await page.follow("walked", "tbody")
    assert page.below == "/customers/walked"
    await page.open("/events?customer=walked")
    await page.follow("INITIAL_PURCHASE", "tbody")
    assert page.heading == "INITIAL_PURCHASE"
    [arrival] = [one for one in site.arrivals if b"INITIAL_PURCHASE" in one.body and b'"walked"' in one.body]
    assert page.soup.select("[data-raw] code")[0].text == arrival.body.decode()
    assert '"app_user_id": "walked"' in page.text("[data-payload]")
    event_id = page.path.rpartition("/")[2]
    [delivery] = page.texts("#deliveries tbody tr")
    assert "Listed <b>hook</b>" in delivery
    await page.follow("Every attempt", "#deliveries")
    assert page.below == f"/webhooks/{hook['id']}/deliveries/{event_id}"
    await site.call("POST", f"{hook['id']}/pause")
    await delete(site, f"integrations/webhooks/{hook['id']}")


async def test_a_filter_takes_effect_at_once_and_can_be_taken_off(site: Site, viewer: Visitor) -> None:
    await did(site, "purchase", "sifted", "pro_monthly")
    await did(site, "purchase", "sifted-live", "pro_monthly", environment="PRODUCTION")
    await did(site, "refund", "sifted")
    page = await viewer.open("/events")
    await page.get_by_label("Type").select_option("REFUND")
    await expect(page).to_have_url(site.path("/events?type=REFUND&environment=&customer="))
    types = page.locator("tbody [data-type]")
    # The address changes before the new page is loaded.
    await expect(types.first).to_be_visible()
    assert set(await types.all_text_contents()) == {"REFUND"}
    await page.get_by_label("Type").select_option("")
    await expect(page).to_have_url(site.path("/events?type=&environment=&customer="))
    await page.get_by_label("Environment").select_option("PRODUCTION")
    await expect(page).to_have_url(site.path("/events?type=&environment=PRODUCTION&customer="))
    await expect(page.locator("tbody tr", has_text="sifted-live")).to_have_count(1)
    assert set(await page.locator("tbody [data-environment]").all_text_contents()) == {"Production"}
    await page.get_by_role("link", name="Show all").click()
    await expect(page).to_have_url(site.path("/events"))
    await page.get_by_label("Customer").fill("nobody-here")
    await page.get_by_label("Customer").press("Enter")
    await expect(page.get_by_role("alert")).to_have_text("There is no customer 'nobody-here'.")
    assert viewer.complaints.pop().startswith("Failed to load resource")  # the browser's console error for a 404


async def test_stored_text_is_only_ever_text(site: Site) -> None:
    for id in HOSTILE:
        await did(site, "purchase", id, "pro_monthly")
    page = await tab(site, Role.VIEWER, "/events")
    assert set(HOSTILE) <= {one.text for one in page.soup.select("tbody [data-customer]")}
    for id in HOSTILE:
        await page.open(f"/events?customer={quote(id, safe='')}")
        assert page.value("Customer") == id
        [customer] = page.soup.select("tbody [data-customer]")
        assert customer["href"] == f"/dashboard/projects/{site.project_id}/customers/{quote(id, safe='')}"
    await page.open(f"/events?customer={quote(HOSTILE[0], safe='')}")
    await page.follow("INITIAL_PURCHASE", "tbody")
    assert HOSTILE[0] in page.text("dl.facts")
    assert not page.soup.select("img[src=x]")


async def test_pages_go_on_where_the_last_one_ended(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(7):
        await did(site, "purchase", f"paged-{number}", "pro_monthly")
    seen: list[int] = []
    before = None
    while True:
        page = await event_list.page_of_newest(site.database, site.project_id, EventFilter(), before=before, limit=3)
        seen += [event.position for event in page.events]
        before = page.before
        if before is None:
            break
    assert seen == list(range(page.head, 0, -1))
    # A type that is rare: each page looks at a few events only, finds none, and still says where to go on.
    await did(site, "issue_invoice", "paged-0")
    for number in range(7, 14):
        await did(site, "purchase", f"paged-{number}", "pro_monthly")
    monkeypatch.setattr(event_list, "EXAMINED", 4)
    rare = EventFilter(type="INVOICE_ISSUANCE")
    first = await event_list.page_of_newest(site.database, site.project_id, rare, limit=3)
    assert (list(first.events), first.before) == ([], first.head - 3)
    second = await event_list.page_of_newest(site.database, site.project_id, rare, before=first.before, limit=3)
    assert [event.app_user_id for event in second.events] == ["paged-0"]
    shown = await tab(site, Role.VIEWER, "/events?type=INVOICE_ISSUANCE")
    assert f"before={first.before}" in shown.html
    assert "No event matches among these" in shown.text()
    # After a restore positions go on far above: the page over the gap leads to the events before it.
    await site.database.pool.execute("update feeds set position = position + 1000000000")
    over = await event_list.page_of_newest(site.database, site.project_id, rare, limit=3)
    assert over.before == first.head + 1


async def test_what_nobody_can_ask_for_is_refused_or_left_out(site: Site) -> None:
    page = await tab(site, Role.VIEWER)
    for path, status in (
        ("?before=soon", 400), ("?before=0", 400), ("?type=<b>&environment=MOON", 200), ("?customer=%00", 400),
        ("/no-such-event", 404), ("/stream", 406),
    ):  # fmt: skip
        assert (await page.open(f"/events{path}")).status == status, path


async def test_an_event_of_another_project_is_not_here(site: Site) -> None:
    other = await projects.create_project(site.database, "Other", site.clock.now)
    await did(site, "purchase", "ours", "pro_monthly")
    found = await event_list.page_of_newest(site.database, site.project_id, EventFilter(customer_id="ours"))
    assert (await tab(site, Role.VIEWER, f"/events/{found.events[0].id}")).status == 200
    page = await tab(elsewhere(site, other.id), Role.VIEWER)
    for path in (f"/events/{found.events[0].id}", "/events?customer=ours"):
        assert (await page.open(path)).status == 404
