"""The team page: who belongs to the project, and how the owners change that."""

from __future__ import annotations

import re

from playwright.async_api import Browser, expect

from latchkey.domain.team.account import Role
from latchkey.usecases.access import accounts, projects, team
from tests.dashboard.asking import Person, somebody
from tests.dashboard.site import PASSWORD, Site, Visitor, serious_findings, visiting


async def test_an_owner_adds_somebody_who_gets_in_by_the_link(browser: Browser, site: Site, owner: Visitor) -> None:
    page = await owner.open("/team")
    assert await serious_findings(page) == []
    await page.get_by_label("E-mail").fill("Grace@Example.com")
    await page.get_by_label("Name").fill("Grace <b>Hopper</b>")
    await page.get_by_label("Role").select_option("support")
    await page.get_by_role("button", name="Add").click()
    await expect(page.get_by_role("heading", name="A link for Grace <b>Hopper</b>")).to_be_visible()
    assert await serious_findings(page) == []
    link = await page.locator(".snippet code").inner_text()
    assert link.startswith(f"{site.url}/dashboard/invitations/")
    async with visiting(browser, site, None) as grace:
        hers = await grace.open()
        await hers.goto(link)
        await hers.get_by_label("Password").fill(PASSWORD)
        await hers.get_by_role("button", name="Save and sign in").click()
        await expect(hers.locator(".me")).to_contain_text("Grace <b>Hopper</b> support")
    # The link is shown once, and is on no later page.
    await page.get_by_role("link", name="Back to the team").click()
    await expect(page.get_by_role("row", name=re.compile("grace@example.com"))).to_contain_text("support")
    assert link.rpartition("/")[2] not in await page.content()


async def test_an_owner_changes_a_role_makes_a_new_link_and_removes_somebody(site: Site, owner: Visitor) -> None:
    them = await somebody(site, Role.VIEWER)
    page = await owner.open("/team")
    await page.get_by_role("link", name=f"Change {them.email}").click()
    assert await serious_findings(page) == []
    await page.get_by_label("Developer").check()
    await page.get_by_role("button", name="Change role").click()
    await expect(page.get_by_text(f"{them.email} is developer now.")).to_be_visible()
    await page.get_by_role("link", name=f"Change {them.email}").click()
    await page.get_by_text("New link to choose a password…").click()
    await page.get_by_role("button", name="Make a link").click()
    link = (await page.locator(".snippet code").inner_text()).removeprefix(site.url)
    assert (await Person(site).get(link)).status == 200
    await page.get_by_role("link", name="Back to the team").click()
    await page.get_by_role("link", name=f"Change {them.email}").click()
    await page.get_by_text("Remove from the project…").click()
    here = site.path("/team").removeprefix(site.url)
    assert (await them.get(here)).status == 200
    await page.get_by_label("I mean it").check()
    await page.get_by_role("button", name="Remove").click()
    await expect(page.get_by_text(f"{them.email} does not belong to this project any more.")).to_be_visible()
    # At once: their session is still open, but has no access any more.
    assert (await them.get(here)).status == 404
    async with site.database.acquire() as connection:
        told = await connection.fetch(
            "select action, outcome from audit_entries where subject = $1 and project_id = $2 order by position",
            them.email, site.project_id,
        )  # fmt: skip
    assert [tuple(row) for row in told] == [
        ("member.role_changed", "done"),
        ("member.link_made", "done"),
        ("member.removed", "done"),
    ]


