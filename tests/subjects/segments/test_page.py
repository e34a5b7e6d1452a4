"""Lists of customers on the dashboard: filters in the URL, segments, CSV."""

from collections.abc import Sequence

import pytest
from playwright.async_api import expect

from latchkey.subjects.accounts.rules import Role
from latchkey.subjects.bulk_grants.usecases import run_next
from latchkey.subjects.customers.usecases.edits import erase
from latchkey.subjects.segments.usecases.projector import Roller, catch_up
from tests.dashboard.asking import Person, somebody
from tests.dashboard.site import Site, Visitor
from tests.dashboard.tab import tab
from tests.subjects.customers.customer_stories import last_audit
from tests.subjects.customers.test_page import fits


async def rolled(site: Site) -> None:
    """Everything that has happened is in the lists."""
    roller = Roller(site.database)
    for step in range(8):
        await roller.turn(site.clock.now + 6000 * step)
    assert await catch_up(site.database, site.project_id, site.clock.now + 60_000)


@pytest.fixture(scope="module")
async def people(site: Site) -> Site:
    await rolled(site)
    await site.act("purchase", "tara", "pro_monthly", trial=True)
    await site.act("purchase", "carl", "pro_monthly")
    await site.act("cancel", "carl", "pro_monthly")
    await site.act("purchase", "yves", "pro_yearly")
    await site.note("visitor", __email="visitor@example.com")
    await rolled(site)
    return site


def below(site: Site, path: str) -> str:
    return site.path(path).removeprefix(site.url)


async def listed(person: Person, site: Site, query: str) -> list[str]:
    reply = await person.get(f"{below(site, '/customers.csv')}?{query}")
    assert reply.status == 200, reply
    lines = reply.body.decode().split("\r\n")
    return [line.split(",")[0] for line in lines[1:] if line]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", ["visitor", "yves", "carl", "tara"]),
        ("status=trial", ["tara"]),
        ("status=cancelled", ["carl"]),
        ("status=trial,never_bought", ["visitor", "tara"]),
        ("status=trial&status=never_bought", ["visitor", "tara"]),
        ("product_id=pro_yearly&product_active=true", ["yves"]),
        ("spent_from=5&spent_to=50", ["carl"]),
        ("trial_ends_within=7", ["tara"]),
        ("environment=production", ["visitor"]),
        ("last_seen_before=1d", []),
    ],
)
async def test_a_csv_has_the_customers_of_its_filter(people: Site, query: str, expected: Sequence[str]) -> None:
    assert await listed(await somebody(people, Role.VIEWER), people, query) == expected


async def test_a_filter_that_cannot_be_understood_says_what_is_wrong(people: Site) -> None:
    person = await somebody(people, Role.VIEWER)
    for query, words in (
        ("status=asleep", b"A status is one of"),
        ("spent_from=much", b"US dollars"),
        ("last_seen_after=yesterday", b"or days ago"),
        ("country=Germany", b"two letters"),
        ("columns=shoe_size", b"A column is one of"),
        ("sort=shoe", b"sort is one of"),
        ("country=DE&country=FR", b"country is given more than once"),
        ("product_active=true", b"needs a product_id"),
        ("segment=seg_none&status=trial", b"not both"),
    ):
        reply = await person.get(f"{below(people, '/customers')}?{query}")
        assert reply.status == 400, query
        assert words in reply.body
    for query in ("segment=seg_none", "status=trial&after=x", "status=trial&after=1.99999999999999999999"):
        assert (await person.get(f"{below(people, '/customers')}?{query}")).status in (400, 404), query
    shown = await person.get(f"{below(people, '/customers')}?status=trial&stauts=expired")
    assert (shown.status, b"does not know: stauts" in shown.body) == (200, True), "the list, and a notice"
    assert (await person.get(f"{below(people, '/customers.csv')}?status=trial&stauts=expired")).status == 400


async def test_a_page_and_its_csv_say_that_customers_are_missing(people: Site) -> None:
    person = await somebody(people, Role.VIEWER)
    whole = await person.get(f"{below(people, '/customers.csv')}?status=trial")
    assert 'filename="customers.csv"' in whole.headers["content-disposition"]
    assert whole.headers["latchkey-missing-customers"] == "0"
    await people.note("late")
    part = await person.get(f"{below(people, '/customers.csv')}?status=trial")
    assert 'filename="customers-incomplete.csv"' in part.headers["content-disposition"]
    assert part.headers["latchkey-missing-customers"] == "1"
    assert (
        b"1 customer is not in this list yet" in (await person.get(f"{below(people, '/customers')}?status=trial")).body
    )
    await erase(people.changes, people.project_id, "late")


