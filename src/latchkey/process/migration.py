"""`latchkey migrate`: creates or updates the database schema."""

import asyncio
import time
from functools import partial

from msgspec import Struct
from rich.console import Console

from latchkey import logs
from latchkey.cli import output
from latchkey.cli.command import flag, option
from latchkey.cli.output import JsonOption
from latchkey.cli.target_database import DATA, ConfigOption, DataOption, database_url
from latchkey.database import migrate as database_migrate
from latchkey.database.distribution.database_copy import Copied, both, copy_all
from latchkey.database.distribution.distribute import (
    SHARDS,
    distribute,
    require_cluster,
    require_finished_upgrade,
    undistributed,
)
from latchkey.database.distribution.nodes import is_distributed
from latchkey.database.distribution.statements import TABLES
from latchkey.database.pool import connect
from latchkey.database_address import without_password
from latchkey.process.database_wait import WaitOption, until_reachable, waits


def migrate(
    config: ConfigOption = None,
    data: DataOption = DATA,
    dry_run: bool = flag("Only list the migrations that would run.", "--dry-run"),
    after: bool = flag("Finish the upgrade. Only when no process of an older version is running any more.", "--after"),
    distributed: bool = flag(
        "Also distribute the tables by project over the nodes of a Citus cluster. Only once. If there are "
        "rows already, stop all processes first, or use `latchkey admin copy-database`.",
        "--distributed",
    ),
    shards: int = option("With --distributed: the number of shards.", "--shards", default=SHARDS, min=1, max=10_000),
    wait: WaitOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create or update the database schema. Run it before the first start, and in each upgrade before the processes of
    the new version start."""
    if waiting := waits(wait):
        logs.configure()
    # With --json the lines for people go nowhere.
    console = Console(highlight=False, quiet=as_json)
    work = partial(run, database_url(config, data), dry_run, after, console, distributed, shards)
    done = asyncio.run(until_reachable(work, waiting))
    if as_json:
        output.write(done)


class MigrationOutcome(Struct, frozen=True, kw_only=True):
    """What `--json` prints."""

    dry_run: bool
    # The version of the schema before and now.
    before: int
    version: int
    # The migrations that ran, or would run.
    run: list[str]
    # Those that `latchkey migrate --after` runs.
    pending_after: list[str] = []


async def run(
    url: str,
    dry_run: bool,
    after: bool,
    console: Console,
    distributed: bool = False,
    shards: int = SHARDS,
) -> MigrationOutcome:
    connection = await connect(url, application_name="latchkey migrate", connect_timeout=10)
    try:
        if distributed:
            await require_cluster(connection)
        before = await database_migrate.applied(connection)
        console.print(f"Database {without_password(url)}, at version {before}", soft_wrap=True)
        if dry_run:
            would = await database_migrate.pending(connection, after=after)
            for migration in would:
                console.print(f"  would run {migration.label}")
            if distributed:
                for table in await undistributed(connection):
                    console.print(f"  would distribute {table}: {TABLES[table]}")
            return MigrationOutcome(dry_run=True, before=before, version=before, run=[one.label for one in would])
        began = time.monotonic()
        done = await database_migrate.migrate(
            connection, after=after, told=lambda migration: console.print(f"  {migration.label}")
        )
        words = f"{len(done)} migration(s) in {time.monotonic() - began:.1f} s" if done else "Nothing to do"
        console.print(f"[green]✓[/green] {words}; at version {await database_migrate.applied(connection)}")
        if distributed or await is_distributed(connection):
            await require_finished_upgrade(connection)
            began = time.monotonic()
            await distribute(connection, lambda words: console.print(f"  {words}"), shards=shards)
            console.print(f"[green]✓[/green] Distributed, in {time.monotonic() - began:.1f} s")
        if waiting := await database_migrate.pending_after(connection):
            labels = ", ".join(migration.label for migration in waiting)
            console.print(
                f"  {labels} is pending. Restart every process with this version, then run `latchkey migrate --after`.",
                soft_wrap=True,
            )
        return MigrationOutcome(
            dry_run=False,
            before=before,
            version=await database_migrate.applied(connection),
            run=[one.label for one in done],
            pending_after=[one.label for one in waiting],
        )
    finally:
        await connection.close()


_GB = 1e9


def copy_database(
    to: str = option("The address of the other database, migrated with this version of Latchkey.", "--to", default=...),
    config: ConfigOption = None,
    data: DataOption = DATA,
    dry_run: bool = flag("Copy and compare while the service runs, then undo it: how long does it take?", "--dry-run"),
    replace: bool = flag("Delete what the other database has. Without it, it must be empty.", "--replace"),
    as_json: JsonOption = False,
) -> None:
    """Copy all rows into another database: from a plain one into a Citus cluster, or back.

    Nobody can write to the copied database any more. If anything fails, everything is as before."""
    # With --json the lines for people go nowhere.
    console = Console(highlight=False, soft_wrap=True, markup=False, quiet=as_json)
    source = database_url(config, data)
    console.print(f"From {without_password(source)} to {without_password(to)}")
    done = asyncio.run(_copy(source, to, console, dry_run, replace))
    per_gb = done.seconds * _GB / done.bytes if done.bytes else 0.0
    console.print(
        f"✓ {done.rows:,} rows, {done.bytes / _GB:,.2f} GB in {done.seconds:,.1f} s ({per_gb:,.0f} s for each GB)."
    )
    console.print(
        "A dry run: nothing has changed."
        if dry_run
        else "Start the service with the new address. Nobody can write to the old database."
    )
    if as_json:
        said = {"rows": done.rows, "bytes": done.bytes, "seconds": round(done.seconds, 3), "dry_run": dry_run}
        output.write({"object": "database_copy", **said})


async def _copy(source_url: str, target_url: str, console: Console, dry_run: bool, replace: bool) -> Copied:
    async with both(source_url, target_url) as (source, target):
        return await copy_all(
            source, target, lambda words: console.print(f"  {words}"), dry_run=dry_run, replace=replace
        )
