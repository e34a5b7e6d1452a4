"""`latchkey import`: customers and their transactions from files."""

import csv
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from pathlib import Path

from msgspec import to_builtins
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.table import Column, Table
from rich.text import Text

from latchkey.cli import output
from latchkey.cli.command import argument, flag, option, runnable
from latchkey.cli.output import shown
from latchkey.cli.project_command import ProjectContext, project_context
from latchkey.domain.refusal import Invalid
from latchkey.now import real_now
from latchkey.subjects.imports.rules.row import Skip
from latchkey.subjects.imports.usecases import runs
from latchkey.subjects.imports.usecases.runs import ImportOrder, ImportResult, run_import
from latchkey.subjects.imports.usecases.staging import Format

_MOST_REASONS = 20
_MOST_NAMED = 10


# Grouping a million rows takes longer than any other statement may.
@runnable(partial(project_context, max_size=3, statement_timeout_ms=0, application_name="latchkey import"))
async def import_files(
    at: ProjectContext,
    files: list[Path] = argument("CSV or JSON Lines, gzipped or not."),
    format: Format = option("latchkey: the columns of `latchkey export`. revenuecat: its export.", default="latchkey"),
    app: list[str] | None = option("STORE=APP: the app for a store's purchases, such as app_store=app_1234."),
    dry_run: bool = flag("Write nothing; only report what would be imported.", "--dry-run"),
    webhooks: bool = flag("Send webhooks for the imported purchases, too. Without it, none are sent.", "--webhooks"),
    report: Path | None = option("Write the rows that were not imported to this CSV file."),
    again: bool = flag("Import the files even if they were imported before.", "--again"),
) -> None:
    """Import customers, their ids, attributes and transactions.

    If it is interrupted, run the same command again: it continues. It is idempotent: the same files change nothing.
    docs/import.md describes the formats."""
    console = Console(stderr=True, highlight=False)
    order = ImportOrder(
        project_id=at.project_id,
        format=format,
        files=tuple(files),
        apps=_apps(app or []),
        told=webhooks,
        dry=dry_run,
        again=again,
    )
    names = ", ".join(file.name for file in files)
    with ExitStack() as stack:
        skipped = stack.enter_context(_report(report)) if report is not None else None
        progress = stack.enter_context(_progress(console, hidden=at.as_json))
        async with nullcontext() if dry_run else at.audited("import.run", names, format=format):
            result = await run_import(at.database, order, real_now, progress, skipped)
    if at.as_json:
        output.write({"dry_run": dry_run, **to_builtins(result)})
        return
    _show(console, result, dry_run, report)


def _apps(given: list[str]) -> dict[str, str]:
    apps: dict[str, str] = {}
    for one in given:
        store, equals, app_id = one.partition("=")
        if not equals or not store or not app_id:
            raise Invalid(f"--app {one} does not have the form STORE=APP, such as app_store=app_1234.")
        if store in apps:
            raise Invalid(f"--app names {store} twice.")
        apps[store] = app_id
    return apps


@contextmanager
def _report(path: Path) -> Iterator[Callable[[Skip], None]]:
    try:
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\r\n")
            writer.writerow(("file", "line", "reason"))
            yield lambda skip: writer.writerow((skip.file, skip.line, skip.reason))
    except OSError as error:
        raise Invalid(f"The report {path} cannot be written: {error.strerror}.") from None


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if not speed or task.description != runs.WRITING else f"{speed:,.0f} rows/s")


@contextmanager
def _progress(console: Console, *, hidden: bool) -> Iterator[runs.Progress]:
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(),
        TimeRemainingColumn(compact=True),
        console=console,
        disable=hidden,
    )
    tasks = {name: bar.add_task(name, total=None, visible=False) for name in (runs.READING, runs.WRITING)}

    def progress(stage: str, done: int, total: int) -> None:
        # Bytes of the files while reading, in kB; rows while writing.
        unit = 1000 if stage == runs.READING else 1
        bar.update(tasks[stage], completed=done // unit, total=total // unit, visible=True)

    with bar:
        yield progress


def _show(console: Console, result: ImportResult, dry: bool, report: Path | None) -> None:
    if result.known_since is not None:
        console.print(
            f"[green]✓[/green] These files were imported on {shown(result.known_since)} ({result.run_id}). "
            "Nothing was changed. To import them again, add --again.",
            soft_wrap=True,
        )
        return
    if result.resumed_at is not None:
        console.print(f"Went on with {result.run_id}, of which {result.resumed_at:,} rows had been written before.")
    table = Table(Column(style="bold"), Column(justify="right"), box=None, show_header=False)
    for name, count in result.counts.items():
        if count and name != "applied":
            table.add_row(name, f"{count:,}")
    console.print(table)
    for reason, rows in list(result.skipped.items())[:_MOST_REASONS]:
        console.print(f"[yellow]{rows:,} rows: {escape(reason)}[/yellow]", soft_wrap=True)
    if result.skipped and report is None:
        console.print("Add --report FILE to get the line of each.", style="dim")
    for names, words in (
        (result.unknown_products, "Not in the catalog, so they grant nothing until you add them: {}."),
        (
            result.stores_without_app,
            "This project has no app in {}. Purchases there belong to no app, and the store is not asked about them.",
        ),
        (
            result.currencies_without_rate,
            "Amounts in USD of payments in {} are estimates: neither the file nor `latchkey rates` has a rate of that "
            "day.",
        ),
    ):
        if names:
            more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
            told = words.format(", ".join(names[:_MOST_NAMED]) + more)
            console.print(told, style="yellow", soft_wrap=True, markup=False)
    words = "Dry run: nothing was written." if dry else f"Imported as {result.run_id}."
    console.print(f"[green]✓[/green] {words}", soft_wrap=True)
