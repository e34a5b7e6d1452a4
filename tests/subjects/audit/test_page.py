"""The audit log as a page: what was done, by whom, and how to find it."""

from latchkey.subjects.accounts.rules import Role
from latchkey.subjects.audit import rules as audit_rules
from latchkey.subjects.audit import usecases as audit
from tests.dashboard.asking import Person, somebody
from tests.dashboard.site import PASSWORD, Site
from tests.dashboard.tab import tab

NASTY = "<script>alert(1)</script>\u202e" + "long" * 200


async def note(
    site: Site, number: int, *, actor: str = "the command line", outcome: audit_rules.Outcome = "done"
) -> int:
    position = await audit.begin(
        site.database,
        project_id=site.project_id,
        account_id=None,
        actor=actor,
        action="member.added",
        now=site.clock.now + number,
        subject=f"thing-{number}",
    )
    if outcome != "begun":
        await audit.finish(site.database, position, outcome, f"thing-{number}", {"role": "viewer", "odd": NASTY})
    return position


async def test_everything_is_there_newest_first_and_page_after_page(site: Site) -> None:
    for number in range(60):
        await note(site, number)
    page = await tab(site, Role.VIEWER, "/audit?actor=the+command+line")
    assert len(page.rows) == 50
    assert "thing-59" in page.rows[0]
    await page.follow("Older")
    assert len(page.rows) == 10
    assert "thing-0" in page.rows[-1]
    assert not page.soup.select("a[rel=next]")


async def test_one_finds_what_somebody_did_and_looks_closer(site: Site) -> None:
    me = await somebody(site, Role.DEVELOPER)
    settings = site.path("/settings").removeprefix(site.url)
    assert (await me.post(settings, {"name": "Demo", "restore_behavior": "keep", "test_store": "open"})).status == 303
    assert (await me.post(settings, {"name": "", "restore_behavior": "keep", "test_store": "open"})).status == 400
    page = await tab(site, Role.VIEWER, "/audit")
    await page.press("Show", {"Who": me.email, "What": "project.changed"})
    [refused, done] = page.rows
    assert "refused" in refused
    assert "done" in done
    await page.follow("Project changed", "tr:last-child")
    assert '"restore_behavior"' in page.text()
    assert "127.0.0.1" in page.text()
    await page.follow("Everything they did")
    assert len(page.rows) == 2
    await page.press("Show", {"Who": "nobody@example.com"})
    assert "Nothing matches" in page.text()


async def test_sign_ins_of_members_are_in_it_and_those_of_others_are_not(site: Site) -> None:
    viewer = await somebody(site, Role.VIEWER)
    member = await site.person(Role.SUPPORT, password=PASSWORD)
    other = await site.person(None, password=PASSWORD)
    for email in (member, other):
        for password in ("wrong wrong wrong", PASSWORD):
            await Person(site).post("/dashboard/sign-in", {"email": email, "password": password})
    path = site.path("/audit").removeprefix(site.url)
    body = (await viewer.get(f"{path}?action=account.signed_in")).body.decode()
    assert body.count("Account signed in</a>") == 2
    assert member in body
    assert other not in body
    assert (await viewer.get(f"{path}?actor={other}")).body.count(b"<tbody>") == 0
    hidden = await site.database.pool.fetchval("select max(position) from audit_entries where subject = $1", other)
    assert (await viewer.get(f"{path}/{hidden}")).status == 404


async def test_a_sign_in_is_by_the_account_and_a_failed_one_by_the_address_that_was_tried(site: Site) -> None:
    member = await site.person(Role.SUPPORT, password=PASSWORD)
    tries = [
        (member, PASSWORD, member, "done"),
        (f"  {member.upper()} ", PASSWORD, member, "done"),
        (member, "wrong wrong wrong", member, "refused"),
        ("Nobody@Example.com", PASSWORD, "nobody@example.com", "refused"),
        # A password typed into the field for the address.
        ("correct horse battery", PASSWORD, "somebody", "refused"),
    ]
    for email, password, actor, outcome in tries:
        await Person(site).post("/dashboard/sign-in", {"email": email, "password": password})
        row = await site.database.pool.fetchrow(
            "select actor, subject, outcome, detail::text from audit_entries order by position desc limit 1"
        )
        assert row is not None
        assert (row["actor"], row["outcome"]) == (actor, outcome), email
        assert "correct horse" not in str(list(row))
    viewer = await somebody(site, Role.VIEWER)
    path = site.path("/audit").removeprefix(site.url)
    body = (await viewer.get(f"{path}?action=account.signed_in")).body.decode()
    assert "somebody" not in body
    assert member in body


async def test_what_is_done_with_an_api_key_is_found_by_the_key(site: Site) -> None:
    reply = await site.client.post(f"/v2/projects/{site.project_id}/entitlements", {"id": "audited"})
    assert reply.status == 201
    page = await tab(site, Role.VIEWER, "/audit?action=entitlement.created")
    assert "API key" in page.row("audited")
    await page.follow("Entitlement created", "tbody")
    await page.follow("Everything they did")
    assert page.row("audited")


async def test_nonsense_in_the_address_is_a_clear_refusal(site: Site) -> None:
    viewer = await somebody(site, Role.VIEWER)
    path = site.path("/audit").removeprefix(site.url)
    for query, status in (
        ("?before=x", 400), ("?before=-1", 400), (f"?before={10**30}", 400), ("?before=1", 200),
        ("?actor=%00", 400), ("?action=%F0%9F%91%BB", 200),
        ("/0", 404), ("/x", 404), (f"/{10**19}", 404), ("/%C2%B2", 404),
    ):  # fmt: skip
        assert (await viewer.get(path + query)).status == status, query


async def test_hostile_details_are_shown_as_text(site: Site) -> None:
    done, begun = await note(site, 99, actor=NASTY[:200]), await note(site, 100, outcome="begun")
    page = await tab(site, Role.VIEWER, f"/audit/{done}")
    assert "<script>" in page.text()
    assert not page.soup.select("main script")
    await page.open(f"/audit/{begun}")
    assert "not finished" in page.text()
