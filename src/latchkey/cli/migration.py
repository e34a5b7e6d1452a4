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
from latchkey.storage.distribution.distribute import (
    SHARDS,
    distribute,
    require_cluster,
    require_finished_upgrade,
    undistributed,
)
from latchkey.storage.distribution.presence import is_distributed
from latchkey.storage.distribution.tables import TABLES


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
    distributed: Annotated[
        bool,
        typer.Option(
            "--distributed",
            help="Also spread the rows of projects over the nodes of a Citus cluster. Only once; stop all processes "
            "before, if there are rows.",
        ),
    ] = False,
    shards: Annotated[
        int,
        typer.Option(
            "--shards", min=1, max=10_000, help="With --distributed: into how many shards the projects are divided."
        ),
    ] = SHARDS,
) -> None:
    """Create or update the database schema. Run it before the first start, and in each upgrade before the processes of
    the new version start."""
    asyncio.run(run(database_url(config, data), dry_run, after, Console(highlight=False), distributed, shards))


async def run(
    url: str, dry_run: bool, after: bool, console: Console, distributed: bool = False, shards: int = SHARDS
) -> None:
    connection = await connect(url, application_name="latchkey migrate")
    try:
        if distributed:
            await require_cluster(connection)
        console.print(
            f"Database {without_password(url)}, at version {await migrations.applied(connection)}", soft_wrap=True
        )
        if dry_run:
            for migration in await migrations.pending(connection, after=after):
                console.print(f"  would run {migration.label}")
            if distributed:
                for table in await undistributed(connection):
                    console.print(f"  would distribute {table}: {TABLES[table]}")
            return
        began = time.monotonic()
        done = await migrations.migrate(
            connection, after=after, told=lambda migration: console.print(f"  {migration.label}")
        )
        words = f"{len(done)} migration(s) in {time.monotonic() - began:.1f} s" if done else "Nothing to do"
        console.print(f"[green]✓[/green] {words}; at version {await migrations.applied(connection)}")
        if distributed or await is_distributed(connection):
            await require_finished_upgrade(connection)
            began = time.monotonic()
            await distribute(connection, lambda words: console.print(f"  {words}"), shards=shards)
            console.print(f"[green]✓[/green] Distributed, in {time.monotonic() - began:.1f} s")
        if waiting := await migrations.pending_after(connection):
            labels = ", ".join(migration.label for migration in waiting)
            console.print(
                f"  {labels} is pending. Restart every process with this version, then run `latchkey migrate --after`.",
                soft_wrap=True,
            )
    finally:
        await connection.close()
