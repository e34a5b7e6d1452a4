"""Runs the exports that are due, in the clock role: any number of processes may, and each export is run by one. Small
exports as one file to download, and where the next increment at a destination begins."""

import asyncio
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import structlog
from msgspec import MsgspecError, json

from latchkey.database.pool import Database
from latchkey.domain.instants import MINUTE, Ms
from latchkey.domain.refusal import Invalid, Refusal
from latchkey.engine.due_work import Lookout
from latchkey.subjects.exports import storage
from latchkey.subjects.exports.rules import Export, ExportRun, next_time, retry_time
from latchkey.subjects.exports.usecases import writer
from latchkey.subjects.exports.usecases.destinations import Destination, FolderDestination
from latchkey.subjects.exports.usecases.export_formats import FORMATS
from latchkey.subjects.exports.usecases.schedules import Exports
from latchkey.subjects.exports.usecases.writer import ExportCursor, ExportOrder, checked_what, parse, run
from latchkey.subjects.exports.wire import SCHEMA_VERSION, Format, Manifest
from latchkey.subjects.webhooks.rules import OperationalEvent
from latchkey.subjects.webhooks.usecases.delivery_log import announce

_DECODER = json.Decoder(Manifest)


async def last_cursor(destination: Destination, order: ExportOrder) -> ExportCursor | None:
    """The cursor of the last export there that holds all that is wanted now. None: there is none, so export
    everything."""
    async for content in destination.manifests(order.project_id):
        try:
            manifest = _DECODER.decode(content)
            cursor = parse(manifest.cursor)
        except (MsgspecError, Invalid):
            continue
        if (
            manifest.schema_version == SCHEMA_VERSION
            and manifest.format == order.format
            and manifest.with_tokens == order.with_tokens
            and set(order.what) <= set(manifest.what)
        ):
            return cursor
    return None


MOST_CUSTOMERS = 5_000
MOST_EVENTS = 20_000


async def download(
    database: Database, project_id: str, what: str, format: Format, now: Callable[[], Ms]
) -> tuple[str, bytes]:
    """The name of the file, and its content."""
    [wanted] = checked_what((what,))
    customers, events = await storage.size(database, project_id, MOST_CUSTOMERS + 1)
    if (events if wanted == "events" else customers) > (MOST_EVENTS if wanted == "events" else MOST_CUSTOMERS):
        raise Refusal(
            f"There are more than {MOST_CUSTOMERS:,} customers or {MOST_EVENTS:,} events: too much to download here. "
            "Set up an export, or use `latchkey export`."
        )
    with tempfile.TemporaryDirectory(prefix="latchkey-download-") as folder:
        manifest = await run(database, ExportOrder(project_id, (wanted,), format), FolderDestination(Path(folder)), now)
        [file] = manifest.files
        path = Path(folder) / project_id / manifest.id / file.name
        content = await asyncio.to_thread(path.read_bytes)
    return f"{wanted}-{manifest.id}.{format}", content


LEASE: Ms = 2 * MINUTE
_RENEWED_EVERY = 30.0

log = structlog.get_logger()


class LeaseLostError(Exception):
    pass


async def run_exports(lookout: Lookout, exports: Exports, now: Callable[[], Ms], stop: asyncio.Event) -> None:
    """Runs until the lookout ends. When `stop` is set, a running export is given up; another process begins it
    again."""
    while await lookout.until(lambda seen: seen.export_at) is not None:
        working = asyncio.create_task(run_next(exports, now))
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not working.done():
            working.cancel()
            with suppress(asyncio.CancelledError):
                await working
            return
        try:
            working.result()
        except Exception:
            # The database may be unreachable. Exports are then late; nothing else depends on them.
            log.exception("exports failed")


