"""Saved filters of customer lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from msgspec import json

from latchkey.domain.instants import Ms
from latchkey.storage.database import Connection, Record
from latchkey.storage.sql import query

_LIST = query("list_segments")
_SAVE = query("save_segment")
_DELETE = query("delete_segment")


@dataclass(frozen=True, slots=True)
class StoredSegment:
    id: str
    name: str
    # In its text form.
    filter: dict[str, str]
    columns: tuple[str, ...]
    sort: str
    created_at: Ms
    updated_at: Ms


async def page(connection: Connection, project_id: str, after: str | None, limit: int) -> list[StoredSegment]:
    return [_segment(row) for row in await connection.fetch(_LIST, project_id, after, limit, None)]


async def load(connection: Connection, project_id: str, id: str) -> StoredSegment | None:
    row = await connection.fetchrow(_LIST, project_id, None, 1, id)
    return None if row is None else _segment(row)


async def save(
    connection: Connection,
    project_id: str,
    id: str,
    name: str,
    filter: Mapping[str, str],
    columns: Sequence[str],
    sort: str,
    now: Ms,
) -> StoredSegment:
    row = await connection.fetchrow(_SAVE, project_id, id, name, json.encode(dict(filter)), list(columns), sort, now)
    assert row is not None, "an insert or update returns its row"
    return _segment(row)


async def delete(connection: Connection, project_id: str, id: str) -> bool:
    return await connection.fetchval(_DELETE, project_id, id) is not None


def _segment(row: Record) -> StoredSegment:
    return StoredSegment(
        row["id"],
        row["name"],
        json.decode(row["filter"], type=dict[str, str]),
        tuple(row["columns"]),
        row["sort"],
        row["created_at"],
        row["updated_at"],
    )
