"""`latchkey user`: accounts for the dashboard."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from latchkey.cli import output
from latchkey.cli.audited import audited
from latchkey.cli.data_folder import DataFolder
from latchkey.cli.desk import ProjectOption, chosen
from latchkey.cli.files import read_json
from latchkey.cli.output import JsonOption, shown
from latchkey.cli.reach import DATA, ConfigOption, DataOption, database_url, is_of_up
from latchkey.domain.refusal import Conflict, NotFound
from latchkey.domain.team.account import EXPLAINED, Role
from latchkey.now import real_now
from latchkey.settings import gather
from latchkey.storage.database import Database
from latchkey.usecases.access import accounts, second_factor, sessions, team
from latchkey.usecases.deployment import operators

app = typer.Typer(no_args_is_help=True, help="Create, list, invite and remove dashboard accounts.")

EmailArgument = Annotated[str, typer.Argument(help="The e-mail address that the person signs in with.")]


@app.command()
def create(
    email: EmailArgument,
    role: Annotated[Role, typer.Option(help=" ".join(f"{role}: {EXPLAINED[role]}" for role in Role))] = Role.OWNER,
    name: Annotated[str, typer.Option(help="The name shown on pages.")] = "",
    project: ProjectOption = None,
    password_stdin: Annotated[
        bool, typer.Option(help="Read the password from standard input instead of printing a link to choose one.")
    ] = False,
    config: ConfigOption = None,
    data: DataOption = DATA,
    as_json: JsonOption = False,
) -> None:
    """Create an account and add it to a project, or add an existing account to another project."""
    password = sys.stdin.readline().rstrip("\n") if password_stdin else None

    async def work() -> tuple[str, str | None]:
        async with Database(database_url(config, data), max_size=1) as database:
            now = real_now()
            project_id = await chosen(database, project)
            known = await accounts.find_account(database, email)
            if known is not None and password is not None:
                raise Conflict(f"There is already an account {known.email}; its password was not changed.")
            async with audited(database, project_id, "member.added", email, role=role):
                if password is not None:
                    await accounts.create_account(database, email, now, name=name, password=password)
                account, made = await team.add_member(database, project_id, email, role, now, name=name)
            token = await accounts.invite(database, account.id, now) if made and password is None else None
            return project_id, token

    project_id, token = asyncio.run(work())
    if as_json:
        link = _link(token, config, data) if token is not None else None
        output.write({"email": email, "project_id": project_id, "role": role.value, "link": link})
        return
    Console(highlight=False).print(f"[bold]{email}[/bold] now has the role {role} in {project_id}.")
    if token is not None:
        _show_link(token, config, data)


@app.command("list")
def show(
    project: ProjectOption = None, config: ConfigOption = None, data: DataOption = DATA, as_json: JsonOption = False
) -> None:
    """List the members of a project."""

    async def work() -> list[team.Member]:
        async with Database(database_url(config, data), max_size=1) as database:
            return await team.members(database, await chosen(database, project))

    found = asyncio.run(work())
    if as_json:
        output.write_list(_as_data(one) for one in found)
        return
    table = output.table("e-mail", "name", "role", "second factor", "since", "last seen")
    for member in found:
        seen = shown(member.last_seen_at) or "never"
        account, second = member.account, "on" if member.account.has_second_factor else "off"
        table.add_row(escape(account.email), escape(account.name), member.role, second, shown(member.since), seen)
    output.show_table(table)


@app.command()
def invite(
    email: EmailArgument, config: ConfigOption = None, data: DataOption = DATA, as_json: JsonOption = False
) -> None:
    """Print a link to choose a new password. It works once, within seven days."""

    async def work() -> str:
        async with Database(database_url(config, data), max_size=1) as database:
            account = await _known(database, email)
            async with audited(database, None, "account.invited", account.email, account_id=account.id):
                return await accounts.invite(database, account.id, real_now())

    token = asyncio.run(work())
    if as_json:
        output.write({"email": email, "link": _link(token, config, data)})
        return
    _show_link(token, config, data)


@app.command("reset-second-factor")
def reset_second_factor(
    email: EmailArgument, config: ConfigOption = None, data: DataOption = DATA, as_json: JsonOption = False
) -> None:
    """Turn off the second factor of somebody who has lost the phone and the recovery codes."""

    async def work() -> str:
        async with Database(database_url(config, data), max_size=1) as database:
            account = await _known(database, email)
            async with audited(database, None, "account.second_factor_reset", account.email, account_id=account.id):
                await second_factor.remove(database, account.id)
            return account.email

    known = asyncio.run(work())
    if as_json:
        output.write({"email": known, "second_factor": False})
        return
    Console(highlight=False).print(f"[bold]{known}[/bold] signs in with the password alone now.")


@app.command()
def remove(
    email: EmailArgument,
    project: ProjectOption = None,
    config: ConfigOption = None,
    data: DataOption = DATA,
    as_json: JsonOption = False,
) -> None:
    """Remove somebody from a project and end their sessions."""

    async def work() -> str:
        async with Database(database_url(config, data), max_size=1) as database:
            project_id = await chosen(database, project)
            account = await _known(database, email)
            async with audited(database, project_id, "member.removed", account.email):
                await team.remove_member(database, project_id, account.id)
                for stay in await sessions.stays(database, account.id):
                    await sessions.end_stay(database, account.id, stay.id)
            return project_id

    project_id = asyncio.run(work())
    if as_json:
        output.write({"email": email, "project_id": project_id, "removed": True})
        return
    Console(highlight=False).print(f"[bold]{email}[/bold] was removed from {project_id}.")


@app.command()
def operator(
    email: EmailArgument,
    remove: Annotated[bool, typer.Option("--remove", help="The account is no operator any more.")] = False,
    config: ConfigOption = None,
    data: DataOption = DATA,
    as_json: JsonOption = False,
) -> None:
    """Make somebody an operator, who may see the dashboard's page about the database, or (--remove) undo that."""

    async def work() -> tuple[accounts.Account, list[str]]:
        async with Database(database_url(config, data), max_size=1) as database:
            account = await _known(database, email)
            action = "operator.removed" if remove else "operator.added"
            async with audited(database, None, action, account.email, account_id=account.id):
                if remove:
                    await operators.revoke(database, account)
                else:
                    await operators.grant(database, account, real_now())
            return account, await operators.addresses(database)

    account, everybody = asyncio.run(work())
    if as_json:
        output.write({"email": account.email, "operator": not remove, "operators": everybody})
        return
    console = Console(highlight=False)
    console.print(f"[bold]{escape(account.email)}[/bold] is {'no longer ' if remove else 'now '}an operator.")
    console.print(f"Operators: {escape(', '.join(everybody)) or 'nobody'}.")
    if not remove and not account.has_password and account.openid is None:
        console.print("They have no password yet, and earlier links do not work any more: run `latchkey user invite`.")


async def _known(database: Database, email: str) -> accounts.Account:
    account = await accounts.find_account(database, email)
    if account is None:
        raise NotFound(f"There is no account {email}. Create it with `latchkey user create`.")
    return account


def _as_data(member: team.Member) -> dict[str, Any]:
    account = member.account
    return {
        "email": account.email,
        "name": account.name,
        "role": member.role.value,
        "second_factor": account.has_second_factor,
        "since": member.since,
        "last_seen_at": member.last_seen_at,
    }


def _link(token: str, config: Path | None, data: Path) -> str:
    """A full link if the address is known: that of the `latchkey up` whose database this is."""
    connection = read_json(DataFolder(data).connection)
    start = connection.get("base_url", "") if is_of_up(config, data) else gather(os.environ, config)[0].public_url
    return f"{start}/dashboard/invitations/{token}"


def _show_link(token: str, config: Path | None, data: Path) -> None:
    link = _link(token, config, data)
    where = "this page" if not link.startswith("/") else "this page of your service (put its https:// address in front)"
    console = Console(highlight=False)
    console.print(f"The person chooses a password on {where}. The link works once, within seven days:")
    console.print(link, soft_wrap=True, markup=False)
