"""Exports that run by themselves: their settings, the lease of the process that runs one, and their runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from latchkey.domain.instants import Ms
from latchkey.storage.database import Connection, Record
from latchkey.storage.sql import query

_SAVE = query("save_export")
_LIST = query("list_exports")
_DELETE = query("delete_export")
_RUN_NOW = query("run_export_now")
_CLAIM = query("claim_export")
_RENEW = query("renew_export")
_FINISH = query("finish_export")
_BEGIN_RUN = query("begin_export_run")
_FINISH_RUN = query("finish_export_run")
_RUNS = query("list_export_runs")

Every = Literal["hour", "day", "week", "never"]
State = Literal["running", "done", "failed"]

# Runs that are kept of each export.
RUNS_KEPT = 100
INTERRUPTED = "It was interrupted: the process that ran it ended, or the export was changed meanwhile."


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    name: str
    what: tuple[str, ...]
    format: str
    incremental: bool
    with_tokens: bool
    destination: str
    endpoint: str | None
    region: str | None
    every: Every
    enabled: bool
    # Encrypted; None for a folder. `access_key` is the part that may be shown.
    credentials: bytes | None = field(default=None, repr=False)
    access_key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    project_id: str
    id: str
    settings: Settings
    created_at: Ms
    updated_at: Ms
    # None: it does not run by itself.
    next_at: Ms | None
    # Failed runs since the last one that succeeded.
    failures: int
    cursor: str | None
    lease_until: Ms
    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    id: int
    started_at: Ms
    finished_at: Ms | None = None
    state: State = "running"
    # 'whole' or 'increment'.
    kind: str | None = None
    folder: str | None = None
    rows: int = 0
    bytes: int = 0
    files: int = 0
    error: str | None = None


async def create(
    connection: Connection, project_id: str, id: str, settings: Settings, now: Ms, next_at: Ms | None
) -> Export:
    row = await connection.fetchrow(_SAVE, project_id, id, *_columns(settings), now, next_at, None)
    assert row is not None
    return _export(row)


async def change(connection: Connection, before: Export, settings: Settings, now: Ms, next_at: Ms | None) -> Export:
    """An increment continues only where the same was exported to the same place."""
    kept = _continues(before.settings, settings)
    cursor = before.cursor if kept else None
    row = await connection.fetchrow(_SAVE, before.project_id, before.id, *_columns(settings), now, next_at, cursor)
    assert row is not None
    return _export(row)


async def load(connection: Connection, project_id: str, id: str) -> Export | None:
    row = await connection.fetchrow(_LIST, project_id, None, 1, id)
    return None if row is None else _export(row)


async def page(connection: Connection, project_id: str, after: str | None, limit: int) -> list[Export]:
    return [_export(row) for row in await connection.fetch(_LIST, project_id, after, limit, None)]


async def delete(connection: Connection, project_id: str, id: str) -> None:
    await connection.execute(_DELETE, project_id, id)


async def run_now(connection: Connection, project_id: str, id: str, now: Ms, *, whole: bool) -> Export | None:
    row = await connection.fetchrow(_RUN_NOW, project_id, id, now, whole)
    return None if row is None else _export(row)


async def claim(connection: Connection, now: Ms, lease_until: Ms) -> Export | None:
    row = await connection.fetchrow(_CLAIM, now, lease_until)
    return None if row is None else _export(row)


async def renew(connection: Connection, export: Export, lease_until: Ms) -> bool:
    """False: another process has it now."""
    found = await connection.fetchval(_RENEW, export.project_id, export.id, export.token, lease_until)
    return found is not None


async def finish(
    connection: Connection, export: Export, *, next_at: Ms | None, failures: int, cursor: str | None
) -> bool:
    """False: another process has it now, and nothing was recorded."""
    found = await connection.fetchval(_FINISH, export.project_id, export.id, export.token, next_at, failures, cursor)
    return found is not None


async def begin_run(connection: Connection, export: Export, now: Ms) -> int:
    id: int = await connection.fetchval(_BEGIN_RUN, export.project_id, export.id, now, INTERRUPTED, RUNS_KEPT - 1)
    return id


async def finish_run(connection: Connection, export: Export, run: Run) -> None:
    await connection.execute(
        _FINISH_RUN,
        export.project_id,
        export.id,
        run.id,
        run.finished_at,
        run.state,
        run.kind,
        run.folder,
        run.rows,
        run.bytes,
        run.files,
        run.error,
    )


async def runs(connection: Connection, project_id: str, id: str, before: int | None, limit: int) -> list[Run]:
    """Newest first."""
    return [_run(row) for row in await connection.fetch(_RUNS, project_id, id, before, limit)]


async def last_runs(connection: Connection, project_id: str) -> dict[str, Run]:
    """The newest run of each export that has run."""
    return {row["export_id"]: _run(row) for row in await connection.fetch(_RUNS, project_id, None, None, 1)}


def _continues(before: Settings, after: Settings) -> bool:
    same = ("format", "with_tokens", "destination", "endpoint")
    return set(after.what) <= set(before.what) and all(getattr(before, one) == getattr(after, one) for one in same)


def _columns(settings: Settings) -> tuple[object, ...]:
    return (
        settings.name,
        list(settings.what),
        settings.format,
        settings.incremental,
        settings.with_tokens,
        settings.destination,
        settings.endpoint,
        settings.region,
        settings.credentials,
        settings.access_key,
        settings.every,
        settings.enabled,
    )


def _export(row: Record) -> Export:
    return Export(
        project_id=row["project_id"],
        id=row["id"],
        settings=Settings(
            name=row["name"],
            what=tuple(row["what"]),
            format=row["format"],
            incremental=row["incremental"],
            with_tokens=row["with_tokens"],
            destination=row["destination"],
            endpoint=row["endpoint"],
            region=row["region"],
            every=row["every"],
            enabled=row["enabled"],
            credentials=row["credentials"],
            access_key=row["access_key"],
        ),
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        next_at=row["next_at"],
        failures=row["failures"],
        cursor=row["cursor"],
        lease_until=row["lease_until"],
        token=row["token"],
    )


def _run(row: Record) -> Run:
    return Run(
        id=row["id"],
        started_at=row["started_at"],
        finished_at=row["finished_at"],
        state=row["state"],
        kind=row["kind"],
        folder=row["folder"],
        rows=row["rows"],
        bytes=row["bytes"],
        files=row["files"],
        error=row["error"],
    )
