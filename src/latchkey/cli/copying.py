"""`latchkey admin copy-database`: from a plain database into a Citus cluster, or back, while the service is stopped."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer
from rich.console import Console

from latchkey.cli import output
from latchkey.cli.output import JsonOption
from latchkey.cli.reach import DATA, ConfigOption, DataOption, database_url
from latchkey.storage.database import without_password
from latchkey.storage.relocating.connections import both
from latchkey.storage.relocating.copying import Copied, copy_all

_GB = 1e9


def copy_database(
    to: Annotated[
        str, typer.Option("--to", help="The address of the other database, migrated with this version of Latchkey.")
    ],
    config: ConfigOption = None,
    data: DataOption = DATA,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Copy and compare while the service runs, then undo it: how long does it take?"),
    ] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Delete what the other database has. Without it, it must be empty.")
    ] = False,
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
