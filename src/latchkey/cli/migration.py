"""`latchkey migrate`: creates or updates the database schema."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated

import typer
from rich.console import Console

from latchkey.cli.reach import DATA, ConfigOption, DataOption, database_url
from latchkey.storage import migrate as migrations
from latchkey.storage.database import connect, without_password


def migrate(
    config: ConfigOption = None,
    data: DataOption = DATA,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list the migrations that would run.")] = False,
    after: Annotated[
        bool,
        typer.Option(
            "--after", help="Finish the upgrade. Only when no process of an older version is running any more."
        ),
    ] = False,
) -> None:
    """Create or update the database schema. Run it before the first start, and in each upgrade before the processes of
    the new version start."""
    asyncio.run(run(database_url(config, data), dry_run, after, Console(highlight=False)))


async def run(url: str, dry_run: bool, after: bool, console: Console) -> None:
    connection = await connect(url, application_name="latchkey migrate")
    try:
        console.print(
            f"Database {without_password(url)}, at version {await migrations.applied(connection)}", soft_wrap=True
        )
        if dry_run:
            for migration in await migrations.pending(connection, after=after):
                console.print(f"  would run {migration.label}")
            return
        began = time.monotonic()
        done = await migrations.migrate(
            connection, after=after, told=lambda migration: console.print(f"  {migration.label}")
        )
        words = f"{len(done)} migration(s) in {time.monotonic() - began:.1f} s" if done else "Nothing to do"
        console.print(f"[green]✓[/green] {words}; at version {await migrations.applied(connection)}")
        if waiting := await migrations.pending_after(connection):
            labels = ", ".join(migration.label for migration in waiting)
            console.print(
                f"  {labels} is pending. Restart every process with this version, then run `latchkey migrate --after`.",
                soft_wrap=True,
            )
    finally:
        await connection.close()
