"""Exports that run by themselves, as somebody sets them up. Checked before anything is stored; keys are encrypted."""

import re
import secrets
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct, json

from latchkey.database.pool import Database
from latchkey.database.sealing import Sealer, UnsealableError
from latchkey.domain.instants import Ms
from latchkey.domain.refusal import Invalid, Refusal
from latchkey.settings import Settings as ServiceSettings
from latchkey.subjects.exports import storage
from latchkey.subjects.exports.rules import Export, ExportRun, ExportSettings, next_time
from latchkey.subjects.exports.storage import EXPORTS
from latchkey.subjects.exports.usecases import destinations
from latchkey.subjects.exports.usecases.writer import checked_what

MOST = 20
LONGEST_DESTINATION = 1_000
_FOLDER = re.compile(r"[A-Za-z0-9_=\-][A-Za-z0-9_.=\-]*(/[A-Za-z0-9_=\-][A-Za-z0-9_.=\-]*)*")
# Services that may be named without the operator's leave. Whoever may save an export can make the service call them.
_PUBLIC = (
    ".amazonaws.com",
    ".amazonaws.com.cn",
    ".r2.cloudflarestorage.com",
    "storage.googleapis.com",
    ".backblazeb2.com",
    ".digitaloceanspaces.com",
    ".linodeobjects.com",
    ".scw.cloud",
    ".wasabisys.com",
)


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

    async def load(self, project_id: str, id: str) -> Export:
        return await EXPORTS.get(self.database, project_id, id)

    async def page(self, project_id: str, after: str | None, limit: int) -> list[Export]:
        return await EXPORTS.load_page(self.database, project_id, after, limit)

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

    async def last_runs(self, project_id: str) -> dict[str, ExportRun]:
        return await storage.last_runs(self.database, project_id)

    def destination(self, export: Export) -> destinations.Destination:
        """Checked again: the operator may have changed the rules since it was saved."""
        self._check_place(export.destination, export.endpoint, export.region)
        if not export.destination.startswith(destinations.SCHEME):
            assert self.folder is not None
            return destinations.FolderDestination(self.folder / export.destination)
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
        merged = {**DEFAULTS, **known, **given}
        access, secret = merged.pop("access_key_id", None), merged.pop("secret_access_key", None)
        settings = ExportSettings(**{**merged, "what": checked_what(tuple(merged["what"]))})
        self._check_place(settings.destination, settings.endpoint, settings.region)
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
        public = host in _PUBLIC or host.endswith(tuple(one for one in _PUBLIC if one.startswith(".")))
        if parts.scheme != "https" or parts.port not in {None, 443} or not public:
            raise Refusal(
                "This installation does not allow that endpoint; the operator can (setting export_allow_hosts).",
                param="endpoint",
            )


DEFAULTS: dict[str, Any] = {
    "format": "parquet",
    "incremental": True,
    "with_tokens": False,
    "endpoint": None,
    "region": None,
    "every": "day",
    "enabled": True,
}


def _place(project_id: str, id: str) -> str:
    return f"{project_id}/{id}/export_keys"


def exports_of(database: Database, settings: ServiceSettings) -> Exports:
    sealer = Sealer(settings.secret_key)
    return Exports(database, sealer, settings.export_folder, frozenset(settings.export_allow_hosts))
