"""`latchkey admin after-restore`: makes a restored database fit to work on, also that of a stopped `latchkey up`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from latchkey.cli import output
from latchkey.cli.data_folder import DataFolder
from latchkey.cli.desk import ACTOR
from latchkey.cli.files import read_json
from latchkey.cli.output import JsonOption, shown
from latchkey.cli.reach import DATA, ConfigOption
from latchkey.domain.restore import Origin
from latchkey.now import real_now
from latchkey.settings import Problem, SettingsRefusedError, load
from latchkey.storage import migrate
from latchkey.storage.database import Database, without_password
from latchkey.storage.embedded.server import EmbeddedServer
from latchkey.storage.errors import EmbeddedServerError
from latchkey.usecases.restoring.after_restore import Report, Wanted
from latchkey.usecases.restoring.after_restore import after_restore as run_it

# Steps that may take long, and the word for what they count, in the order in which they run.
_STEPS = {
    "projects moved on": "projects: the next events get sequences and positions that were never used",
    "deliveries held": "waiting deliveries are held: marked as failed, not sent",
    "replays stopped": "replays stopped",
    "operational events held": "operational events held",
    "histories of stores to read": "stores are asked for their histories of notifications",
    "purchases to read from their stores": "purchases are read again from their stores",
}


def after_restore(
    config: ConfigOption = None,
    data: Annotated[
        Path, typer.Option(help="The data folder of a stopped `latchkey up`. Used if no database is configured.")
    ] = DATA,
    send_waiting: Annotated[
        bool,
        typer.Option("--send-waiting", help="Send the deliveries that were queued when the backup was made."),
    ] = False,
    nothing_lost: Annotated[
        bool,
        typer.Option(
            "--nothing-lost",
            help="The database was moved, or a standby was promoted, and no commit was lost. Only records the new "
            "server.",
        ),
    ] = False,
    again: Annotated[bool, typer.Option("--again", help="Run it again for the same restore.")] = False,
    purchases_per_minute: Annotated[
        int, typer.Option(help="How many purchases to read from the stores in a minute, at most.", min=1, max=60_000)
    ] = 600,
    as_json: JsonOption = False,
) -> None:
    """Run this once after restoring the database from a backup, before the service starts.

    Queued deliveries are marked as failed, so that no old webhook is sent twice. New events get sequences that
    were never used. Purchases are read from the stores again. If it is interrupted, run it again."""
    wanted = Wanted(send_waiting, nothing_lost, again, purchases_per_minute)
    with database_at_rest(config, data) as url:
        report = asyncio.run(run(url, wanted, Console(highlight=False, quiet=as_json)))
    if as_json:
        output.write(as_data(report))


async def run(url: str, wanted: Wanted, console: Console) -> Report:
    console.print(f"Database {without_password(url)}", soft_wrap=True)
    async with Database(url, max_size=2, application_name="latchkey admin after-restore") as database:
        async with database.acquire() as connection:
            await migrate.require_current(connection)
        with console.status("Working") as status:
            report = await run_it(
                database,
                wanted,
                real_now(),
                actor=ACTOR,
                told=lambda step, done: status.update(f"{done:,} {_STEPS[step]}"),
            )
    show(report, wanted, console)
    return report


def as_data(report: Report) -> dict[str, Any]:
    counts = {step.replace(" ", "_"): count for step, count in report.counts.items()}
    return {"origin": report.origin, "done_before": report.done_before, "counts": counts}


def show(report: Report, wanted: Wanted, console: Console, start: str = "latchkey serve") -> None:
    if wanted.nothing_lost:
        console.print("[green]✓[/green] Noted: this is the server of the database now. Nothing else was changed.")
        return
    if report.done_before is not None:
        console.print(
            f"[green]✓[/green] Nothing to do: this was done for this restore on {shown(report.done_before)}. "
            "(--again does it once more.)",
            soft_wrap=True,
        )
        return
    if report.origin is Origin.SAME:
        console.print("This server was known already. If nothing was restored, it does no harm that this ran.")
    for step, words in _STEPS.items():
        if step in report.counts:
            console.print(f"[green]✓[/green] {report.counts[step]:,} {words}", soft_wrap=True)
    if wanted.send_waiting:
        console.print("[green]✓[/green] what waits is sent when the service starts", soft_wrap=True)
    console.print(_NEXT.strip("\n").replace("START", start), soft_wrap=True, markup=False)


_NEXT = """
What you have to do now:
  1. Start the service: START
  2. Bring the copy of every consumer that you run up to date. The reference consumer, with its own settings:
     latchkey consumer reconcile --from-start
     Others: read GET /v2/projects/{project_id}/customers/{customer_id} for every user they know.
  3. What was held is listed under each webhook, with the status "failed". To send it after all, send "everything that
     failed since ..." again, in the dashboard or with POST .../replay.
  4. What the stores cannot tell is lost: purchases in Google Play that were new after the moment of the backup (phones
     send them again when the app is opened, or with "restore purchases"), and everything that came through the API:
     grants, attributes, virtual currency, log-ins, purchases of other stores. Send it again if you have it elsewhere.
"""


@contextmanager
def database_of(folder: DataFolder) -> Iterator[str]:
    """The database of the `up` that runs in this folder; without one, of a server that runs meanwhile."""
    server = EmbeddedServer(folder.path)
    try:
        server.claim()
    except EmbeddedServerError:
        running = read_json(folder.connection).get("database_url")
        if not running:
            raise
        yield str(running)
        return
    try:
        server.start()
        yield server.url()
    finally:
        server.stop()


@contextmanager
def database_at_rest(config: Path | None, data: Path) -> Iterator[str]:
    """The configured database, or that of a data folder whose `latchkey up` is stopped."""
    if configured := load(os.environ, config).database_url:
        yield configured
        return
    folder = DataFolder(data)
    if not (folder.path / "postgres" / "PG_VERSION").exists():
        raise SettingsRefusedError(
            [
                Problem(
                    "LATCHKEY_DATABASE_URL",
                    f"is missing, and {data} is not the data folder of a `latchkey up`.",
                    "Set it, or name the folder with --data.",
                )
            ]
        )
    with database_of(folder) as url:
        yield url
