"""The search box of every page: what it finds, for whom, by keyboard, and without a script."""

import re
from typing import Any

import pytest
from playwright.async_api import Browser, expect

from latchkey.dashboard.page import PROJECT, ROOT, Page
from latchkey.process.dashboard_application import EVERY_PAGE
from latchkey.subjects.accounts.rules import Role
from latchkey.subjects.customers.usecases.edits import erase
from latchkey.subjects.demo.usecases.project import add_catalog
from latchkey.subjects.projects.usecases import create_project
from latchkey.subjects.search.page import ENTRIES, MenuEntry, entries_for
from tests.dashboard.asking import Person, somebody
from tests.dashboard.site import Site, serious_findings, visiting
from tests.dashboard.tab import tab
from tests.http.doings import did, told


async def found(person: Person, text: str, of: str | None = None) -> dict[str, list[dict[str, Any]]]:
    path = f"/dashboard/projects/{of or person.site.project_id}/find.json"
    reply = await person.get(f"{path}?q={text.replace(' ', '%20')}")
    assert reply.status == 200, reply
    return {group["title"]: group["results"] for group in reply.json()["groups"]}


def titles(results: list[dict[str, Any]]) -> list[str]:
    return [one["title"] for one in results]


async def test_everything_is_found_by_what_people_have_of_it(site: Site) -> None:
    viewer = await somebody(site, Role.VIEWER)
    for user in ("walter", "walburga"):
        await did(site, "purchase", user, "pro_monthly")
    await site.note("walter", __email="Walter@Example.com")
    hook = (await site.hook("/", name="Accounting"))["id"]
    event = (await told(site, "walter"))[0]
    below = f"/dashboard/projects/{site.project_id}"

    assert titles((await found(viewer, "WAL"))["Customers"]) == ["walburga", "walter"]
    assert titles((await found(viewer, "walter@ex"))["Customers"]) == ["walter"]
    (bought,) = (await found(viewer, event["transaction_id"]))["Transactions"]
    assert (bought["detail"], bought["href"]) == ("bought by walter", f"{below}/customers/walter")
    (happened,) = (await found(viewer, event["id"].upper()))["Events"]
    assert happened["href"] == f"{below}/events/{event['id']}"
    for text in ("count", hook):
        (one,) = (await found(viewer, text))["Webhooks"]
        assert (one["title"], one["href"]) == ("Accounting", f"{below}/webhooks/{hook}")
    assert titles((await found(viewer, "team_mon"))["Products"]) == ["Team, monthly"]
    assert "Demo app" in titles((await found(viewer, "demo app"))["Apps"])
    assert "latchkey up" in titles((await found(viewer, "latchkey"))["API keys"])
    assert titles((await found(viewer, "vat"))["Pages"]) == ["Taxes and rates"]
    # Whoever types the name of a page means the page.
    assert next(iter(await found(viewer, "team"))) == "Pages"
    assert await found(viewer, "x") == {}, "a single letter looks nothing up"
    assert await found(viewer, "%25_'\"<b>") == await found(viewer, "w" * 600) == {}


async def test_what_a_role_may_not_open_is_not_offered(site: Site) -> None:
    viewer, developer = await somebody(site, Role.VIEWER), await somebody(site, Role.DEVELOPER)
    assert "New product" not in titles((await found(viewer, "new"))["Pages"] if await found(viewer, "new") else [])
    assert "New product" in titles((await found(developer, "new"))["Pages"])
    (of_viewer, *_), (of_developer, *_) = [(await found(one, "latchkey up"))["API keys"] for one in (viewer, developer)]
    assert of_viewer["href"].endswith("/keys")
    assert "/keys/key_" in of_developer["href"]


async def test_every_key_that_is_found_has_a_page(site: Site) -> None:
    """Public keys have the same name as the secret one, and are on the pages of their apps."""
    developer = await somebody(site, Role.DEVELOPER)
    offered = (await found(developer, "latchkey up"))["API keys"]
    assert [(await developer.get(one["href"])).status for one in offered] == [200]


