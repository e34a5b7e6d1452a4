"""`latchkey project`: the projects of this deployment."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from latchkey.cli.instants import shown
from latchkey.cli.reach import DATA, ConfigOption, DataOption, database_url
from latchkey.now import real_now
from latchkey.storage.database import Database
from latchkey.usecases import projects

app = typer.Typer(no_args_is_help=True, help="Projects: one app family each, with its own customers, catalog and keys.")


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="What people call it.")],
    config: ConfigOption = None,
    data: DataOption = DATA,
) -> None:
    """Make a project."""

    async def run() -> projects.Project:
        async with Database(database_url(config, data), max_size=2) as database:
            return await projects.create_project(database, name, real_now())

    project = asyncio.run(run())
    console = Console(highlight=False)
    console.print(f"[green]✓[/green] Project {project.id} ({project.name})", soft_wrap=True)
    console.print(f"Next: latchkey key create --project {project.id} --name server", style="dim", soft_wrap=True)


@app.command("list")
def show(config: ConfigOption = None, data: DataOption = DATA) -> None:
    """Show all projects."""

    async def run() -> list[projects.Project]:
        async with Database(database_url(config, data), max_size=2) as database:
            return await projects.list_projects(database)

    table = Table("id", "name", "created")
    for project in asyncio.run(run()):
        table.add_row(project.id, project.name, shown(project.created_at))
    Console(highlight=False).print(table)
