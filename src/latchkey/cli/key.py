"""`latchkey key`: API keys. A secret key is shown once, when it is created."""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated

import typer
from msgspec import UNSET, UnsetType
from rich.console import Console

from latchkey.cli import output
from latchkey.cli.audited import audited
from latchkey.cli.instants import shown, typed_ahead
from latchkey.cli.output import JsonOption
from latchkey.cli.reach import DATA, ConfigOption, DataOption, database_url
from latchkey.domain.instants import Ms
from latchkey.domain.refusal import Refusal
from latchkey.domain.team.key_rules import LONGEST_OVERLAP_DAYS, OVERLAP_DAYS
from latchkey.now import real_now
from latchkey.storage.database import Database
from latchkey.usecases.access import keys, projects
from latchkey.usecases.rendering import management as render
from latchkey.wire.management import ApiKey, PublicApiKey

app = typer.Typer(no_args_is_help=True, help="Create, list, change, replace and revoke API keys.")

ProjectOption = Annotated[
    str | None,
    typer.Option(
        "--project", envvar="LATCHKEY_PROJECT", help="The project's id. Not needed if there is only one project."
    ),
]
ExpiresOption = Annotated[
    str | None,
    typer.Option(
        "--expires", help="When a secret key stops working: a date and time in UTC, or in how long: 12h, 90d."
    ),
]
NetworksOption = Annotated[
    list[str] | None,
    typer.Option("--allow", help="A secret key works only from this address or network. May be given several times."),
]
KeyArgument = Annotated[str, typer.Argument(help="The key's id, as `latchkey key list` shows it.")]


@app.command()
def create(
    name: Annotated[str, typer.Option(help="A name for people.")],
    project: ProjectOption = None,
    scopes: Annotated[
        str, typer.Option(help="What a secret key may do: read, write, charts (only charts), joined by commas.")
    ] = "read,write",
    rate_limit: Annotated[
        int, typer.Option(help="How many requests the key may make in any 60 seconds.", min=1)
    ] = keys.RATE_LIMIT,
    app_id: Annotated[str | None, typer.Option("--app", help="Create a public key for this app (its id).")] = None,
    expires: ExpiresOption = None,
    allow: NetworksOption = None,
    shape: Annotated[
        str,
        typer.Option(help="vendor: V2 replies to a secret key are as the vendor's clients expect them."),
    ] = "latchkey",
    config: ConfigOption = None,
    data: DataOption = DATA,
    as_json: JsonOption = False,
) -> None:
    """Create an API key: a secret one for servers, or with --app a public one for apps."""

    async def run() -> keys.IssuedKey:
        async with Database(database_url(config, data), max_size=2) as database:
            owner = await chosen(database, project)
            now = real_now()
            if app_id is None:
                wanted = {scope.strip() for scope in scopes.split(",")}
                return await keys.create_secret_key(
                    database,
                    owner,
                    name,
                    now,
                    scopes=wanted,
                    rate_limit=rate_limit,
                    expires_at=typed_ahead(expires, now) if expires is not None else None,
                    allowed_networks=allow or (),
                    shape=shape,
                )
            if expires is not None or allow or shape != "latchkey":
                raise Refusal(
                    "A public key ships inside an app and works on every phone: it has no expiry, networks or shape."
                )
            return await keys.create_public_key(database, owner, app_id, name, now, rate_limit=rate_limit)

    _show_once(asyncio.run(run()), as_json)


def _show_once(issued: keys.IssuedKey, as_json: bool) -> None:
    if as_json:
        output.write(_as_data(issued.key, issued.plaintext))
        return
    # Only the key goes to stdout, so that a script can read it; everything else goes to stderr.
    told = Console(stderr=True, highlight=False)
    told.print(f"[green]✓[/green] {issued.key.kind} key {issued.key.id} of {issued.key.project_id}", soft_wrap=True)
    if issued.key.app_id is not None:
        told.print(f"[green]✓[/green] for the app {issued.key.app_id}", soft_wrap=True)
    if issued.key.kind == "secret":
        told.print("Copy the key now. Only a hash of it is stored, so it cannot be shown again.", style="bold")
    sys.stdout.write(issued.plaintext + "\n")


@app.command("list")
def show(
    project: ProjectOption = None, config: ConfigOption = None, data: DataOption = DATA, as_json: JsonOption = False
) -> None:
    """List a project's keys. Only the beginning and the end of each key are shown."""

    async def run() -> list[keys.ApiKey]:
        async with Database(database_url(config, data), max_size=2) as database:
            owner = await chosen(database, project)
            found: list[keys.ApiKey] = []
            while page := await keys.list_keys(database, owner, after=found[-1].id if found else None):
                found += page
            return found

    listed = asyncio.run(run())
    if as_json:
        output.write_list(_as_data(one) for one in listed)
        return
    table = output.table("id", "name", "key", "kind", "limit", "since", "last used", "works")
    now = real_now()
    for key in listed:
        table.add_row(
            key.id,
            output.plain(key.name),
            key.hint,
            "public" if key.kind == "public" else _may(key),
            str(key.rate_limit),
            f"revoked {shown(key.revoked_at)}" if key.revoked_at else shown(key.created_at),
            shown(key.last_used_at) if key.last_used_at is not None else "never",
            _works(key, now),
            style="dim" if key.revoked_at or (key.rules and key.rules.is_expired(now)) else None,
        )
    output.show_table(table)