async def test_other_projects_and_erased_customers_stay_unknown(site: Site) -> None:
    owner = await somebody(site, Role.OWNER)
    other = await create_project(site.database, "Other", site.clock.now)
    await add_catalog(site.database, other.id, site.clock.now)
    assert (await owner.get(f"/dashboard/projects/{other.id}/find.json?q=pro")).status == 404
    await did(site, "purchase", "fleeting", "pro_monthly")
    transaction = (await told(site, "fleeting"))[0]["transaction_id"]
    await erase(site.changes, site.project_id, "fleeting")
    assert await found(owner, "fleeting") == {}
    reply = await owner.get(f"/dashboard/projects/{site.project_id}/find?q={transaction}")
    assert b"Its customer was erased" in reply.body


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda one: one.title)
def test_every_page_of_the_index_exists_and_needs_what_it_says(entry: MenuEntry) -> None:
    # One page shows all charts.
    pieces = ("charts", "{name}") if entry.pieces[:1] == ("charts",) and entry.pieces[1:] else entry.pieces
    path = "/".join((ROOT + PROJECT, *pieces))
    (page,) = [one for one in EVERY_PAGE if one.method == "GET" and one.path == path]
    assert page.needs == entry.needs


def test_every_list_of_the_menu_is_in_the_index() -> None:
    listed = {one.pieces for one in ENTRIES}
    plain = re.compile(re.escape(ROOT + PROJECT) + r"/([a-z-]+)")

    def name(page: Page) -> str | None:
        match = plain.fullmatch(page.path)
        return match[1] if match and page.method == "GET" else None

    assert {one for page in EVERY_PAGE if (one := name(page))} - {pieces[0] for pieces in listed if pieces} <= {"find"}


def test_pages_are_found_by_the_beginnings_of_words() -> None:
    assert [one.title for one in entries_for("exchange ra")] == ["Taxes and rates"]
    assert entries_for("webh")[0].title == "Webhooks"
    assert entries_for("mrr")[0].title == "MRR movement"
    assert entries_for("renewal")[0].title == "Renewal rate"
    assert not entries_for("xyz")
    assert not entries_for("  ")


async def test_the_keyboard_is_enough(site: Site, browser: Browser) -> None:
    await did(site, "purchase", "keyes", "pro_monthly")
    await did(site, "purchase", "keynes", "pro_monthly")
    async with visiting(browser, site, Role.VIEWER) as visitor:
        page = await visitor.open("/money")
        box = page.get_by_role("combobox", name="Search this project")
        await page.keyboard.press("Control+k")
        await expect(box).to_be_focused()
        await page.keyboard.type("key")
        options = page.get_by_role("option")
        await expect(options.filter(has_text="keynes")).to_be_visible()
        assert await serious_findings(page) == []
        await page.keyboard.press("Escape")
        await expect(options.first).to_be_hidden()
        await box.blur()
        await page.keyboard.press("/")
        await expect(box).to_be_focused()
        await box.fill("keyn")
        await expect(options).to_have_count(1)
        await page.keyboard.press("ArrowDown")
        await expect(box).to_have_attribute("aria-activedescendant", "found-option-0")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name="keynes", exact=True)).to_be_visible()


async def test_without_a_script_the_box_leads_to_a_page_of_results(site: Site) -> None:
    await did(site, "purchase", "plain-1", "pro_monthly")
    await did(site, "purchase", "plain-2", "pro_monthly")
    page = await tab(site, Role.VIEWER, "/money")
    [form] = page.soup.select("form[role=search][method=get]")
    assert form.select("input[name=q]")
    await page.open(f"{form['action']}?q=plain-")
    await page.follow("plain-2")
    assert page.heading == "plain-2"
    # One result is opened at once.
    await page.open(f"{form['action']}?q=plain-1")
    assert page.heading == "plain-1"
