"""The list of events: newest first, filtered, page by page; and one event as it was delivered."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from playwright.async_api import Browser, expect

from latchkey.dashboard.cookie import NAME
from latchkey.domain.team.account import Role
from latchkey.usecases.access import projects
from latchkey.usecases.events import listing as event_list
from latchkey.usecases.events.listing import Filter
from tests.api.client import Client, Reply
from tests.api.doings import did
from tests.api.management import delete
from tests.dashboard.site import Site, Visitor, serious_findings, visiting

# Ids with markup, a script URL, a change of direction, and one that is longer than a line.
HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "'\"><script>alert(1)<",
    "javascript:alert(1)",
    "\u202egnp.live\u202c",
    "w" * 100,
)


async def asked(site: Site, path: str, role: Role | None = Role.VIEWER, **headers: str) -> Reply:
    """A page as it leaves the server, for somebody with this role."""
    token = await site.token(role)
    return await Client(site.client.app).get(
        f"/dashboard/projects/{site.project_id}{path}", headers={"cookie": f"{NAME}={token}", **headers}
    )


async def test_an_empty_project_says_what_to_do_first(site: Site, browser: Browser) -> None:
    project = await projects.create_project(site.database, "Nothing yet", site.clock.now)
    async with visiting(browser, site, Role.OWNER) as visitor:
        own = Site(**{name: getattr(site, name) for name in site.__dataclass_fields__} | {"project_id": project.id})
        await visitor.context.clear_cookies()
        await visitor.context.add_cookies(
            [{"name": NAME, "value": await own.token(Role.OWNER), "url": site.url, "secure": True}]
        )
        visitor.site = own
        page = await visitor.open("/events")
        await expect(page.get_by_role("heading", name="Nothing has happened yet")).to_be_visible()
        await expect(page.locator(".snippet code")).to_contain_text(f"{site.url}/v2/projects/{project.id}/")
        await expect(page.locator(".snippet code")).to_contain_text("$LATCHKEY_KEY")
        assert await serious_findings(page) == []


async def test_what_happened_stands_newest_first_and_leads_to_its_payload_customer_and_deliveries(
    site: Site, viewer: Visitor
) -> None:
    hook = await site.hook(name="Listed <b>hook</b>")
    await did(site, "purchase", "walked", "pro_monthly")
    await did(site, "cancel", "walked")
    await site.settled(hook["id"], "delivered", 2)
    page = await viewer.open("/events?customer=walked")
    rows = page.locator("tbody tr")
    await expect(rows).to_have_count(2)
    await expect(rows.nth(0)).to_contain_text("CANCELLATION")
    await expect(rows.nth(1)).to_contain_text("INITIAL_PURCHASE")
    await expect(rows.nth(1)).to_contain_text("delivered")
    await expect(rows.nth(1).get_by_role("link", name="walked")).to_have_attribute(
        "href", f"/dashboard/projects/{site.project_id}/customers/walked"
    )
    assert await serious_findings(page) == []
    await rows.nth(1).get_by_role("link", name="INITIAL_PURCHASE").click()
    await expect(page.get_by_role("heading", name="INITIAL_PURCHASE")).to_be_visible()
    assert await serious_findings(page) == []
    [arrival] = [one for one in site.arrivals if b"INITIAL_PURCHASE" in one.body and b'"walked"' in one.body]
    assert await page.locator("[data-raw] code").text_content() == arrival.body.decode()
    await expect(page.locator("[data-payload]")).to_contain_text('"app_user_id": "walked"')
    deliveries = page.locator("#deliveries tbody tr")
    await expect(deliveries).to_have_count(1)
    await expect(deliveries).to_contain_text("Listed <b>hook</b>")
    event_id = page.url.rpartition("/")[2]
    await expect(deliveries.get_by_role("link", name="Every attempt")).to_have_attribute(
        "href", f"/dashboard/projects/{site.project_id}/webhooks/{hook['id']}/deliveries/{event_id}"
    )
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


async def test_stored_text_is_only_ever_text(site: Site, viewer: Visitor) -> None:
    for id in HOSTILE:
        await did(site, "purchase", id, "pro_monthly")
    page = await viewer.open("/events")
    page.on("dialog", lambda dialog: viewer.complaints.append(f"a script ran: {dialog.message}"))
    shown = await page.locator("tbody [data-customer]").all_text_contents()
    assert set(HOSTILE) <= set(shown)
    for id in HOSTILE:
        await page.goto(site.path(f"/events?customer={quote(id, safe='')}"))
        await expect(page.locator("tbody tr")).to_have_count(1)
        assert await page.locator("#f-customer").input_value() == id
        await expect(page.locator("tbody [data-customer]")).to_have_attribute(
            "href", f"/dashboard/projects/{site.project_id}/customers/{quote(id, safe='')}"
        )
    await page.goto(site.path(f"/events?customer={quote(HOSTILE[0], safe='')}"))
    await page.locator("tbody [data-type]").click()
    await expect(page.locator("dl.facts")).to_contain_text(HOSTILE[0])
    assert await page.locator("img[src=x]").count() == 0


async def test_nothing_scrolls_sideways_on_a_phone_and_the_dark_is_as_readable(site: Site, browser: Browser) -> None:
    await did(site, "purchase", "w" * 99, "pro_monthly")
    async with visiting(
        browser, site, Role.VIEWER, color_scheme="dark", viewport={"width": 390, "height": 800}
    ) as visitor:
        page = await visitor.open("/events")
        for _ in range(2):
            assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            assert await serious_findings(page) == []
            if (link := page.locator("tbody [data-type]").first) and await link.count():
                await link.click()
                await expect(page.get_by_role("heading", name="Payload")).to_be_visible()


async def test_pages_go_on_where_the_last_one_ended(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(7):
        await did(site, "purchase", f"paged-{number}", "pro_monthly")
    seen: list[int] = []
    before = None
    while True:
        page = await event_list.page_of_newest(site.database, site.project_id, Filter(), before=before, limit=3)
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
    rare = Filter(type="INVOICE_ISSUANCE")
    first = await event_list.page_of_newest(site.database, site.project_id, rare, limit=3)
    assert (list(first.events), first.before) == ([], first.head - 3)
    second = await event_list.page_of_newest(site.database, site.project_id, rare, before=first.before, limit=3)
    assert [event.app_user_id for event in second.events] == ["paged-0"]
    reply = await asked(site, "/events?type=INVOICE_ISSUANCE")
    assert f"before={first.before}" in reply.body.decode()
    assert "No event matches among these" in reply.body.decode()
    # After a restore positions go on far above: the page over the gap leads to the events before it.
    await site.database.pool.execute("update feeds set position = position + 1000000000")
    over = await event_list.page_of_newest(site.database, site.project_id, rare, limit=3)
    assert over.before == first.head + 1


async def test_what_nobody_can_ask_for_is_refused_or_left_out(site: Site) -> None:
    assert (await asked(site, "/events?before=soon")).status == 400
    assert (await asked(site, "/events?before=0")).status == 400
    assert (await asked(site, "/events?type=<b>&environment=MOON")).status == 200
    assert (await asked(site, "/events?customer=%00")).status == 400
    assert (await asked(site, "/events/no-such-event")).status == 404
    assert (await asked(site, "/events/stream")).status == 406


async def test_an_event_of_another_project_is_not_here(site: Site) -> None:
    other = await projects.create_project(site.database, "Other", site.clock.now)
    await did(site, "purchase", "ours", "pro_monthly")
    page = await event_list.page_of_newest(site.database, site.project_id, Filter(customer_id="ours"))
    reply = await asked(site, f"/events/{page.events[0].id}")
    assert reply.status == 200
    elsewhere = Site(**{name: getattr(site, name) for name in site.__dataclass_fields__} | {"project_id": other.id})
    assert (await asked(elsewhere, f"/events/{page.events[0].id}")).status == 404
    assert (await asked(elsewhere, "/events?customer=ours")).status == 404
