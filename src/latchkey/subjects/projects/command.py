"""`latchkey project`: the projects of this deployment."""

import typer
from rich.console import Console
from rich.table import Column, Table

from latchkey.cli import output
from latchkey.cli.command import argument, command, option
from latchkey.cli.output import shown
from latchkey.cli.project_command import Office, audited, chosen, office
from latchkey.domain.customers.identity import RestoreBehavior
from latchkey.domain.refusal import Refusal
from latchkey.engine.storage.catalog import app_rows as rules
from latchkey.now import real_now
from latchkey.subjects.projects import render, usecases

app = typer.Typer(no_args_is_help=True)


@command(app, "create", office)
async def create(at: Office, name: str = argument("The name that people see.")) -> None:
    """Create a project."""
    project = await usecases.create_project(at.database, name, real_now())
    at.say(
        render.project(project),
        f"[green]✓[/green] Project {project.id} ({output.plain(project.name)})",
        f"[dim]Its test store is {project.test_store}: test purchases give access and cost nothing. "
        f"Before you ship: latchkey project set {project.id} --test-store closed[/dim]",
        f"[dim]Next: latchkey key create --project {project.id} --name server[/dim]",
    )


@command(app, "set", office)
async def change(
    at: Office,
    project: str | None = argument(
        "The project's id. Not needed if there is only one project.", default=None, envvar="LATCHKEY_PROJECT"
    ),
    name: str | None = option("The name that people see."),
    restore_behavior: RestoreBehavior | None = option("What happens to a purchase that another user restores."),
    test_store: rules.TestStore | None = option(
        "Whether test purchases can be made and renewed. Close it before you go live."
    ),
    time_zone: str | None = option("The IANA name of the time zone of its pages, such as Europe/Berlin."),
) -> None:
    """Change a project's settings. What is not given stays as it is."""
    given = {"name": name, "restore_behavior": restore_behavior, "test_store": test_store, "time_zone": time_zone}
    changes = {key: str(value) for key, value in given.items() if value is not None}
    if not changes:
        raise Refusal("Nothing to change was given. Use --name, --restore-behavior, --test-store or --time-zone.")
    id = await chosen(at.database, project)
    async with audited(at.database, id, "project.changed", id, **changes):
        changed = await usecases.update_project(
            at.database,
            id,
            name=name,
            restore_behavior=restore_behavior,
            test_store=test_store,
            time_zone=time_zone,
        )
    at.done(
        render.project(changed),
        f"Project {changed.id} ({output.plain(changed.name)}): "
        f"restored purchases {changed.restore_behavior}, test store {changed.test_store}, "
        f"time zone {changed.time_zone}",
    )


@command(app, "list", office)
async def show(at: Office) -> None:
    """List all projects."""
    found = await usecases.list_projects(at.database)
    if at.as_json:
        output.write_list(render.project(member) for member in found)
        return
    table = Table(Column("id", no_wrap=True), "name", "restored purchases", "test store", "created")
    for project in found:
        table.add_row(project.id, project.name, project.restore_behavior, project.test_store, shown(project.created_at))
    Console(highlight=False).print(table)
