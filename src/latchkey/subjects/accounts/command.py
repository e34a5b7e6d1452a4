"""`latchkey user`: accounts for the dashboard."""

import os
import sys
from typing import Any

import typer
from rich.markup import escape

from latchkey.cli.command import argument, command, flag, option
from latchkey.cli.data_folder import DataFolder, read_json
from latchkey.cli.output import shown
from latchkey.cli.project_command import Office, ProjectContext, audited, office, project_context
from latchkey.cli.target_database import is_of_up
from latchkey.database.pool import Database
from latchkey.domain.refusal import Conflict, found
from latchkey.now import real_now
from latchkey.settings import gather
from latchkey.subjects.accounts import rules
from latchkey.subjects.accounts.rules import EXPLAINED, Role
from latchkey.subjects.accounts.usecases import accounts, second_factor, sessions, team

app = typer.Typer(no_args_is_help=True)

_ROLES = " ".join(f"{role}: {EXPLAINED[role]}" for role in Role)
EMAIL = argument("The e-mail address that the person signs in with.")


@command(app, "create", project_context)
async def create(
    at: ProjectContext,
    email: str = EMAIL,
    role: Role = option(_ROLES, default=Role.OWNER),
    name: str = option("The name shown on pages.", default=""),
    password_stdin: bool = flag("Read the password from standard input instead of printing a link to choose one."),
) -> None:
    """Create an account and add it to a project, or add an existing account to another project."""
    password = sys.stdin.readline().rstrip("\n") if password_stdin else None
    now = real_now()
    known = await accounts.find_account(at.database, email)
    if known is not None and password is not None:
        raise Conflict(f"There is already an account {known.email}; its password was not changed.")
    async with at.audited("member.added", email, role=role):
        if password is not None:
            await accounts.create_account(at.database, email, now, name=name, password=password)
        account, _ = await at.run(team.add_member, email, role, now, name=name)
    gets_in = account.has_password or account.openid is not None
    link = None if gets_in else _link(at, await accounts.invite(at.database, account.id, now))
    at.say(
        {"email": email, "project_id": at.project_id, "role": role.value, "link": link},
        f"[bold]{email}[/bold] now has the role {role} in {at.project_id}.",
        *(_invitation(link) if link is not None else ()),
    )


@command(app, "list", project_context)
async def show(at: ProjectContext) -> None:
    """List the members of a project."""
    members = await at.run(team.members)
    at.show_list(
        members,
        _as_data,
        ("e-mail", "name", "role", "second factor", "since", "last seen"),
        lambda member: (
            *(member.account.email, member.account.name, member.role),
            *("on" if member.account.has_second_factor else "off", shown(member.since)),
            shown(member.last_seen_at) or "never",
        ),
    )


@command(app, "invite", office)
async def invite(at: Office, email: str = EMAIL) -> None:
    """Print a link to choose a new password. It works once, within seven days."""
    account = await _known(at.database, email)
    async with audited(at.database, None, "account.invited", account.email, account_id=account.id):
        token = await accounts.invite(at.database, account.id, real_now())
    link = _link(at, token)
    at.say({"email": email, "link": link}, *_invitation(link))


@command(app, "reset-second-factor", office)
async def reset_second_factor(at: Office, email: str = EMAIL) -> None:
    """Turn off the second factor of an account whose owner lost the phone and the recovery codes."""
    account = await _known(at.database, email)
    async with audited(at.database, None, "account.second_factor_reset", account.email, account_id=account.id):
        await second_factor.remove(at.database, account.id)
    words = f"[bold]{account.email}[/bold] signs in with the password alone now."
    at.say({"email": account.email, "second_factor": False}, words)


@command(app, "remove", project_context)
async def remove(at: ProjectContext, email: str = EMAIL) -> None:
    """Remove a member from a project and end their sessions."""
    account = await _known(at.database, email)
    async with at.audited("member.removed", account.email):
        await at.run(team.remove_member, account.id)
        await sessions.end_sessions_of(at.database, account.id)
    words = f"[bold]{email}[/bold] was removed from {at.project_id}."
    at.say({"email": email, "project_id": at.project_id, "removed": True}, words)


@command(app, "operator", office)
async def operator(
    at: Office,
    email: str = EMAIL,
    remove: bool = flag("The account is no operator any more.", "--remove"),
) -> None:
    """Make an account an operator, who may see the dashboard's page about the database, or (--remove) undo that."""
    account = await _known(at.database, email)
    action = "operator.removed" if remove else "operator.added"
    async with audited(at.database, None, action, account.email, account_id=account.id):
        account = await team.set_operator(at.database, account, None if remove else real_now())
    operators = await team.addresses(at.database)
    lines = [
        f"[bold]{escape(account.email)}[/bold] is {'no longer ' if remove else 'now '}an operator.",
        f"Operators: {escape(', '.join(operators)) or 'none'}.",
    ]
    if not remove and not account.has_password and account.openid is None:
        lines.append("They have no password yet, and earlier links do not work any more: run `latchkey user invite`.")
    at.say({"email": account.email, "operator": not remove, "operators": operators}, *lines)


async def _known(database: Database, email: str) -> rules.Account:
    account = await accounts.find_account(database, email)
    return found(account, f"There is no account {email}. Create it with `latchkey user create`.")


def _as_data(member: rules.Member) -> dict[str, Any]:
    account = member.account
    return {
        "email": account.email,
        "name": account.name,
        "role": member.role.value,
        "second_factor": account.has_second_factor,
        "since": member.since,
        "last_seen_at": member.last_seen_at,
    }


def _link(at: Office, token: str) -> str:
    """A full link if the address is known: that of the `latchkey up` whose database this is."""
    connection = read_json(DataFolder(at.data).connection)
    of_up = is_of_up(at.config, at.data)
    start = connection.get("base_url", "") if of_up else gather(os.environ, at.config)[0].public_url
    return f"{start}/dashboard/invitations/{token}"


def _invitation(link: str) -> tuple[str, str]:
    where = "this page" if not link.startswith("/") else "this page of your service (put its https:// address in front)"
    return f"The person chooses a password on {where}. The link works once, within seven days:", escape(link)
