"""The implementation of `latchkey consumer`; `consumer.py` defines the commands. Separate, because it loads slowly."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import structlog
import uvloop
from msgspec import Raw, to_builtins
from rich.console import Console
from rich.table import Table
from sqlalchemy.exc import SQLAlchemyError

from latchkey import logs
from latchkey.cli import output
from latchkey.cli.consumer import ConsumerFailedError
from latchkey.cli.consumer_server import serve as serve_on
from latchkey.cli.listeners import bind
from latchkey.cli.output import shown
from latchkey.cli.stop_signal import StopSignal
from latchkey.consumer import Consumer, Settings, SettingsError
from latchkey.consumer.connection import Checked
from latchkey.consumer.operations import Reprocessed
from latchkey.consumer.reconcile import Report
from latchkey.consumer.settings import PREFIX, variable
from latchkey.consumer.storage.events import SetAside
from latchkey.consumer.storage.schema import migrate as migrate_schema
from latchkey.settings import Problem, SettingsRefusedError

log = structlog.get_logger()
T = TypeVar("T")


def serve(host: str | None, port: int | None) -> None:
    given = {"HOST": host, "PORT": port}
    environ = {**os.environ, **{PREFIX + name: str(value) for name, value in given.items() if value is not None}}
    _run(_serve(_settings(environ, alone=True)))


def check(*, as_json: bool) -> None:
    async def run() -> Checked:
        async with _opened(migrated=False) as opened:
            return await opened.check_connection()

    found = _run(run())
    if found.problem is not None:
        raise ConsumerFailedError(found.problem)
    settings = _settings(os.environ, alone=False)
    if as_json:
        output.write({"service_url": settings.service_url, "project_id": settings.project_id, "accepted": True})
        return
    told = f"{settings.service_url} accepts the key for the project {settings.project_id}"
    Console(highlight=False).print(f"[green]✓[/green] {told}", soft_wrap=True)


def migrate(*, as_json: bool) -> None:
    async def run() -> tuple[str | None, str | None]:
        async with _opened(migrated=False) as opened:
            return await migrate_schema(opened._store.database)

    before, after = _run(run())
    if as_json:
        output.write({"before": before, "version": after})
        return
    words = "Nothing to do" if before == after else f"From {before or 'nothing'}"
    Console(highlight=False).print(f"[green]✓[/green] {words}; at version {after}")


def reconcile(*, mend: bool, from_start: bool, as_json: bool) -> bool:
    """Returns whether everything could be read."""

    async def run() -> Report:
        async with _opened() as opened:
            return await opened._reconciler.everything(mend=mend, from_start=from_start)

    report = _run(run())
    if as_json:
        output.write(report)
    else:
        _told(report, Console(highlight=False, markup=False))
    return not report.failures


def list_set_aside(*, as_json: bool) -> None:
    async def run() -> list[SetAside]:
        async with _opened() as opened:
            found: list[SetAside] = []
            while page := await opened._store.events.list_set_aside(after=found[-1].event_id if found else None):
                found += page
            return found

    found = _run(run())
    if as_json:
        output.write_list({**to_builtins(one), "body": Raw(one.body)} for one in found)
        return
    table = Table("event", "type", "user", "received", "attempts", "error")
    for one in found:
        received = shown(one.received_at)
        table.add_row(one.event_id, one.event_type, one.app_user_id, received, str(one.attempts), one.error)
    Console(highlight=False, markup=False).print(table)


def reprocess(event_id: str | None, *, as_json: bool) -> bool:
    """Returns whether none failed again."""

    async def run() -> list[Reprocessed]:
        async with _opened() as opened:
            if event_id is None:
                return await opened._operations.reprocess_all()
            done = await opened._operations.reprocess(event_id)
            if done is None:
                raise ConsumerFailedError(f"There is no event {event_id} that was set aside.")
            return [done]

    done = _run(run())
    failed = [one for one in done if one.outcome == "failed"]
    if as_json:
        output.write_list(done)
        return not failed
    console = Console(highlight=False, markup=False)
    for one in done:
        console.print(f"{one.event_id}  {one.outcome}  {one.error or ''}".rstrip(), soft_wrap=True)
    console.print(f"{len(done)} processed again, {len(failed)} of them failed")
    return not failed


async def _serve(settings: Settings) -> None:
    logs.configure(settings.log_level, settings.log_format)
    signal = StopSignal()
    listening = bind(settings.host, settings.port, 1)[0]
    port = listening.getsockname()[1]

    def ready() -> None:
        log.info("ready", host=settings.host, port=port, tls=bool(settings.tls_cert))

    await serve_on(settings, listening, signal.asked, ready)
    log.info("stopped")


@asynccontextmanager
async def _opened(*, migrated: bool = True) -> AsyncIterator[Consumer]:
    """A consumer for one command; its background jobs are left to the running consumer."""
    settings = _settings(os.environ, alone=False)
    # Logs go to stderr, readable, so that the command's output can be piped.
    logs.configure(settings.log_level, "pretty")
    opened = Consumer(settings)
    try:
        if migrated:
            await migrate_schema(opened._store.database)
        yield opened
    finally:
        await opened.client.close()
        await opened._store.close()


def _settings(environ: Mapping[str, str], *, alone: bool) -> Settings:
    problems: list[tuple[str, str]] = []
    try:
        settings = Settings.from_env(environ)
        problems = settings.transport_problems() if alone else []
    except SettingsError as error:
        problems = error.problems
    if problems:
        raise SettingsRefusedError([Problem(variable(name), wrong, "") for name, wrong in problems])
    return settings


def _run(work: Coroutine[Any, Any, T]) -> T:
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(work)
    except (SQLAlchemyError, OSError) as error:
        reason = getattr(error, "orig", None) or error
        raise ConsumerFailedError(f"The consumer's database cannot be used: {reason}") from error


def _told(report: Report, console: Console) -> None:
    def told(words: str) -> None:
        console.print(words, soft_wrap=True)

    told(f"{report.events_examined} events examined, {len(report.events_missed)} had not arrived")
    for one in report.events_missed:
        told(f"  {one.event_type} {one.event_id} of {one.app_user_id}: {one.outcome}")
    for body in report.events_unreadable:
        told(f"  not an event: {body}")
    told(f"{report.users_compared} users compared, {len(report.differences)} differed")
    for found in report.differences:
        did = "mended" if found.mended else "not mended"
        told(f"  {found.app_user_id}: local {found.local}, service {found.service}; {found.why}; {did}")
    for what, why in report.failures.items():
        told(f"  could not read {what}: {why}")
