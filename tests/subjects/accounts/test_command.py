"""`latchkey user`: accounts for the dashboard, from the machine where it runs."""

import asyncio
import io
import re
import subprocess
import sys

import asyncpg
import pytest

from latchkey.database.pool import Database
from latchkey.now import real_now
from latchkey.subjects.accounts import storage
from latchkey.subjects.accounts.usecases import accounts, sessions
from latchkey.subjects.accounts.usecases import team as operators
from tests.cli.running import typed

PASSWORD = "correct horse battery"


@pytest.fixture
def told(database: Database) -> dict[str, str]:
    environment = {"LATCHKEY_DATABASE_URL": database.url, "COLUMNS": "250"}
    assert typed("project", "create", "Shop", **environment).returncode == 0
    return environment


async def _typed(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """In a thread: a command runs an event loop of its own."""
    return await asyncio.to_thread(typed, *words, **environment)


def link_in(output: str) -> str:
    [token] = re.findall(r"/dashboard/invitations/(\S+)", output)
    return str(token)


async def test_somebody_is_made_with_a_link_and_chooses_a_password(told: dict[str, str], database: Database) -> None:
    made = await _typed("user", "create", "Ann@Example.com", "--name", "Ann [/b]", **told)
    assert made.returncode == 0, made.stderr
    token = link_in(made.stdout)
    account = await accounts.accept_invitation(database, token, PASSWORD, real_now())
    assert account.email == "ann@example.com"
    listed = await _typed("user", "list", **told)
    assert re.search(r"ann@example.com\s+Ann \[/b\]\s+owner", listed.stdout), listed
    # A second project gets the same account, without a new link.
    other = await _typed("project", "create", "Other", **told)
    [project] = re.findall(r"proj_[0-9a-f]+", other.stdout.splitlines()[0])
    again = await _typed("user", "create", "ann@example.com", "--role", "viewer", "--project", project, **told)
    assert again.returncode == 0, again.stderr
    assert "invitations" not in again.stdout
    assert await accounts.has_password(database, "ann@example.com", PASSWORD)


async def test_a_password_may_come_from_standard_input_and_never_replaces_one(
    told: dict[str, str], database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{PASSWORD}\n"))
    made = await _typed("user", "create", "ann@example.com", "--password-stdin", **told)
    assert made.returncode == 0, made.stderr
    assert PASSWORD not in made.stdout + made.stderr
    assert await accounts.has_password(database, "ann@example.com", PASSWORD)
    monkeypatch.setattr(sys, "stdin", io.StringIO("another password\n"))
    refused = await _typed("user", "create", "ann@example.com", "--password-stdin", **told)
    assert refused.returncode == 1
    assert "its password was not changed" in refused.stderr
    monkeypatch.setattr(sys, "stdin", io.StringIO("short\n"))
    short = await _typed("user", "create", "bob@example.com", "--password-stdin", **told)
    assert "at least 10 characters" in short.stderr
    assert await accounts.find_account(database, "bob@example.com") is None


async def test_a_lost_password_is_chosen_anew_and_somebody_is_taken_out(
    told: dict[str, str], database: Database
) -> None:
    await _typed("user", "create", "ann@example.com", **told)
    await _typed("user", "create", "bob@example.com", "--role", "support", **told)
    invited = await _typed("user", "invite", "BOB@example.com", **told)
    bob = await accounts.accept_invitation(database, link_in(invited.stdout), PASSWORD, real_now())
    session = await sessions.open_session(database, bob.id, "192.0.2.1", "x", real_now())
    removed = await _typed("user", "remove", "bob@example.com", **told)
    assert removed.returncode == 0, removed.stderr
    assert await sessions.find_session(database, session, None, real_now()) is None
    assert "bob@example.com" not in (await _typed("user", "list", **told)).stdout
    last = await _typed("user", "remove", "ann@example.com", **told)
    assert last.returncode == 1
    assert "A project needs an owner" in last.stderr
    connection = await asyncpg.connect(told["LATCHKEY_DATABASE_URL"])
    noted = await connection.fetch("select actor, action, subject, outcome from audit_entries order by position")
    await connection.close()
    assert [tuple(row) for row in noted] == [
        ("the command line", "member.added", "ann@example.com", "done"),
        ("the command line", "member.added", "bob@example.com", "done"),
        ("the command line", "account.invited", "bob@example.com", "done"),
        ("the command line", "member.removed", "bob@example.com", "done"),
        ("the command line", "member.removed", "ann@example.com", "refused"),
    ]


async def test_who_lost_the_second_factor_gets_in_with_the_password_again(
    told: dict[str, str], database: Database
) -> None:
    await _typed("user", "create", "ann@example.com", **told)
    ann = await accounts.find_account(database, "ann@example.com")
    assert ann is not None
    async with database.transaction() as connection:
        await storage.begin_second_factor(connection, ann.id, b"sealed", 1)
        await storage.confirm_second_factor(connection, ann.id, 1, 1, b"sealed")
    assert re.search(r"owner\s+on\s", (await _typed("user", "list", **told)).stdout)
    reset = await _typed("user", "reset-second-factor", "ANN@example.com", **told)
    assert reset.returncode == 0, reset.stderr
    assert re.search(r"owner\s+off\s", (await _typed("user", "list", **told)).stdout)
    again = await _typed("user", "reset-second-factor", "ann@example.com", **told)
    assert (again.returncode, "no second factor" in again.stderr) == (1, True)
    outcomes = await database.pool.fetch(
        "select outcome from audit_entries where action = 'account.second_factor_reset' order by position"
    )
    assert [row["outcome"] for row in outcomes] == ["done", "refused"]


async def test_what_makes_no_sense_is_one_clear_line(told: dict[str, str]) -> None:
    for words, complaint in (
        (("create", "not an address"), "not an e-mail address"),
        (("create", "ann@example.com", "--project", "proj_none"), "no project"),
        (("invite", "nobody@example.com"), "There is no account nobody@example.com"),
        (("remove", "nobody@example.com"), "There is no account nobody@example.com"),
    ):
        refused = await _typed("user", *words, **told)
        assert refused.returncode == 1, words
        assert complaint in refused.stderr
        assert "Traceback" not in refused.stderr
    assert (await _typed("user", "create", "ann@example.com", "--role", "king", **told)).returncode == 2


async def test_only_the_command_line_makes_an_operator(told: dict[str, str], database: Database) -> None:
    assert (await _typed("user", "operator", "ann@example.com", **told)).returncode == 1
    assert (await _typed("user", "create", "ann@example.com", **told)).returncode == 0
    granted = await _typed("user", "operator", "Ann@example.com", **told)
    assert granted.returncode == 0, granted.stderr
    assert "ann@example.com is now an operator." in granted.stdout
    assert "latchkey user invite" in granted.stdout
    account = await accounts.find_account(database, "ann@example.com")
    assert account is not None
    assert await operators.is_operator(database, account.id)
    taken = await _typed("user", "operator", "ann@example.com", "--remove", **told)
    assert "no longer an operator" in taken.stdout
    assert "Operators: none." in taken.stdout
    assert not await operators.is_operator(database, account.id)
    actions = await database.pool.fetch(
        "select action from audit_entries where action like 'operator%' order by position"
    )
    assert [row["action"] for row in actions] == ["operator.added", "operator.removed"]


async def test_an_operator_has_no_password_that_an_owner_may_have_chosen(
    told: dict[str, str], database: Database
) -> None:
    assert (await _typed("user", "create", "ann@example.com", **told)).returncode == 0
    account = await accounts.find_account(database, "ann@example.com")
    assert account is not None
    async with database.transaction() as connection:
        link = await accounts.add_invitation(connection, account.id, real_now(), "acc_owner")
    await accounts.accept_invitation(database, link, PASSWORD, real_now())
    session = await sessions.open_session(database, account.id, "192.0.2.1", "x", real_now())
    assert (await _typed("user", "operator", "ann@example.com", "--remove", **told)).returncode == 0
    assert await accounts.has_password(database, "ann@example.com", PASSWORD)
    granted = await _typed("user", "operator", "ann@example.com", **told)
    assert "They have no password yet" in granted.stdout
    assert not await accounts.has_password(database, "ann@example.com", PASSWORD)
    assert await sessions.find_session(database, session, None, real_now()) is None
    # The command line adds them to another project: it prints a link, because they cannot sign in.
    other = await _typed("project", "create", "Other", **told)
    [project] = re.findall(r"proj_[0-9a-f]+", other.stdout.splitlines()[0])
    added = await _typed("user", "create", "ann@example.com", "--project", project, **told)
    await accounts.accept_invitation(database, link_in(added.stdout), PASSWORD, real_now())
    # Only they got that link, so their password stays.
    again = await _typed("user", "operator", "ann@example.com", **told)
    assert "They have no password yet" not in again.stdout
    assert await accounts.has_password(database, "ann@example.com", PASSWORD)
