"""Exports that run by themselves, as somebody sets them up: checked before anything is stored, with encrypted keys. The
clock role runs those that are due: any number of processes may, and each export is run by one. Small exports as one
file to download, and where the next increment at a destination begins."""

import asyncio
import re
import secrets
import tempfile
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit
from uuid import uuid4

import structlog
from msgspec import MsgspecError, Struct, json

from latchkey.database.pool import Database
from latchkey.database.sealing import Sealer, UnsealableError
from latchkey.domain.instants import MINUTE, Ms
from latchkey.domain.naming import checked_name
from latchkey.domain.refusal import Checks, Invalid, Refusal
from latchkey.engine.due_work import Lookout
from latchkey.first_of import first_of
from latchkey.settings import Settings as ServiceSettings
from latchkey.subjects.exports import storage
from latchkey.subjects.exports.rules import Export, ExportRun, ExportSettings, next_time, retry_time
from latchkey.subjects.exports.storage import EXPORTS
from latchkey.subjects.exports.usecases import destinations
from latchkey.subjects.exports.usecases.destinations import PUBLIC, Destination, FolderDestination
from latchkey.subjects.exports.usecases.export_formats import FORMATS
from latchkey.subjects.exports.usecases.writer import ExportCursor, ExportOrder, checked_what, missing, parse, run
from latchkey.subjects.exports.wire import SCHEMA_VERSION, Format, Manifest
from latchkey.subjects.webhooks.rules import OperationalEvent
from latchkey.subjects.webhooks.usecases.registry import announce

log = structlog.get_logger()

load_export, list_exports, last_runs = EXPORTS.get, EXPORTS.load_page, storage.last_runs

MOST = 20
LONGEST_DESTINATION = 1_000
_FOLDER = re.compile(r"[A-Za-z0-9_=\-][A-Za-z0-9_.=\-]*(/[A-Za-z0-9_=\-][A-Za-z0-9_.=\-]*)*")


class Exports(Struct, frozen=True):
    """A project's exports, and the operator's rules for them."""

    database: Database
    sealer: Sealer
    # Where folders are; None: exports go to buckets only.
    folder: Path | None
    # Hosts of buckets that are allowed beyond the public services.
    hosts: Collection[str]

    async def create(self, project_id: str, given: Mapping[str, Any], now: Ms) -> Export:
        id = f"exp_{secrets.token_hex(8)}"
        settings = self._checked(project_id, id, given, None)
        async with self.database.transaction() as connection:
            if len(await EXPORTS.page(connection, project_id, None, MOST)) >= MOST:
                raise Refusal(f"A project has at most {MOST} exports.")
            return await storage.save(connection, project_id, id, settings, now, next_time(settings.schedule, now))

    async def update(self, project_id: str, id: str, given: Mapping[str, Any], now: Ms) -> Export:
        """Fields that are not given stay as they are."""
        async with self.database.transaction() as connection:
            before = await EXPORTS.get(connection, project_id, id)
            settings = self._checked(project_id, id, given, before)
            timed = (settings.every, settings.enabled) != (before.every, before.enabled)
            next_at = next_time(settings.schedule, now) if timed else before.next_at
            cursor = before.cursor if before.continues(settings) else None
            return await storage.save(connection, project_id, id, settings, now, next_at, cursor)

    async def delete(self, project_id: str, id: str) -> None:
        if not await storage.delete(self.database, project_id, id):
            raise EXPORTS.missing(id)

    async def run_now(self, project_id: str, id: str, now: Ms, *, whole: bool = False) -> Export:
        """As soon as a process with the role `clock` has time. `whole`: everything, and increments continue there."""
        return EXPORTS.found(await storage.run_now(self.database, project_id, id, now, whole), id)

    async def runs(self, project_id: str, id: str, before: int | None, limit: int) -> list[ExportRun]:
        async with self.database.acquire() as connection:
            await EXPORTS.get(connection, project_id, id)
            return await storage.runs(connection, project_id, id, before, limit)

    def destination(self, export: Export) -> Destination:
        """Checked again: the operator may have changed the rules since it was saved."""
        self._check_place(export.destination, export.endpoint, export.region)
        if not export.destination.startswith(destinations.SCHEME):
            assert self.folder is not None
            return FolderDestination(self.folder / export.destination)
        if export.credentials is None:
            raise destinations.DestinationRefused("The export has no access key.")
        try:
            keys = json.decode(
                self.sealer.unseal(export.credentials, _place(export.project_id, export.id)), type=destinations.Keys
            )
        except UnsealableError as error:
            raise destinations.DestinationRefused(
                "Its access key cannot be decrypted: LATCHKEY_SECRET_KEY has changed. Save the key again."
            ) from error
        return destinations.Bucket(destinations.parse_address(export.destination, export.endpoint, export.region), keys)

    def _checked(
        self, project_id: str, id: str, given: Mapping[str, Any], before: ExportSettings | None
    ) -> ExportSettings:
        known = {} if before is None else {name: getattr(before, name) for name in ExportSettings.__dataclass_fields__}
        merged = {**known, **given}
        access, secret = merged.pop("access_key_id", None), merged.pop("secret_access_key", None)
        with Checks() as check:
            merged["name"] = check(checked_name, merged["name"])
            merged["what"] = check(checked_what, tuple(merged["what"]))
            for name in ("destination", "endpoint", "region", "access_key_id", "secret_access_key"):
                if len(given.get(name) or "") > LONGEST_DESTINATION:
                    check.add(Invalid(f"It has at most {LONGEST_DESTINATION:,} characters.", param=name))
            check(self._check_place, merged["destination"], merged.get("endpoint"), merged.get("region"))
        settings = ExportSettings(**merged)
        if not settings.destination.startswith(destinations.SCHEME):
            return replace(settings, credentials=None, access_key=None, endpoint=None, region=None)
        place = settings.destination, settings.endpoint
        moved = before is not None and (before.destination, before.endpoint) != place
        if bool(access) != bool(secret):
            raise Refusal("Give the access key and its secret together.", param="secret_access_key")
        if not access and (settings.credentials is None or moved):
            # A key that was saved for one place is never sent to another.
            raise Refusal("Give the access key and its secret.", param="access_key_id")
        if not access:
            return settings
        sealed = self.sealer.seal(json.encode(destinations.Keys(access, secret)).decode(), _place(project_id, id))
        return replace(settings, credentials=sealed, access_key=f"…{access[-4:]}" if len(access) > 8 else "…")

    def _check_place(self, destination: str, endpoint: str | None, region: str | None) -> None:
        if destination.startswith(destinations.SCHEME):
            destinations.parse_address(destination, endpoint, region)
            if endpoint is not None:
                self._check_host(endpoint)
        elif self.folder is None:
            raise Refusal(
                "This installation allows no folders (setting export_folder). Use s3://bucket/prefix.",
                param="destination",
            )
        elif _FOLDER.fullmatch(destination) is None:
            raise Invalid(
                "A folder is named by letters, digits, '-', '_' and '.', or s3://bucket/prefix.", param="destination"
            )

    def _check_host(self, endpoint: str) -> None:
        parts = urlsplit(endpoint)
        host = (parts.hostname or "").lower()
        if host in self.hosts or f"{host}:{parts.port}" in self.hosts:
            return
        public = host in PUBLIC or host.endswith(tuple(one for one in PUBLIC if one.startswith(".")))
        if parts.scheme != "https" or parts.port not in {None, 443} or not public:
            raise Refusal(
                "This installation does not allow that endpoint; the operator can (setting export_allow_hosts).",
                param="endpoint",
            )


