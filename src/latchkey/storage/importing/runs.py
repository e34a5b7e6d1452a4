"""Imports: what was imported from which files, how far it came, and what was skipped."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal

from msgspec import json

from latchkey.domain.instants import Ms
from latchkey.storage.database import Connection
from latchkey.storage.sql import query

_LOCK = query("lock_import")
_FIND = query("find_import")
_BEGIN = query("begin_import")
_RESTART = query("restart_import")
_ADVANCE = query("advance_import")
_FINISH = query("finish_import")
_SKIPS = query("list_import_skips")
_REASONS = query("reasons_of_skips")
_ADD_SKIPS = query("add_import_skips")

Status = Literal["staging", "applying", "done"]
_SKIPS_AT_ONCE = 5_000


@dataclass(frozen=True, slots=True)
class Run:
    id: str
    status: Status
    staged: int
    cursor: str
    counts: dict[str, int]
    started_at: Ms
    finished_at: Ms | None


@dataclass(frozen=True, slots=True)
class Skip:
    file: str
    line: int
    reason: str


@asynccontextmanager
async def undone(connection: Connection) -> AsyncIterator[None]:
    """Whatever is done within is rolled back, and its locks are let go. Inside a transaction."""
    nested = connection.transaction()
    await nested.start()
    try:
        yield
    finally:
        await nested.rollback()


async def take_turn(connection: Connection, project_id: str) -> bool:
    """Until the connection ends, no other process imports into this project. False: one does already."""
    taken: bool = await connection.fetchval(_LOCK, project_id)
    return taken


async def find(connection: Connection, project_id: str, fingerprint: str) -> Run | None:
    row = await connection.fetchrow(_FIND, project_id, fingerprint)
    if row is None:
        return None
    return Run(
        id=row["id"],
        status=row["status"],
        staged=row["staged"],
        cursor=row["cursor"],
        counts=json.decode(row["counts"], type=dict[str, int]),
        started_at=row["started_at"],
        finished_at=row["finished_at"],
    )


async def begin(
    connection: Connection,
    project_id: str,
    run_id: str,
    fingerprint: str,
    format: str,
    options: Mapping[str, Any],
    files: Sequence[Mapping[str, Any]],
    now: Ms,
) -> None:
    await connection.execute(
        _BEGIN, project_id, run_id, fingerprint, format, json.encode(options), json.encode(files), b"{}", now
    )


async def restart(connection: Connection, project_id: str, run_id: str, now: Ms, *, forget_skips: bool) -> None:
    await connection.execute(_RESTART, project_id, run_id, now, forget_skips)


async def advance(
    connection: Connection, project_id: str, run: Run, cursor: str, counts: Mapping[str, int], now: Ms
) -> bool:
    """With the batch that it tells of. False: another process has written this batch."""
    found = await connection.fetchval(_ADVANCE, project_id, run.id, run.cursor, cursor, json.encode(counts), now)
    return found is not None


async def finish(connection: Connection, project_id: str, run_id: str, counts: Mapping[str, int], now: Ms) -> None:
    await connection.execute(_FINISH, project_id, run_id, json.encode(counts), now)


async def add_skips(connection: Connection, project_id: str, run_id: str, skips: Sequence[Skip]) -> None:
    if skips:
        await connection.execute(
            _ADD_SKIPS,
            project_id,
            run_id,
            [one.file for one in skips],
            [one.line for one in skips],
            [one.reason for one in skips],
        )


async def reasons(connection: Connection, project_id: str, run_id: str) -> dict[str, int]:
    """How many rows were skipped for each reason, the most frequent first."""
    rows = await connection.fetch(_REASONS, project_id, run_id)
    return {row["reason"]: row["rows"] for row in rows}


async def skips(connection: Connection, project_id: str, run_id: str) -> AsyncIterator[Skip]:
    last = 0
    while rows := await connection.fetch(_SKIPS, project_id, run_id, last, _SKIPS_AT_ONCE):
        for row in rows:
            yield Skip(row["file"], row["line"], row["reason"])
        last = rows[-1]["n"]
