"""One PostgreSQL: the server itself, the tables of this database, the standbys, the projects with the most events."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

import msgspec

from latchkey.domain.deployment.standing import Partition, Server, Standby, Table
from latchkey.domain.instants import Ms
from latchkey.storage.database import Connection, Record
from latchkey.storage.sql import query

SERVER = query("look_at_server")
_TABLES = query("look_at_tables")
_STANDBYS = query("look_at_standbys")
_SYNCHRONOUS = query("synchronous_standbys")


async def server(connection: Connection) -> Server:
    row = await connection.fetchrow(SERVER)
    assert row is not None, "it has no condition"
    said = {**row, "oldest": msgspec.json.decode(row["oldest"] or b"null"), "slots": msgspec.json.decode(row["slots"])}
    return msgspec.convert(said, Server)


async def standbys(connection: Connection) -> tuple[list[Standby], str]:
    """And the setting synchronous_standby_names."""
    rows = await connection.fetch(_STANDBYS)
    return [msgspec.convert(dict(row), Standby) for row in rows], str(await connection.fetchval(_SYNCHRONOUS))


async def tables(connection: Connection) -> tuple[list[Table], list[Partition]]:
    """Largest first. Partitions are added up in their table, and listed for themselves."""
    return summed(measured(await connection.fetch(_TABLES)))


def measured(rows: Iterable[Record]) -> list[tuple[Table, Partition | None]]:
    return [
        (
            Table(row["name"], row["rows"], row["bytes"], row["dead"]),
            Partition(row["name"], row["partition"], row["bounds"], row["rows"], row["bytes"])
            if row["partition"]
            else None,
        )
        for row in rows
    ]


def summed(pieces: Iterable[tuple[Table, Partition | None]]) -> tuple[list[Table], list[Partition]]:
    """Pieces of the same table, or of the same partition, as one."""
    tables: dict[str, Table] = {}
    partitions: dict[str, Partition] = {}
    names: dict[str, set[str]] = defaultdict(set)
    for piece, part in pieces:
        if (known := tables.get(piece.name)) is not None:
            rows, dead = added(known.rows, piece.rows), known.dead + piece.dead
            piece = replace(piece, rows=rows, bytes=known.bytes + piece.bytes, dead=dead)
        tables[piece.name] = piece
        if part is not None:
            names[piece.name].add(part.name)
            if (seen := partitions.get(part.name)) is not None:
                part = replace(part, rows=added(seen.rows, part.rows), bytes=seen.bytes + part.bytes)
            partitions[part.name] = part
    found = [replace(table, partitions=len(names[table.name])) for table in tables.values()]
    return sorted(found, key=lambda one: -one.bytes), sorted(partitions.values(), key=lambda one: (one.table, one.name))


def added(first: int | None, second: int | None) -> int | None:
    """Of two numbers of which either may be unknown."""
    return second if first is None else first if second is None else first + second


_FEEDS = query("look_at_feeds")
_SINCE = query("count_events_since")
_CUSTOMERS = query("export_size")


@dataclass(frozen=True, slots=True)
class Feed:
    project_id: str
    name: str
    # Since the project exists.
    events: int


async def largest_feeds(connection: Connection, limit: int) -> list[Feed]:
    rows = await connection.fetch(_FEEDS, limit)
    return [Feed(row["project_id"], row["name"] or "", row["events"]) for row in rows]


async def events_since(connection: Connection, project_id: str, since: Ms) -> int:
    return int(await connection.fetchval(_SINCE, project_id, since) or 0)


async def customers(connection: Connection, project_id: str) -> int:
    return int(await connection.fetchval(_CUSTOMERS, project_id, 1_000_000))