def _place(project_id: str, id: str) -> str:
    return f"{project_id}/{id}/export_keys"


def exports_of(database: Database, settings: ServiceSettings) -> Exports:
    sealer = Sealer(settings.secret_key)
    return Exports(database, sealer, settings.export_folder, frozenset(settings.export_allow_hosts))


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


class LeaseLostError(Exception):
    pass


async def run_exports(lookout: Lookout, exports: Exports, now: Callable[[], Ms], stop: asyncio.Event) -> None:
    """Runs until the lookout ends. When `stop` is set, a running export is given up; another process begins it
    again."""
    while not stop.is_set() and await lookout.until(lambda seen: seen.export_at) is not None:
        try:
            await first_of(run_next(exports, now), stop.wait())
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
        manifest = await first_of(_export(exports, export, now), _keep(exports, export, now))
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


async def _keep(exports: Exports, export: Export, now: Callable[[], Ms]) -> NoReturn:
    """Renews the lease. If it is lost, another process has the export."""
    while True:
        await asyncio.sleep(_RENEWED_EVERY)
        try:
            kept = await storage.renew(exports.database, *_held(export), now() + LEASE)
        except Exception:
            # The next attempt may succeed before the lease runs out.
            log.warning("export lease not renewed", project_id=export.project_id, export_id=export.id)
        else:
            if not kept:
                raise LeaseLostError


async def _export(exports: Exports, export: Export, now: Callable[[], Ms]) -> Manifest:
    format = next(one for one in FORMATS if one == export.format)
    since = parse(export.cursor) if export.incremental and export.cursor is not None else None
    order = ExportOrder(export.project_id, checked_what(export.what), format, since, export.with_tokens)
    return await run(exports.database, order, exports.destination(export), now)


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
        error=missing(manifest),
    )
    next_at = next_time(export.schedule, now)
    async with exports.database.transaction() as connection:
        if await storage.finish(connection, *_held(export), next_at, 0, manifest.cursor, *_begun(export)):
            await storage.finish_run(connection, finished)
            if export.failures:
                await announce(connection, _event(export, "export.recovered", now, None))
    log.info("export done", project_id=export.project_id, export_id=export.id, rows=finished.rows, kind=manifest.kind)


async def _failed(exports: Exports, export: Export, run: ExportRun, error: str, now: Ms) -> None:
    failures = export.failures + 1
    next_at = retry_time(export.schedule, failures, now)
    finished = replace(run, finished_at=now, state="failed", error=error)
    async with exports.database.transaction() as connection:
        if await storage.finish(connection, *_held(export), next_at, failures, export.cursor, *_begun(export)):
            await storage.finish_run(connection, finished)
            if failures == 1:
                await announce(connection, _event(export, "export.failed", now, error))
    log.warning("export failed", project_id=export.project_id, export_id=export.id, error=error, failures=failures)


def _held(export: Export) -> tuple[str, str, int]:
    return export.project_id, export.id, export.token


def _begun(export: Export) -> tuple[Ms | None, str | None]:
    """What differs when somebody has asked for a run since this one began."""
    return export.next_at, export.cursor


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