async def test_somebody_filters_saves_a_segment_and_chooses_columns(people: Site) -> None:
    page = await tab(people, Role.SUPPORT, "/customers")
    await page.press("Show", {"Trial": True, "Never bought": True, "Products": True, "Order": "last_seen"})
    assert len(page.rows) == 2
    assert "2 customers" in page.text()
    assert "Products" in page.texts("th")
    assert "status=" in page.path, "a link shares the list"
    await page.press("Save", {"Name": "To win"})
    assert "is saved" in page.notice
    assert page.texts('[aria-current="page"]')[-1] == "To win"
    assert len(page.rows) == 2
    assert (await last_audit(people))[:3] == ("segment.saved", "To win", "done")
    await page.follow("Trial or Never bought")
    assert len(page.rows) == 4


async def test_a_viewer_saves_nothing_and_a_segment_is_deleted_with_a_confirmation(people: Site) -> None:
    viewer, support = await somebody(people, Role.VIEWER), await somebody(people, Role.SUPPORT)
    start = below(people, "/segments")
    assert (await viewer.post(start, {"name": "x", "status": "trial"})).status == 403
    assert (await support.post(start, {"name": "All", "status": ""})).status == 400, "a segment needs a filter"
    saved = await support.post(start, {"name": "Trials", "status": "trial"})
    assert saved.status == 303
    id = saved.headers["location"].partition("segment=")[2]
    again = await support.post(start, {"name": "TRIALS", "status": "expired"})
    assert again.headers["location"].endswith(id), "the same name is the same segment"
    assert (await support.post(f"{start}/{id}/delete", {})).status == 400
    assert (await support.post(f"{start}/{id}/delete", {"confirm": "yes"})).status == 303
    assert (await support.post(f"{start}/{id}/delete", {"confirm": "yes"})).status == 404


async def test_a_preview_that_reaches_nobody_offers_no_grant(people: Site) -> None:
    page = await tab(people, Role.SUPPORT, "/customers?status=cancelled")
    await page.follow("Grant access to many…")
    await page.press("Preview", {"Entitlement": "pro"})
    assert "all of these customers have the entitlement already." in page.text()
    assert "Grant" not in page.texts("button")


async def test_somebody_grants_access_to_a_list_after_a_preview_and_writes_a_note(
    people: Site, support: Visitor
) -> None:
    page = await support.open("/customers?status=never_bought,cancelled")
    await page.get_by_role("link", name="Grant access to many…").click()
    await page.get_by_label("Entitlement").select_option("pro")
    await page.get_by_label("For how long").select_option("weekly")
    await page.get_by_role("button", name="Preview").click()
    await expect(page.get_by_text("Have it already")).to_be_visible()
    await expect(page.locator("dl.facts")).to_contain_text("1: they are left out")
    await expect(page.locator("dl.facts")).to_contain_text("2, from the list: Cancelled, still active or Never bought")
    await expect(page.locator("dl.facts")).to_contain_text("Duration1 week, from each customer's grant")
    await page.set_viewport_size({"width": 390, "height": 844})
    assert await fits(page)
    await page.get_by_label("Grant it to 1 customer now").check()
    await page.get_by_role("button", name="Grant", exact=True).click()
    await expect(page.get_by_role("status")).to_contain_text("was started")
    action, _, outcome, detail = await last_audit(people)
    assert (action, outcome, detail["customers"]) == ("bulk_grant.started", "done", 2)
    await expect(page.get_by_text("Stop…")).to_be_visible()
    assert await run_next(people.changes, lambda: people.clock.now)
    # The page follows by itself.
    await expect(page.locator("main")).to_contain_text("done")
    await expect(page.get_by_text("Stop…")).to_be_hidden()
    await expect(page.locator("dl.facts")).to_contain_text("1, because they had it")
    await page.goto(people.path("/customers/visitor"))
    await expect(page.locator("main")).to_contain_text("because it was granted")
    await page.get_by_label("New note").fill("Called <b>twice</b>\nWants pro")
    await page.get_by_role("button", name="Add note").click()
    await expect(page.locator(".note .said")).to_have_text("Called <b>twice</b>\nWants pro")
    assert await fits(page)
    await page.goto(people.path("/customers/yves"))
    await expect(page.get_by_role("region", name="Lifetime spend")).to_contain_text("$79.99 in 1 payment")


async def test_pasted_ids_are_previewed_and_a_viewer_grants_nothing(people: Site) -> None:
    support, viewer = await somebody(people, Role.SUPPORT), await somebody(people, Role.VIEWER)
    start = below(people, "/bulk-grants")
    form = {"ids": "tara\r\nnobody at all\r\n", "entitlement_id": "team", "duration": "daily"}
    assert (await viewer.post(start, form)).status == 403
    made = await support.post(start, form)
    assert made.status == 303
    shown = await viewer.get(made.headers["location"])
    assert b"nobody at all" in shown.body
    assert b"Grant it to" not in shown.body
    assert (await support.post(made.headers["location"] + "/start", {})).status == 400, "it needs a confirmation"
    refused = await support.post(start, {**form, "ids": "nobody at all"})
    assert refused.status == 400
    assert b"Nobody would get it" in refused.body
