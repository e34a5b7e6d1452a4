"""`latchkey charts` and `latchkey admin rebuild-charts`: the sums behind the charts."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from latchkey.cli import output
from latchkey.cli.audited import audited
from latchkey.cli.desk import Desk, command, desk
from latchkey.cli.output import JsonOption
from latchkey.cli.reach import DATA, ConfigOption, DataOption, database_url
from latchkey.now import real_now
from latchkey.storage.database import Database
from latchkey.usecases.access.projects import list_projects, load_project
from latchkey.usecases.charts import rebuilding
from latchkey.usecases.charts.rebuilding import Reached

app = typer.Typer(no_args_is_help=True, help="Choose the attributes that charts are broken down by.")

_STEPS = {"clearing": "deleting the old sums", "summing": "adding up the stored facts", "events": "events"}


def rebuild(
    project: Annotated[str | None, typer.Option(help="The project's id. Without it: all projects.")] = None,
    config: ConfigOption = None,
    data: DataOption = DATA,
    as_json: JsonOption = False,
) -> None:
    """Recompute the sums of all charts from the stored facts and the events.

    The service can run meanwhile. Until it is done, charts say that they are incomplete."""
    url = database_url(config, data)

    async def run() -> list[str]:
        async with Database(url, max_size=2) as database:
            found = [await load_project(database, project)] if project else await list_projects(database)
            columns = TextColumn("{task.fields[project]}: {task.description}"), BarColumn(), MofNCompleteColumn()
            with Progress(*columns, console=Console(stderr=True), transient=True, disable=as_json) as bar:
                for one in found:
                    task = bar.add_task(_STEPS["clearing"], total=None, project=one.id)
                    async with audited(database, one.id, "charts.rebuilt", one.id):
                        await rebuilding.rebuild(database, one.id, real_now, partial(_show, bar, task))
            return [one.id for one in found]

    done = asyncio.run(run())
    if as_json:
        output.write({"object": "chart_rebuild", "projects": done})
    else:
        output.done(f"Charts recomputed: {len(done)} {'project' if len(done) == 1 else 'projects'}")


def _show(bar: Progress, task: TaskID, reached: Reached) -> None:
    bar.update(task, description=_STEPS[reached.step], completed=reached.position, total=reached.head)


@command(app, "attributes", desk)
async def attributes(
    at: Desk,
    names: Annotated[
        list[str] | None, typer.Argument(help="Names of attributes. Without any, charts use none.")
    ] = None,
) -> None:
    """Choose the customer attributes that charts can be filtered and broken down by.

    The service then counts all customers again, in the background."""
    chosen = sorted(set(names or ()))
    async with at.audited("charts.attributes_chosen", at.project_id, names=", ".join(chosen)):
        await rebuilding.choose_attributes(at.database, at.project_id, chosen)
    if at.as_json:
        output.write({"object": "chart_attributes", "project_id": at.project_id, "attributes": chosen})
    else:
        output.done(f"Charts of {at.project_id} can be broken down by: {', '.join(chosen) or 'no attribute'}")
