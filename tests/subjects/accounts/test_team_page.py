"""The team page: who belongs to the project, and how the owners change that."""

from urllib.parse import urlsplit

from latchkey.subjects.accounts import storage
from latchkey.subjects.accounts.rules import Role
from latchkey.subjects.accounts.usecases import accounts, team
from latchkey.subjects.projects import usecases as projects
from tests.dashboard.asking import somebody
from tests.dashboard.site import PASSWORD, Site
from tests.dashboard.tab import Tab, tab


async def test_an_owner_adds_somebody_who_gets_in_by_the_link(site: Site) -> None:
    page = await tab(site, Role.OWNER, "/team")
    await page.press("Add", {"E-mail": "Grace@Example.com", "Name": "Grace <b>Hopper</b>", "Role": "support"})
    assert page.heading == "A link for Grace <b>Hopper</b>"
    link = page.text(".snippet code").removeprefix("https://dashboard.test")
    hers = await (await tab(site, None)).open(link)
    await hers.press("Save and sign in", {"Password": PASSWORD})
    assert "Grace <b>Hopper</b> support" in hers.text(".me")
    # The link is shown once, and is on no later page.
    await page.follow("Back to the team")
    assert "support" in page.row("grace@example.com")
    assert link.rpartition("/")[2] not in page.html


async def test_an_owner_changes_a_role_makes_a_new_link_and_removes_somebody(site: Site) -> None:
    them = await somebody(site, Role.VIEWER)
    page = await tab(site, Role.OWNER, "/team")
    await page.follow(f"Change {them.email}")
    await page.press("Change role", {"Developer": True})
    assert f"{them.email} is developer now." in page.notice
    await page.follow(f"Change {them.email}")
    await page.press("Create link")
    assert (await (await tab(site, None)).open(urlsplit(page.text(".snippet code")).path)).status == 200
    await page.follow("Back to the team")
    await page.follow(f"Change {them.email}")
    here = site.path("/team").removeprefix(site.url)
    assert (await them.get(here)).status == 200
    await page.press("Remove member", sure=True)
    assert f"{them.email} does not belong to this project any more." in page.notice
    # At once: their session is still open, but has no access any more.
    assert (await them.get(here)).status == 404
    told = await site.database.pool.fetch(
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
        ({"email": "", "role": "viewer"}, 400, b"not an e-mail address"),
        ({"email": "new@example.com", "role": "king"}, 400, b"A role is one of"),
        ({"email": them.email, "role": "viewer"}, 422, b"belongs to this project already"),
    ):
        reply = await owner.post(f"{base}/add", form)
        assert reply.status == status
        assert words in reply.body
    assert await accounts.find_account(site.database, "new@example.com") is None
    account = await site.account(them.email)
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
    await accounts.create_account(site.database, "ada@example.com", site.clock.now, password="a long password")
    await team.add_member(site.database, theirs.id, "ada@example.com", Role.OWNER, site.clock.now)
    account = await site.account("ada@example.com")
    joined = await owner.post(f"{base}/add", {"email": "Ada@example.com", "role": "viewer"})
    assert joined.status == 303
    assert b"They sign in as they did before" in (await owner.get(base)).body
    refused = await owner.post(f"{base}/{account.id}/link")
    assert refused.status == 422
    assert b"a project that you do not own" in refused.body
    assert b"invitations/" not in refused.body


async def test_a_link_of_another_project_is_no_way_into_this_one(site: Site) -> None:
    theirs = await projects.create_project(site.database, "Theirs", site.clock.now)
    invited, _ = await team.add_member(site.database, theirs.id, "bob@example.com", Role.VIEWER, site.clock.now)
    link = await accounts.invite(site.database, invited.id, site.clock.now)
    owner = await somebody(site)
    base = site.path("/team").removeprefix(site.url)
    assert (await owner.post(f"{base}/add", {"email": invited.email, "role": "owner"})).status == 303
    assert await accounts.invited(site.database, link, site.clock.now) is None
    assert b"have no password yet" in (await owner.get(base)).body


