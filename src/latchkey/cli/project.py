"""`latchkey project`: the projects of this deployment."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from latchkey.cli import output
from latchkey.cli.audited import audited
from latchkey.cli.desk import chosen
from latchkey.cli.output import JsonOption, shown
from latchkey.cli.reach import DATA, ConfigOption, DataOption, database_url
from latchkey.domain.customers.identity import RestoreBehavior
from latchkey.domain.refusal import Refusal
from latchkey.now import real_now
from latchkey.storage.database import Database
from latchkey.usecases.access import projects
from latchkey.usecases.rendering import management as render

app = typer.Typer(
    no_args_is_help=True, help="Create, list and change projects. A project has its own customers, catalog and keys."
)


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="The name that people see.")],
    config: ConfigOption = None,
    data: DataOption = DATA,
    as_json: JsonOption = False,
) -> None:
    """Create a project."""

    async def run() -> projects.Project:
        async with Database(database_url(config, data), max_size=2) as database:
            return await projects.create_project(database, name, real_now())

    project = asyncio.run(run())
    if as_json:
        output.write(render.project(project))
        return
    console = Console(highlight=False)
    console.print(f"[green]✓[/green] Project {project.id} ({project.name})", soft_wrap=True)
    console.print(
        f"Its test store is {project.test_store}: test purchases give access and cost nothing. "
        f"Before you ship: latchkey project set {project.id} --test-store closed",
        style="dim",
        soft_wrap=True,
    )
    console.print(f"Next: latchkey key create --project {project.id} --name server", style="dim", soft_wrap=True)


@app.command("set")
def change(
    project: Annotated[
        str | None,
        typer.Argument(envvar="LATCHKEY_PROJECT", help="The project's id. Not needed if there is only one project."),
    ] = None,
    name: Annotated[str | None, typer.Option(help="The name that people see.")] = None,
    restore_behavior: Annotated[
        RestoreBehavior | None, typer.Option(help="What happens to a purchase that another user restores.")
    ] = None,
    test_store: Annotated[
        projects.TestStore | None,
        typer.Option(help="Whether test purchases can be made and renewed. Close it before you go live."),
    ] = None,
    config: ConfigOption = None,
    data: DataOption = DATA,
    as_json: JsonOption = False,
) -> None:
    """Change a project's settings. What is not given stays as it is."""
    given = {"name": name, "restore_behavior": restore_behavior, "test_store": test_store}
    changes = {key: str(value) for key, value in given.items() if value is not None}
    if not changes:
        raise Refusal("Nothing to change was given. Use --name, --restore-behavior or --test-store.")

    async def run() -> projects.Project:
        async with Database(database_url(config, data), max_size=2) as database:
            id = await chosen(database, project)
            async with audited(database, id, "project.changed", id, **changes):
                return await projects.update_project(
                    database, id, name=name, restore_behavior=restore_behavior, test_store=test_store
                )

    changed = asyncio.run(run())
    if as_json:
        output.write(render.project(changed))
        return
    Console(highlight=False).print(
        f"[green]✓[/green] Project {changed.id} ({escape(changed.name)}): "
        f"restored purchases {changed.restore_behavior}, test store {changed.test_store}",
        soft_wrap=True,
    )


@app.command("list")
def show(config: ConfigOption = None, data: DataOption = DATA, as_json: JsonOption = False) -> None:
    """List all projects."""

    async def run() -> list[projects.Project]:
        async with Database(database_url(config, data), max_size=2) as database:
            return await projects.list_projects(database)

    found = asyncio.run(run())
    if as_json:
        output.write_list(render.project(one) for one in found)
        return
    table = Table(Column("id", no_wrap=True), "name", "restored purchases", "test store", "created")
    for project in found:
        table.add_row(project.id, project.name, project.restore_behavior, project.test_store, shown(project.created_at))
    Console(highlight=False).print(table)