async def test_what_cannot_be_is_said_on_the_page_and_changes_nothing(site: Site) -> None:
    owner = await somebody(site)
    them = await somebody(site, Role.VIEWER)
    base = site.path("/team").removeprefix(site.url)
    for form, status, words in (
        ({"email": "no address", "role": "viewer"}, 400, b"not an e-mail address"),
        ({"email": "", "role": "viewer"}, 400, b"Email is missing"),
        ({"email": "new@example.com", "role": "king"}, 400, b"A role is one of"),
        ({"email": them.email, "role": "viewer"}, 422, b"belongs to this project already"),
    ):
        reply = await owner.post(f"{base}/add", form)
        assert reply.status == status
        assert words in reply.body
    assert await accounts.find_account(site.database, "new@example.com") is None
    account = await accounts.find_account(site.database, them.email)
    assert account is not None
    for path, form, status in (
        (f"{account.id}/remove", {}, 400),
        (f"{account.id}/role", {"role": "king"}, 400),
        ("acc_nobody/role", {"role": "viewer"}, 404),
        ("acc_nobody/remove", {"confirm": "yes"}, 404),
        ("acc_nobody/link", {}, 404),
    ):
        assert (await owner.post(f"{base}/{path}", form)).status == status
    assert (await them.get(base)).status == 200


async def test_who_has_an_account_joins_without_a_link_and_their_password_stays_theirs(site: Site) -> None:
    owner = await somebody(site)
    theirs = await projects.create_project(site.database, "Theirs", site.clock.now)
    base = site.path("/team").removeprefix(site.url)
    await team.add_member(site.database, theirs.id, "ada@example.com", Role.OWNER, site.clock.now)
    account = await accounts.find_account(site.database, "ada@example.com")
    assert account is not None
    joined = await owner.post(f"{base}/add", {"email": "Ada@example.com", "role": "viewer"})
    assert joined.status == 303
    assert b"They sign in as they did before" in (await owner.get(base)).body
    refused = await owner.post(f"{base}/{account.id}/link")
    assert refused.status == 422
    assert b"a project that you do not own" in refused.body
    assert b"invitations/" not in refused.body


async def test_the_last_owner_stays(site: Site) -> None:
    alone = await projects.create_project(site.database, "Alone", site.clock.now)
    me = await somebody(site)
    await team.add_member(site.database, alone.id, me.email, Role.OWNER, site.clock.now)
    account = await accounts.find_account(site.database, me.email)
    assert account is not None
    base = f"/dashboard/projects/{alone.id}/team"
    for path, form in ((f"{account.id}/remove", {"confirm": "yes"}), (f"{account.id}/role", {"role": "viewer"})):
        reply = await me.post(f"{base}/{path}", form)
        assert reply.status == 422
        assert b"A project needs an owner" in reply.body
    await team.add_member(site.database, alone.id, "next@example.com", Role.OWNER, site.clock.now)
    left = await me.post(f"{base}/{account.id}/remove", {"confirm": "yes"})
    assert (left.status, left.headers["location"]) == (303, "/dashboard")
    assert (await me.get(base)).status == 404


async def test_a_viewer_sees_the_team_and_no_button_on_a_phone_in_the_dark(browser: Browser, site: Site) -> None:
    phone = {"width": 390, "height": 800}
    async with visiting(browser, site, Role.VIEWER, color_scheme="dark", viewport=phone) as viewer:
        page = await viewer.open("/team")
        await expect(page.get_by_text("Only owners change the team.")).to_be_visible()
        await expect(page.get_by_role("button", name="Add")).to_have_count(0)
        await expect(page.get_by_role("link", name=re.compile("^Change"))).to_have_count(0)
        assert await serious_findings(page) == []
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")


async def test_who_may_not_is_told_so_on_a_page_that_leads_back(site: Site, viewer: Visitor) -> None:
    page = await viewer.open("/team/acc_somebody")
    await expect(page.get_by_role("heading", name="Not allowed")).to_be_visible()
    await expect(page.get_by_text("Your role here, viewer, does not allow this.")).to_be_visible()
    assert await serious_findings(page) == []
    assert all("403" in complaint for complaint in viewer.complaints)
    viewer.complaints.clear()
    await page.get_by_role("link", name="Back").click()
    await expect(page).to_have_url(site.path())