@app.command()
def edit(
    key_id: KeyArgument,
    name: Annotated[str | None, typer.Option(help="A new name.")] = None,
    rate_limit: Annotated[
        int | None, typer.Option(help="How many requests the key may make in any 60 seconds.", min=1)
    ] = None,
    expires: ExpiresOption = None,
    never_expires: Annotated[bool, typer.Option("--never-expires", help="Remove the expiry.")] = False,
    allow: NetworksOption = None,
    allow_everywhere: Annotated[bool, typer.Option("--allow-everywhere", help="Allow all networks.")] = False,
    project: ProjectOption = None,
    config: ConfigOption = None,
    data: DataOption = DATA,
    as_json: JsonOption = False,
) -> None:
    """Change a secret key's name, limit, expiry or networks. --allow replaces all networks."""
    if (expires is not None and never_expires) or (allow and allow_everywhere):
        raise Refusal("These options contradict each other.")

    async def run() -> keys.ApiKey:
        async with Database(database_url(config, data), max_size=2) as database:
            now = real_now()
            ends = typed_ahead(expires, now) if expires is not None else None

            def change(key: keys.ApiKey) -> keys.KeyChange:
                return keys.KeyChange(
                    name=name or key.name,
                    rate_limit=rate_limit or key.rate_limit,
                    expires_at=None if never_expires else ends or key.expires_at,
                    allowed_networks=() if allow_everywhere else tuple(allow or key.allowed_networks),
                )

            project_id = await chosen(database, project)
            async with audited(database, project_id, "key.changed", key_id):
                return await keys.change_key(database, project_id, key_id, change, now)

    key = asyncio.run(run())
    if as_json:
        output.write(_as_data(key))
        return
    Console(highlight=False).print(f"[green]✓[/green] {key.id} ({key.hint}) works {_works(key, real_now())}")


@app.command()
def rotate(
    key_id: KeyArgument,
    overlap_days: Annotated[
        int, typer.Option(help="How many more days the old key works.", min=0, max=LONGEST_OVERLAP_DAYS)
    ] = OVERLAP_DAYS,
    project: ProjectOption = None,
    config: ConfigOption = None,
    data: DataOption = DATA,
    as_json: JsonOption = False,
) -> None:
    """Replace a secret key: create one like it, and let the old one expire."""

    async def run() -> tuple[keys.IssuedKey, keys.ApiKey]:
        async with Database(database_url(config, data), max_size=2) as database:
            project_id = await chosen(database, project)
            async with audited(database, project_id, "key.rotated", key_id):
                return await keys.rotate_key(database, project_id, key_id, real_now(), overlap_days=overlap_days)

    issued, old = asyncio.run(run())
    if as_json:
        output.write({"new": _as_data(issued.key, issued.plaintext), "old": _as_data(old)})
        return
    told = Console(stderr=True, highlight=False)
    told.print(f"[green]✓[/green] {old.id} ({old.hint}) works until {shown(old.expires_at)}", soft_wrap=True)
    _show_once(issued, as_json)


@app.command()
def revoke(
    key_id: KeyArgument,
    project: ProjectOption = None,
    config: ConfigOption = None,
    data: DataOption = DATA,
    as_json: JsonOption = False,
) -> None:
    """Revoke a key for good. The next request with it is refused."""

    async def run() -> keys.ApiKey:
        async with Database(database_url(config, data), max_size=2) as database:
            return await keys.revoke_key(database, await chosen(database, project), key_id, real_now())

    key = asyncio.run(run())
    if as_json:
        output.write(_as_data(key))
        return
    Console(highlight=False).print(f"[green]✓[/green] {key.id} ({key.hint}) was revoked on {shown(key.revoked_at)}")


def _as_data(key: keys.ApiKey, plaintext: str | UnsetType = UNSET) -> ApiKey | PublicApiKey:
    """As V2 shows it. A public key is no secret, so it is always there."""
    if key.kind == "public":
        return render.public_api_key(key.project_id, key)
    return render.api_key(key.project_id, key, plaintext)


def _may(key: keys.ApiKey) -> str:
    scopes = ", ".join(key.scopes)
    return f"{scopes} (vendor's shape)" if key.shape == "vendor" else scopes


def _works(key: keys.ApiKey, now: Ms) -> str:
    """When and from where, in words."""
    if key.revoked_at is not None:
        return "no more"
    when = "always"
    if key.expires_at is not None:
        when = f"{'until' if key.expires_at > now else 'no more, it expired'} {shown(key.expires_at)}"
    return f"{when}, only from {', '.join(key.allowed_networks)}" if key.allowed_networks else when


async def chosen(database: Database, project: str | None) -> str:
    if project is not None:
        return (await projects.load_project(database, project)).id
    found = await projects.list_projects(database)
    if len(found) != 1:
        raise Refusal(
            "There is no project yet. Create one with `latchkey project create`."
            if not found
            else f"There are several projects. Choose one with --project: {', '.join(one.id for one in found[:10])}."
        )
    return found[0].id
