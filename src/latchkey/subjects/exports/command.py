"""`latchkey export`: events, transactions, customers and entitlements as files."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from msgspec.structs import replace
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from latchkey.cli.command import flag, option, runnable
from latchkey.cli.project_command import ProjectContext, project_context
from latchkey.domain.refusal import Invalid, Refusal
from latchkey.now import real_now
from latchkey.subjects.exports.usecases import destinations, writer
from latchkey.subjects.exports.usecases.schedules import last_cursor
from latchkey.subjects.exports.usecases.writer import WHAT, ExportOrder, parse
from latchkey.subjects.exports.wire import Format

_ACCESS, _SECRET, _SESSION = "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"


@runnable(partial(project_context, max_size=4))
async def export(
    at: ProjectContext,
    to: str = option("A folder, or s3://bucket/prefix.", default=...),
    what: str = option("What to export, separated by commas.", default=",".join(WHAT)),
    format: Format = option("The format of the files.", default="parquet"),
    since: str | None = option("Only what changed since the export with this cursor (from its manifest.json)."),
    incremental: bool = flag(
        "Only what changed since the last export in the same place; everything if there is none.", "--incremental"
    ),
    with_tokens: bool = flag("Include purchase tokens. They are secrets: a token works as a receipt.", "--with-tokens"),
    endpoint: str | None = option(
        "Where the bucket is, if not at Amazon: https://host:port.", envvar="AWS_ENDPOINT_URL"
    ),
    region: str | None = option("The bucket's region.", envvar="AWS_REGION"),
) -> None:
    """Export events, transactions, customers and entitlements. docs/export.md describes every column.

    Each export is a folder with a manifest.json, which is written last. The keys of a bucket are taken from the
    environment: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. If it is interrupted, it leaves no files; run it again.
    """
    wanted = writer.checked_what(tuple(one.strip() for one in what.split(",") if one.strip()))
    if since is not None and incremental:
        raise Invalid("Use --since or --incremental, not both.")
    cursor = parse(since) if since is not None else None
    destination = _destination(to, endpoint, region)
    order = ExportOrder(at.project_id, wanted, format, cursor, with_tokens)
    detail = {"what": ", ".join(wanted), "format": format, "with_tokens": str(with_tokens).lower()}
    async with at.audited("export.run", destination.shown, **detail):
        if incremental:
            order = replace(order, since=await last_cursor(destination, order))
        with _shown(hidden=at.as_json) as progress:
            manifest = await writer.run(at.database, order, destination, real_now, progress=progress)
    rows = sum(file.rows for file in manifest.files)
    kind = "Everything" if manifest.kind == "whole" else "What changed"
    notes = [
        f"[green]✓[/green] {kind}: {rows:,} rows in {len(manifest.files)} "
        f"{'file' if len(manifest.files) == 1 else 'files'}, in {destination.shown}, folder "
        f"{manifest.project_id}/{manifest.id}"
    ]
    if manifest.kind == "whole" and (incremental or cursor is not None):
        notes.append("[yellow]No increment was possible here, so this export holds everything.[/yellow]")
    if missing := writer.missing(manifest):
        notes.append(f"[red]{missing} The log above says which.[/red]")
    at.reveal(manifest, manifest.cursor, *notes, "[dim]The cursor for the next increment:[/dim]")


def _destination(to: str, endpoint: str | None, region: str | None) -> destinations.Destination:
    if not to.startswith(destinations.SCHEME):
        if "://" in to:
            raise Invalid("--to takes a folder, or s3://bucket/prefix.")
        return destinations.FolderDestination(Path(to))
    address = destinations.parse_address(to, endpoint, region)
    access, secret = os.environ.get(_ACCESS, ""), os.environ.get(_SECRET, "")
    if not access or not secret:
        raise Refusal(f"Set {_ACCESS} and {_SECRET} in the environment: the keys of the bucket.")
    return destinations.Bucket(address, destinations.Keys(access, secret, os.environ.get(_SESSION) or None))


@contextmanager
def _shown(*, hidden: bool) -> Iterator[writer.Progress]:
    console = Console(stderr=True, highlight=False)
    columns = (TextColumn("Exporting"), BarColumn(), TextColumn("{task.fields[rows]:,} rows"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=hidden or not console.is_terminal) as bar:
        task = bar.add_task("", total=1.0, rows=0)

        def moved(share: float, rows: int) -> None:
            bar.update(task, completed=share, rows=rows)

        yield moved
