"""Who belongs to a project, that it never loses its last owner, and what the audit log shows of members."""

from __future__ import annotations

import asyncio

import pytest

from latchkey.domain.refusal import Invalid, NotFound, Refusal
from latchkey.domain.team.account import Role
from latchkey.storage.database import Database
from latchkey.usecases.access import accounts, audit, projects, sessions, team

NOW = 1_800_000_000_000


@pytest.fixture
async def project(database: Database) -> str:
    return (await projects.create_project(database, "Mine", NOW)).id


async def note(
    database: Database,
    project_id: str | None,
    action: str = "thing.made",
    *,
    account_id: str | None = None,
    actor: str = "ann@example.com",
    outcome: audit.Outcome = "done",
    about: str | None = None,
    subject: str = "",
) -> int:
    position = await audit.begin(
        database, project_id=project_id, account_id=account_id, actor=actor, action=action, now=NOW, subject=subject
    )
    if outcome != "begun":
        await audit.finish(database, position, outcome, subject, {"size": 3}, account_id=about)
    return position


async def positions(database: Database, project_id: str, **filters: str | int | None) -> list[int]:
    return [entry.position for entry in await audit.entries(database, project_id, **filters)]  # type: ignore[arg-type]


async def test_what_members_do_to_their_accounts_is_in_the_log_of_their_projects(
    database: Database, project: str
) -> None:
    ann, _ = await team.add_member(database, project, "ann@example.com", Role.OWNER, NOW)
    stranger = await note(database, None, "account.signed_in", actor="somebody", outcome="refused")
    wrong = await note(database, None, "account.signed_in", actor="somebody", outcome="refused", about=ann.id)
    right = await note(database, None, "account.password_changed", account_id=ann.id, actor=ann.email)
    made = await note(database, project, account_id=ann.id, actor=ann.email)
    assert await positions(database, project) == [made, right, wrong]
    assert await positions(database, project, action="account.signed_in") == [wrong]
    assert await positions(database, project, actor="Ann@Example.com") == [made, right, wrong]
    assert await positions(database, project, actor="ann@example.com", action="thing.made") == [made]
    assert await audit.entry(database, project, stranger) is None
    # The sign-ins of a removed member are no longer shown, but their actions in the project are.
    await team.add_member(database, project, "bob@example.com", Role.OWNER, NOW)
    await team.remove_member(database, project, ann.id)
    assert await positions(database, project) == [made]
    assert await positions(database, project, actor=ann.email) == [made]
    assert await audit.entry(database, project, right) is None


async def test_who_has_no_account_is_found_by_name(database: Database, project: str) -> None:
    made = await note(database, project, actor="the command line")
    await note(database, project)
    assert await positions(database, project, actor="the command line") == [made]
    assert await positions(database, project, actor="nobody@example.com") == []


async def join(database: Database, project_id: str, name: str, role: Role = Role.OWNER) -> str:
    account, _ = await team.add_member(database, project_id, f"{name}@example.com", role, NOW)
    return account.id


async def roles(database: Database, project_id: str) -> dict[str, Role]:
    return {member.account.email.partition("@")[0]: member.role for member in await team.members(database, project_id)}


async def test_somebody_joins_and_an_account_is_made_only_once(database: Database, project: str) -> None:
    other = (await projects.create_project(database, "Other", NOW)).id
    first, made = await team.add_member(database, project, "Ann@example.com", Role.OWNER, NOW)
    again, made_again = await team.add_member(database, other, "ann@example.com", Role.VIEWER, NOW + 1)
    assert (made, made_again, first.id) == (True, False, again.id)
    assert [(place.project_id, place.role) for place in await team.places(database, first.id)] == [
        (project, Role.OWNER),
        (other, Role.VIEWER),
    ]
    with pytest.raises(Refusal, match="belongs to this project already"):
        await team.add_member(database, project, "ann@example.com", Role.VIEWER, NOW)
    assert await roles(database, project) == {"ann": Role.OWNER}
    with pytest.raises(NotFound):
        await team.add_member(database, "proj_nowhere", "bob@example.com", Role.VIEWER, NOW)
    with pytest.raises(Invalid):
        await team.add_member(database, project, "not an address", Role.VIEWER, NOW)
    assert await accounts.find_account(database, "bob@example.com") is None


