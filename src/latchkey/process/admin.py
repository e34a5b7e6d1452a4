"""`latchkey admin`: what operators need seldom."""

from collections.abc import Awaitable, Callable
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from latchkey.cli.command import command
from latchkey.cli.project_command import Office, audited, office
from latchkey.now import real_now
from latchkey.process.migration import copy_database
from latchkey.subjects.database_restore.command import after_restore
from latchkey.subjects.projects.usecases import list_projects, load_project
from latchkey.subjects.segments.usecases.projector import rebuild_now

app = typer.Typer(no_args_is_help=True)
app.command("after-restore")(after_restore)
app.command("copy-database")(copy_database)

ProjectOption = Annotated[str | None, typer.Option(help="The project's id. Without it: all projects.")]
# The step, how far it is, and its end.
Reporter = Callable[[str, int, int], None]


@command(app, "rebuild-lists", office)
async def rebuild_lists(at: Office, project: ProjectOption = None) -> None:
    """Rebuild the customer lists from the stored customers.

    The service can run meanwhile. Until it is done, lists with a filter are incomplete, and say so."""

    async def work(id: str, report: Reporter) -> None:
        async with audited(at.database, id, "customer_lists.rebuilt", id):
            await rebuild_now(at.database, id, real_now, lambda counted, newest: report("customers", counted, newest))

    await _rebuild(at, project, work, "customer_list_rebuild", "Customer lists rebuilt")


async def _rebuild(
    at: Office, project: str | None, work: Callable[[str, Reporter], Awaitable[None]], kind: str, words: str
) -> None:
    found = [await load_project(at.database, project)] if project else await list_projects(at.database)
    columns = TextColumn("{task.fields[project]}: {task.description}"), BarColumn(), MofNCompleteColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=at.as_json) as bar:
        for one in found:
            task = bar.add_task("", total=None, project=one.id)

            def report(step: str, reached: int, end: int, task: TaskID = task) -> None:
                bar.update(task, description=step, completed=reached, total=end)

            await work(one.id, report)
    many = f"{len(found)} {'project' if len(found) == 1 else 'projects'}"
    at.done({"object": kind, "projects": [one.id for one in found]}, f"{words}: {many}")