async def test_a_password_that_an_owner_of_another_project_may_have_chosen_is_no_way_into_this_one(site: Site) -> None:
    theirs, email = await projects.create_project(site.database, "Theirs", site.clock.now), "ceo@example.com"
    mallory, owner = await somebody(site, None), await somebody(site)
    await team.add_member(site.database, theirs.id, mallory.email, Role.OWNER, site.clock.now)
    page = Tab(mallory)
    # As owner: from here Mallory could make further links in the account's own name.
    await (await page.open(f"/dashboard/projects/{theirs.id}/team")).press("Add", {"E-mail": email, "Role": "owner"})
    hers = await (await tab(site, None)).open(urlsplit(page.text(".snippet code")).path)
    await hers.press("Save and sign in", {"Password": PASSWORD})
    account = await site.account(email)
    await hers.open(f"/dashboard/projects/{theirs.id}/team/{account.id}")
    await hers.press("Create link")
    await hers.open(urlsplit(hers.text(".snippet code")).path)
    await hers.press("Save and sign in", {"Password": PASSWORD})
    async with site.database.transaction() as connection:
        await storage.begin_second_factor(connection, account.id, b"sealed", site.clock.now)
        await storage.confirm_second_factor(connection, account.id, site.clock.now, 1, b"sealed")
    # Whoever was shown the link adds them to one more of their own projects: nothing ends.
    more = await projects.create_project(site.database, "More", site.clock.now)
    await team.add_member(site.database, more.id, mallory.email, Role.OWNER, site.clock.now)
    await mallory.post(f"/dashboard/projects/{more.id}/team/add", {"email": email, "role": "viewer"})
    assert await accounts.has_password(site.database, email, PASSWORD)
    assert (await hers.open("/dashboard/account")).heading != "Sign in"
    base = site.path("/team").removeprefix(site.url)
    assert (await owner.post(f"{base}/add", {"email": email, "role": "owner"})).status == 303
    assert b"have no password yet" in (await owner.get(base)).body
    assert not await accounts.has_password(site.database, email, PASSWORD)
    assert not (await site.account(email)).has_second_factor
    assert (await hers.open("/dashboard/account")).heading == "Sign in"


async def test_a_password_chosen_by_a_link_that_only_its_owner_got_stays_when_they_join(site: Site) -> None:
    theirs, email = await projects.create_project(site.database, "Theirs", site.clock.now), "cto@example.com"
    await team.add_member(site.database, theirs.id, email, Role.VIEWER, site.clock.now)
    account, owner = await site.account(email), await somebody(site)
    for shown_to in ("acc_mallory", None):
        async with site.database.transaction() as connection:
            link = await accounts.add_invitation(connection, account.id, site.clock.now, shown_to)
        await accounts.accept_invitation(site.database, link, PASSWORD, site.clock.now)
    base = site.path("/team").removeprefix(site.url)
    await owner.post(f"{base}/add", {"email": email, "role": "viewer"})
    assert b"They sign in as they did before" in (await owner.get(base)).body
    assert await accounts.has_password(site.database, email, PASSWORD)


async def test_the_last_owner_stays(site: Site) -> None:
    alone = await projects.create_project(site.database, "Alone", site.clock.now)
    me = await somebody(site)
    await team.add_member(site.database, alone.id, me.email, Role.OWNER, site.clock.now)
    account = await site.account(me.email)
    base = f"/dashboard/projects/{alone.id}/team"
    for path, form in ((f"{account.id}/remove", {"confirm": "yes"}), (f"{account.id}/role", {"role": "viewer"})):
        reply = await me.post(f"{base}/{path}", form)
        assert reply.status == 422
        assert b"A project needs an owner" in reply.body
    await team.add_member(site.database, alone.id, "next@example.com", Role.OWNER, site.clock.now)
    left = await me.post(f"{base}/{account.id}/remove", {"confirm": "yes"})
    assert (left.status, left.headers["location"]) == (303, "/dashboard")
    assert (await me.get(base)).status == 404


async def test_who_may_not_is_told_so_on_a_page_that_leads_back(site: Site) -> None:
    page = await tab(site, Role.VIEWER, "/team")
    assert "Only owners change the team." in page.text()
    await page.open("/team/acc_somebody")
    assert (page.status, page.heading) == (403, "Not allowed")
    assert "Your role here, viewer, does not allow this." in page.text()
    await page.follow("Back")
    assert page.below == ""
