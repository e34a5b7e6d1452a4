"""The audit log: entries are written before the action, and listed newest first, by person, by kind, in pages."""

from __future__ import annotations

import pytest

from latchkey.domain.team.account import Role
from latchkey.storage.database import Database
from latchkey.usecases.access import audit, projects, team

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


async def test_what_was_begun_and_never_finished_stays_in_the_log(database: Database, project: str) -> None:
    begun = await note(database, project, outcome="begun", subject="x" * 600)
    done = await note(database, project, subject="y")
    entries = await audit.entries(database, project)
    assert [(entry.position, entry.outcome, dict(entry.detail)) for entry in entries] == [
        (done, "done", {"size": 3}),
        (begun, "begun", {}),
    ]
    assert entries[1].subject == "x" * 500


async def test_entries_come_newest_first_and_page_after_page(database: Database, project: str) -> None:
    made = [await note(database, project) for _ in range(7)]
    first = await audit.entries(database, project, limit=4)
    rest = await audit.entries(database, project, before=first[-1].position, limit=4)
    assert [entry.position for entry in [*first, *rest]] == made[::-1]


async def test_another_projects_entries_are_never_shown(database: Database, project: str) -> None:
    other = (await projects.create_project(database, "Other", NOW)).id
    ann, _ = await team.add_member(database, project, "ann@example.com", Role.OWNER, NOW)
    await team.add_member(database, other, "ann@example.com", Role.OWNER, NOW)
    mine, theirs = [
        await note(database, one, account_id=ann.id, actor=ann.email, subject="thing") for one in (project, other)
    ]
    assert await positions(database, project) == [mine]
    assert await positions(database, project, actor=ann.email) == [mine]
    assert await audit.entry(database, project, theirs) is None
    found = await audit.entry(database, project, mine)
    assert found is not None
    assert found.position == mine


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