async def run_next(exports: Exports, now: Callable[[], Ms]) -> bool:
    """Runs the export that has waited longest. Returns whether there was one."""
    async with exports.database.transaction() as connection:
        export = await storage.claim(connection, now(), now() + LEASE)
        if export is None:
            return False
        run = await storage.begin_run(connection, export, now())
    try:
        manifest = await _leased(exports, export, now)
    except LeaseLostError:
        log.warning("export lost its lease", project_id=export.project_id, export_id=export.id)
    except Refusal as refusal:
        await _failed(exports, export, run, refusal.message, now())
    except Exception as error:
        log.exception("export failed", project_id=export.project_id, export_id=export.id)
        # What went wrong inside is in the log, and nobody else's business.
        await _failed(exports, export, run, f"It failed inside Latchkey ({type(error).__name__}); see the log.", now())
    else:
        await _done(exports, export, run, manifest, now())
    return True


async def _leased(exports: Exports, export: Export, now: Callable[[], Ms]) -> Manifest:
    """Runs the export while the lease is renewed. If it is lost, another process has the export."""
    working = asyncio.create_task(_export(exports, export, now))
    keeping = asyncio.create_task(_keep(exports, export, now))
    try:
        done, _ = await asyncio.wait({working, keeping}, return_when=asyncio.FIRST_COMPLETED)
        if working in done:
            return working.result()
        await keeping
        raise LeaseLostError
    finally:
        for task in (working, keeping):
            task.cancel()
            with suppress(BaseException):
                await task


async def _keep(exports: Exports, export: Export, now: Callable[[], Ms]) -> None:
    """Returns when another process has the export."""
    while True:
        await asyncio.sleep(_RENEWED_EVERY)
        try:
            if not await storage.renew(exports.database, *_held(export), now() + LEASE):
                return
        except Exception:
            # The next attempt may succeed before the lease runs out.
            log.warning("export lease not renewed", project_id=export.project_id, export_id=export.id)


async def _export(exports: Exports, export: Export, now: Callable[[], Ms]) -> Manifest:
    format = next(one for one in FORMATS if one == export.format)
    since = parse(export.cursor) if export.incremental and export.cursor is not None else None
    order = writer.ExportOrder(export.project_id, writer.checked_what(export.what), format, since, export.with_tokens)
    return await writer.run(exports.database, order, exports.destination(export), now)


async def _done(exports: Exports, export: Export, run: ExportRun, manifest: Manifest, now: Ms) -> None:
    finished = replace(
        run,
        finished_at=now,
        state="done",
        kind=manifest.kind,
        folder=f"{manifest.project_id}/{manifest.id}",
        rows=sum(file.rows for file in manifest.files),
        bytes=sum(file.bytes for file in manifest.files),
        files=len(manifest.files),
        error=writer.missing(manifest),
    )
    next_at = next_time(export.schedule, now)
    async with exports.database.transaction() as connection:
        if await storage.finish(connection, *_held(export), next_at, 0, manifest.cursor):
            await storage.finish_run(connection, finished)
            if export.failures:
                await announce(connection, _event(export, "export.recovered", now, None))
    log.info("export done", project_id=export.project_id, export_id=export.id, rows=finished.rows, kind=manifest.kind)


async def _failed(exports: Exports, export: Export, run: ExportRun, error: str, now: Ms) -> None:
    failures = export.failures + 1
    next_at = retry_time(export.schedule, failures, now)
    finished = replace(run, finished_at=now, state="failed", error=error)
    async with exports.database.transaction() as connection:
        if await storage.finish(connection, *_held(export), next_at, failures, export.cursor):
            await storage.finish_run(connection, finished)
            if failures == 1:
                await announce(connection, _event(export, "export.failed", now, error))
    log.warning("export failed", project_id=export.project_id, export_id=export.id, error=error, failures=failures)


def _held(export: Export) -> tuple[str, str, int]:
    return export.project_id, export.id, export.token


def _event(export: Export, type: str, now: Ms, error: str | None) -> OperationalEvent:
    id = f"op_{uuid4().hex}"
    body = {
        "object": "operational_event",
        "id": id,
        "type": type,
        "at": now,
        "project_id": export.project_id,
        "export_id": export.id,
        "name": export.name,
        "destination": export.destination,
        "error": error,
    }
    return OperationalEvent(export.project_id, id, "", type, now, json.encode(body))
