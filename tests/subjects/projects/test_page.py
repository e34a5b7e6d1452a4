"""The settings page: what the API's project endpoint can set, and the first steps with it."""

from datetime import UTC, datetime

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
        {"name": "", "restore_behavior": "keep", "test_store": "open", "time_zone": "UTC"},
        {"name": "n" * 1501, "restore_behavior": "keep", "test_store": "open"},
        {"name": "Fine", "restore_behavior": "share", "test_store": "open"},
        {"name": "Fine", "restore_behavior": "keep", "test_store": "ajar"},
        {"name": "Fine", "restore_behavior": "keep", "test_store": "open", "time_zone": ""},
        {"name": "Fine", "restore_behavior": "keep", "test_store": "open", "time_zone": "Mars/Base"},
        {"name": "Fine", "restore_behavior": "keep"},
        {"name": "Fine"},
    ):
        assert (await me.post(path, form)).status == 400, form
    assert (await load_project(site.database, site.project_id)).name == "Demo"


async def test_pages_show_times_in_the_projects_time_zone_and_forms_take_them_in_it(site: Site) -> None:
    """NOW is 2027-01-15 08:00 UTC."""
    page = await tab(site, Role.DEVELOPER, "/settings")
    assert "2027-01-15 08:00 UTC" in page.text()
    await page.press("Save", {"Time zone": "Asia/Tokyo"})
    assert page.notice == "Saved."
    assert "2027-01-15 17:00 JST" in page.text()
    assert '<time datetime="2027-01-15T08:00:00Z">' in page.html
    project = (await site.client.get(f"/v2/projects/{site.project_id}")).json()
    assert (project["time_zone"], project["created_at"]) == ("Asia/Tokyo", site.clock.now)
    clocks = await tab(site, Role.DEVELOPER, "/test-clocks")
    await clocks.press("Create clock", {"Name": "Tokyo", "Starts at (Asia/Tokyo)": "2027-01-20T09:00"})
    assert "2027-01-20 09:00 JST" in clocks.text()
    for path in ("", "/charts", "/charts/revenue"):
        assert "Days are UTC, not days of Asia/Tokyo" in (await tab(site, Role.VIEWER, path)).text(), path
    # Pages outside of a project stay in UTC.
    account = (await page.person.get("/dashboard/account")).body.decode()
    assert "2027-01-15 08:00 UTC" in account
    assert "JST" not in account


async def test_a_key_works_until_the_end_of_a_day_of_23_hours(site: Site) -> None:
    page = await tab(site, Role.DEVELOPER, "/settings")
    await page.press("Save", {"Time zone": "Europe/Berlin"})
    keys = await tab(site, Role.DEVELOPER, "/keys/new")
    await keys.press("Create key", {"Name": "spring", "Works until the end of": "2027-03-28"})
    assert keys.status == 201
    ends = await site.database.pool.fetchval("select max(expires_at) from api_keys")
    assert ends == int(datetime(2027, 3, 28, 22, tzinfo=UTC).timestamp() * 1000)


async def test_a_time_zone_that_the_machine_does_not_know_leaves_pages_in_utc(site: Site) -> None:
    await site.database.pool.execute("update projects set time_zone = 'Moon/Tranquility'")
    page = await tab(site, Role.VIEWER, "/settings")
    assert page.status == 200
    assert "2027-01-15 08:00 UTC" in page.text()