async def test_the_last_owner_can_neither_leave_nor_step_down(database: Database, project: str) -> None:
    ann, bob = await join(database, project, "ann"), await join(database, project, "bob", Role.DEVELOPER)
    for leave in (team.remove_member(database, project, ann), team.set_role(database, project, ann, Role.VIEWER, NOW)):
        with pytest.raises(Refusal, match="needs an owner"):
            await leave
    await team.set_role(database, project, ann, Role.OWNER, NOW)
    await team.set_role(database, project, bob, Role.OWNER, NOW)
    await team.remove_member(database, project, ann)
    assert await roles(database, project) == {"bob": Role.OWNER}


async def test_two_owners_who_leave_at_once_do_not_leave_nobody(database: Database, project: str) -> None:
    for turn in range(5):
        ann, bob = await join(database, project, f"ann{turn}"), await join(database, project, f"bob{turn}")
        for member in await team.members(database, project):
            if member.account.id not in (ann, bob):
                await team.remove_member(database, project, member.account.id)
        left = await asyncio.gather(
            team.remove_member(database, project, ann),
            team.set_role(database, project, bob, Role.VIEWER, NOW),
            return_exceptions=True,
        )
        assert [type(one) for one in left if one is not None] == [Refusal]
        assert list((await roles(database, project)).values()).count(Role.OWNER) == 1


async def test_who_is_not_there_cannot_be_changed(database: Database, project: str) -> None:
    await join(database, project, "ann")
    other = (await projects.create_project(database, "Other", NOW)).id
    bob = await join(database, other, "bob")
    with pytest.raises(NotFound):
        await team.remove_member(database, project, bob)
    with pytest.raises(NotFound):
        await team.set_role(database, project, bob, Role.OWNER, NOW)
    assert await roles(database, project) == {"ann": Role.OWNER}
    assert await roles(database, other) == {"bob": Role.OWNER}


async def test_removing_somebody_takes_their_role_from_a_session_that_is_open(database: Database, project: str) -> None:
    await join(database, project, "ann")
    bob = await join(database, project, "bob", Role.SUPPORT)
    token = await sessions.open_session(database, bob, "192.0.2.1", "a browser", NOW)
    before = await sessions.find_session(database, token, project, NOW)
    await team.remove_member(database, project, bob)
    after = await sessions.find_session(database, token, project, NOW)
    assert before is not None
    assert after is not None
    assert (before.role, after.role) == (Role.SUPPORT, None)


async def test_a_new_link_is_no_way_into_a_project_of_others(database: Database, project: str) -> None:
    other = (await projects.create_project(database, "Other", NOW)).id
    ann, bob = await join(database, project, "ann"), await join(database, project, "bob", Role.VIEWER)
    account, token = await team.new_link(database, project, bob, ann, NOW)
    assert account.email == "bob@example.com"
    assert await accounts.invited(database, token, NOW) == account
    # Bob joins another project: Ann's link would open that one, too.
    await join(database, other, "bob", Role.OWNER)
    with pytest.raises(Refusal, match="that you do not own"):
        await team.new_link(database, project, bob, ann, NOW)
    await team.add_member(database, other, "ann@example.com", Role.DEVELOPER, NOW)
    with pytest.raises(Refusal, match="that you do not own"):
        await team.new_link(database, project, bob, ann, NOW)
    await team.set_role(database, other, ann, Role.OWNER, NOW)
    await team.new_link(database, project, bob, ann, NOW)
    carl = await join(database, other, "carl", Role.VIEWER)
    with pytest.raises(NotFound):
        await team.new_link(database, project, carl, ann, NOW)
