"""`latchkey key`: API keys. A key is shown once, when it is created."""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Column, Table

from latchkey.cli.instants import shown
from latchkey.cli.reach import DATA, ConfigOption, DataOption, database_url
from latchkey.domain.refusal import Refusal
from latchkey.now import real_now
from latchkey.storage.database import Database
from latchkey.usecases.access import keys, projects

app = typer.Typer(no_args_is_help=True, help="Create, list and revoke API keys.")

ProjectOption = Annotated[
    str | None, typer.Option("--project", help="The project's id. Not needed if there is only one project.")
]


@app.command()
def create(
    name: Annotated[str, typer.Option(help="A name, to recognise the key by.")],
    project: ProjectOption = None,
    scopes: Annotated[str, typer.Option(help="What a secret key may do: read, write, or read,write.")] = "read,write",
    rate_limit: Annotated[
        int, typer.Option(help="How many requests the key may make in any 60 seconds.", min=1)
    ] = keys.RATE_LIMIT,
    app_id: Annotated[str | None, typer.Option("--app", help="Create a public key for this app (its id).")] = None,
    store: Annotated[
        str | None,
        typer.Option(
            help=f"Create an app in this store and a public key for it ({', '.join(projects.PUBLIC_PREFIXES)})."
        ),
    ] = None,
    config: ConfigOption = None,
    data: DataOption = DATA,
) -> None:
    """Create an API key: a secret one for servers, or with --app or --store a public one for apps."""

    async def run() -> keys.IssuedKey:
        async with Database(database_url(config, data), max_size=2) as database:
            owner = await chosen(database, project)
            now = real_now()
            if app_id is None and store is None:
                wanted = {scope.strip() for scope in scopes.split(",")}
                return await keys.create_secret_key(database, owner, name, now, scopes=wanted, rate_limit=rate_limit)
            target = app_id or (await projects.create_app(database, owner, name, store or "", now)).id
            return await keys.create_public_key(database, owner, target, name, now, rate_limit=rate_limit)

    issued = asyncio.run(run())
    # Only the key goes to stdout, so that a script can read it; everything else goes to stderr.
    told = Console(stderr=True, highlight=False)
    told.print(f"[green]✓[/green] {issued.key.kind} key {issued.key.id} of {issued.key.project_id}", soft_wrap=True)
    if issued.key.app_id is not None:
        told.print(f"[green]✓[/green] for the app {issued.key.app_id}", soft_wrap=True)
    told.print("Copy the key now. Only a hash of it is stored, so it cannot be shown again.", style="bold")
    sys.stdout.write(issued.plaintext + "\n")


@app.command("list")
def show(project: ProjectOption = None, config: ConfigOption = None, data: DataOption = DATA) -> None:
    """List a project's keys. Of each key only the beginning and the end are shown."""

    async def run() -> list[keys.ApiKey]:
        async with Database(database_url(config, data), max_size=2) as database:
            owner = await chosen(database, project)
            found: list[keys.ApiKey] = []
            while page := await keys.list_keys(database, owner, after=found[-1].id if found else None):
                found += page
            return found

    # Ids are copied: on a narrow terminal the other columns are cut first.
    id, key_column = Column("id", no_wrap=True), Column("key", no_wrap=True)
    since = Column("since", overflow="fold", min_width=len("2026-01-01"))
    table = Table(id, Column("name", overflow="fold"), key_column, "kind", "limit", since, box=None)
    for key in asyncio.run(run()):
        table.add_row(
            key.id,
            key.name,
            key.hint,
            "public" if key.kind == "public" else ", ".join(key.scopes),
            str(key.rate_limit),
            f"revoked {shown(key.revoked_at)}" if key.revoked_at else shown(key.created_at),
            style="dim" if key.revoked_at else None,
        )
    Console(highlight=False).print(table)


@app.command()
def revoke(
    key_id: Annotated[str, typer.Argument(help="The key's id, as `latchkey key list` shows it.")],
    project: ProjectOption = None,
    config: ConfigOption = None,
    data: DataOption = DATA,
) -> None:
    """Revoke a key for good. The next request with it is refused."""

    async def run() -> keys.ApiKey:
        async with Database(database_url(config, data), max_size=2) as database:
            return await keys.revoke_key(database, await chosen(database, project), key_id, real_now())

    key = asyncio.run(run())
    Console(highlight=False).print(f"[green]✓[/green] {key.id} ({key.hint}) was revoked on {shown(key.revoked_at)}")


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
