"""`latchkey admin`: what operators need seldom."""

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from latchkey.cli.command import command, option
from latchkey.cli.project_command import Office, audited, office
from latchkey.now import real_now
from latchkey.process.migration import copy_database
from latchkey.subjects.database_restore.command import after_restore
from latchkey.subjects.projects.usecases import list_projects, load_project
from latchkey.subjects.segments.usecases.projector import rebuild_now

app = typer.Typer(no_args_is_help=True)
app.command("after-restore")(after_restore)
app.command("copy-database")(copy_database)


@command(app, "rebuild-lists", office)
async def rebuild_lists(
    at: Office, project: str | None = option("The project's id. Without it: all projects.")
) -> None:
    """Rebuild the customer lists from the stored customers.

    The service can run meanwhile. Until it is done, lists with a filter are incomplete, and say so."""
    found = [await load_project(at.database, project)] if project else await list_projects(at.database)
    ids = [project_row.id for project_row in found]
    columns = TextColumn("{task.fields[project]}: customers"), BarColumn(), MofNCompleteColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=at.as_json) as bar:
        for id in ids:
            task = bar.add_task("", total=None, project=id)

            def report(counted: int, newest: int, task: TaskID = task) -> None:
                bar.update(task, completed=counted, total=newest)

            async with audited(at.database, id, "customer_lists.rebuilt", id):
                await rebuild_now(at.database, id, real_now, report)
    many = f"{len(ids)} {'project' if len(ids) == 1 else 'projects'}"
    at.done({"object": "customer_list_rebuild", "projects": ids}, f"Customer lists rebuilt: {many}")
