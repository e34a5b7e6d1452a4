"""The settings page: what the API's project endpoint can set, and the first steps with it."""

from latchkey.subjects.accounts.rules import Role
from latchkey.subjects.projects.usecases import load_project
from tests.dashboard.asking import somebody
from tests.dashboard.site import Site
from tests.dashboard.tab import tab


async def test_a_developer_renames_the_project_and_changes_what_a_restore_does(site: Site) -> None:
    page = await tab(site, Role.DEVELOPER, "/settings")
    await page.press("Save", {"Name": "  Réglage <i>\u202e x ", "Keep": True})
    assert page.notice == "Saved."
    reply = await site.client.get(f"/v2/projects/{site.project_id}")
    assert (reply.json()["name"], reply.json()["restore_behavior"]) == ("Réglage <i>\u202e x", "keep")
    assert "Réglage <i>" in page.text(".switch summary")
    await page.press("Save", {"Name": "Demo", "Transfer It": True})
    detail = await site.database.pool.fetchval(
        "select detail::text from audit_entries where action = 'project.changed' order by position desc limit 1"
    )
    assert detail == '{"name":["Réglage <i>\u202e x","Demo"],"restore_behavior":["keep","transfer"]}'


async def test_a_developer_closes_the_test_store_and_opens_it_again(site: Site) -> None:
    page = await tab(site, Role.DEVELOPER, "/settings")
    assert page.ticked("Open")
    assert "Close it before you ship." in page.text()
    for word, stored in (("Closed", "closed"), ("Open", "open")):
        await page.press("Save", {word: True})
        assert (await load_project(site.database, site.project_id)).test_store == stored


async def test_the_page_says_where_the_project_is_and_shows_nobodys_key(site: Site) -> None:
    page = await tab(site, Role.VIEWER, "/settings")
    assert site.project_id in page.text()
    assert "https://dashboard.test" in page.text()
    assert "sk_" not in page.html
    assert page.is_only_read


async def test_what_makes_no_sense_is_refused_with_the_form_filled_in(site: Site) -> None:
    me = await somebody(site, Role.DEVELOPER)
    path = site.path("/settings").removeprefix(site.url)
    for form in (
        {"name": "", "restore_behavior": "keep", "test_store": "open"},
        {"name": "n" * 1501, "restore_behavior": "keep", "test_store": "open"},
        {"name": "Fine", "restore_behavior": "share", "test_store": "open"},
        {"name": "Fine", "restore_behavior": "keep", "test_store": "ajar"},
        {"name": "Fine", "restore_behavior": "keep"},
        {"name": "Fine"},
    ):
        assert (await me.post(path, form)).status == 400, form
    assert (await load_project(site.database, site.project_id)).name == "Demo"
