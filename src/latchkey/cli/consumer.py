"""`latchkey consumer`: runs the reference consumer from LATCHKEY_CONSUMER_* settings, and commands to operate it."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

import structlog
import typer
import uvloop
from msgspec import Raw, to_builtins
from rich.markup import escape
from sqlalchemy.exc import SQLAlchemyError

from latchkey import logs
from latchkey.cli import output
from latchkey.cli.command import Printer, argument, command, flag, option
from latchkey.cli.output import JsonOption, shown
from latchkey.consumer.consumer_errors import SettingsError
from latchkey.consumer.consumer_settings import PREFIX, Settings, variable
from latchkey.consumer.reconcile import ReconcileReport
from latchkey.consumer.reference_consumer import Consumer
from latchkey.consumer.storage.copy_tables import SetAside
from latchkey.consumer.storage.schema import migrate as migrate_schema
from latchkey.process.supervision.listeners import ConsumerFailedError, bind
from latchkey.process.supervision.stop_signal import StopSignal
from latchkey.process.up.consumer_server import serve
from latchkey.settings import Problem, SettingsRefusedError

log = structlog.get_logger()

app = typer.Typer(add_completion=False)
events = typer.Typer(no_args_is_help=True, help="Events that were set aside because they could not be processed.")
app.add_typer(events, name="events")


@dataclass(frozen=True, slots=True)
class Opened(Printer):
    """A consumer for one command; its background jobs are left to the running consumer."""

    settings: Settings
    consumer: Consumer


@asynccontextmanager
async def opened(as_json: JsonOption = False) -> AsyncIterator[Opened]:
    settings = read_settings(os.environ, alone=False)
    # Logs go to stderr, readable, so that the command's output can be piped.
    logs.configure(settings.log_level, "pretty")
    consumer = Consumer(settings)
    with _told_of_the_database():
        try:
            yield Opened(as_json, settings, consumer)
        finally:
            await consumer.client.close()
            await consumer._store.close()


@asynccontextmanager
async def migrated(as_json: JsonOption = False) -> AsyncIterator[Opened]:
    async with opened(as_json) as at:
        await migrate_schema(at.consumer._store.database)
        yield at


@contextmanager
def _told_of_the_database() -> Iterator[None]:
    try:
        yield
    except (SQLAlchemyError, OSError) as error:
        if isinstance(error, OSError) and error.errno in output.UNWRITABLE:
            raise
        reason = getattr(error, "orig", None) or error
        raise ConsumerFailedError(f"The consumer's database cannot be used: {reason}") from error


@app.callback(invoke_without_command=True)
def consumer(
    context: typer.Context,
    host: str | None = option("The address to listen on."),
    port: int | None = option("The port to listen on; 0 chooses a free one.", min=0),
) -> None:
    """Run the consumer, or one of the commands below. docs/consumer.md lists the settings."""
    if context.invoked_subcommand is not None:
        return
    given = {"HOST": host, "PORT": port}
    environ = {**os.environ, **{PREFIX + name: str(value) for name, value in given.items() if value is not None}}
    settings = read_settings(environ, alone=True)
    with _told_of_the_database(), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(settings))


@command(app, "check", opened)
async def check(at: Opened) -> None:
    """Check the settings, the connection to the service and the API key."""
    found = await at.consumer.check_connection()
    if found.problem is not None:
        raise ConsumerFailedError(found.problem)
    url, project_id = at.settings.service_url, at.settings.project_id
    said = {"service_url": url, "project_id": project_id, "accepted": True}
    at.done(said, f"{url} accepts the key for the project {project_id}")


@command(app, "migrate", opened)
async def migrate(at: Opened) -> None:
    """Create or update the consumer's database tables."""
    before, after = await migrate_schema(at.consumer._store.database)
    words = "Nothing to do" if before == after else f"From {before or 'nothing'}"
    at.done({"before": before, "version": after}, f"{words}; at version {after}")


@command(app, "reconcile", migrated)
async def reconcile(
    at: Opened,
    dry_run: bool = flag("Only report differences; change nothing.", "--dry-run"),
    from_start: bool = flag("Read all events, not only new ones.", "--from-start"),
) -> None:
    """Compare the local copy with the service, correct it, and report what differed and why."""
    report = await at.consumer._reconciler.everything(mend=not dry_run, from_start=from_start)
    at.say(report, *map(escape, _lines(report)))
    if report.failures:
        raise typer.Exit(output.FAILED)


@command(events, "list-set-aside", migrated)
async def list_set_aside(at: Opened) -> None:
    """List the events that were set aside, with the reason."""
    found: list[SetAside] = []
    while page := await at.consumer._store.events.list_set_aside(after=found[-1].event_id if found else None):
        found += page
    at.show_list(
        found,
        lambda one: {**to_builtins(one), "body": Raw(one.body)},
        ("event", "type", "user", "received", "attempts", "error"),
        lambda one: (
            *(one.event_id, one.event_type, one.app_user_id, shown(one.received_at)),
            *(str(one.attempts), one.error),
        ),
    )


@command(events, "reprocess", migrated)
async def reprocess(
    at: Opened,
    event_id: str | None = argument("The id of one event. All of them unless given.", default=None),
) -> None:
    """Process the events that were set aside again."""
    if event_id is None:
        done = await at.consumer._operations.reprocess_all()
    elif (one := await at.consumer._operations.reprocess(event_id)) is not None:
        done = [one]
    else:
        raise ConsumerFailedError(f"There is no event {event_id} that was set aside.")
    failed = [event for event in done if event.outcome == "failed"]
    if at.as_json:
        output.write_list(done)
    else:
        for one in done:
            output.console(markup=False).print(
                f"{one.event_id}  {one.outcome}  {one.error or ''}".rstrip(), soft_wrap=True
            )
        output.console(markup=False).print(f"{len(done)} processed again, {len(failed)} of them failed")
    if failed:
        raise typer.Exit(output.FAILED)


async def _serve(settings: Settings) -> None:
    logs.configure(settings.log_level, settings.log_format)
    signal = StopSignal()
    listening = bind(settings.host, settings.port, 1)[0]
    port = listening.getsockname()[1]

    def ready() -> None:
        log.info("ready", host=settings.host, port=port, tls=bool(settings.tls_cert))

    await serve(settings, listening, signal.asked, ready)
    log.info("stopped")


def read_settings(environ: Mapping[str, str], *, alone: bool) -> Settings:
    problems: list[tuple[str, str]] = []
    try:
        settings = Settings.from_env(environ)
        problems = settings.transport_problems() if alone else []
    except SettingsError as error:
        problems = error.problems
    if problems:
        raise SettingsRefusedError([Problem(variable(name), wrong, "") for name, wrong in problems])
    return settings


def _lines(report: ReconcileReport) -> Iterator[str]:
    yield f"{report.events_examined} events examined, {len(report.events_missed)} had not arrived"
    for event in report.events_missed:
        yield f"  {event.event_type} {event.event_id} of {event.app_user_id}: {event.outcome}"
    for body in report.events_unreadable:
        yield f"  not an event: {body}"
    yield f"{report.users_compared} users compared, {len(report.differences)} differed"
    for found in report.differences:
        did = "mended" if found.mended else "not mended"
        yield f"  {found.app_user_id}: local {found.local}, service {found.service}; {found.why}; {did}"
    for what, why in report.failures.items():
        yield f"  could not read {what}: {why}"
