"""One PostgreSQL: the server, the tables of this database, standbys, the projects with the most events; and the nodes
and shards of a Citus cluster, as its coordinator sees them."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple

import msgspec

from latchkey.database.pool import Connection, Record
from latchkey.database.rows import fetch_all, fetches_all, fetches_value, finds_value, item_of
from latchkey.database.sql import query
from latchkey.subjects.deployment.rules import HotProject, Node, PartitionReport, ServerReport, Standby, Table

SERVER = query("look_at_server")


async def server(connection: Connection) -> ServerReport:
    row = await connection.fetchrow(SERVER)
    assert row is not None, "it has no condition"
    oldest, slots = msgspec.json.decode(row["oldest"] or b"null"), msgspec.json.decode(row["slots"])
    return item_of(ServerReport, row, oldest=oldest, slots=slots)


async def standbys(connection: Connection) -> tuple[list[Standby], str]:
    """And the setting synchronous_standby_names."""
    return await fetch_all(connection, Standby, query("look_at_standbys")), str(
        await connection.fetchval(query("synchronous_standbys"))
    )


async def tables(connection: Connection) -> tuple[list[Table], list[PartitionReport]]:
    """Largest first. Partitions are added up in their table, and listed for themselves."""
    rows = await connection.fetch(query("look_at_tables"))
    return summed((Table(row["name"], row["rows"], row["bytes"], row["dead"]), _partition(row)) for row in rows)


def _partition(row: Record) -> PartitionReport | None:
    if not row["partition"]:
        return None
    return PartitionReport(row["name"], row["partition"], row["bounds"], row["rows"], row["bytes"])


def summed(pieces: Iterable[tuple[Table, PartitionReport | None]]) -> tuple[list[Table], list[PartitionReport]]:
    """Pieces of the same table, or of the same partition, as one."""
    tables: dict[str, Table] = {}
    partitions: dict[str, PartitionReport] = {}
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


largest_feeds = fetches_all(HotProject, query("look_at_feeds"))
events_since = finds_value(int, query("count_events_since"))
# Of a project, counted up to a limit.
customers = fetches_value(int, query("export_size"))

_ASK = query("ask_nodes")
# By what Citus calls a table.
_PLACES: Final[Mapping[str, Literal["on every node", "by project", "coordinator"]]] = {
    "distributed": "by project",
    "reference": "on every node",
    "local": "coordinator",
}
# A node that does not answer must not hold up the page for Citus's own 30 seconds.
_PATIENCE = "set local citus.node_connection_timeout = '3s'"


@dataclass(frozen=True, slots=True)
class Shard:
    """One placement of a shard: reference tables have one on every node. Citus also counts tables of the coordinator
    that refer to others."""

    id: int
    table: Table
    partition: PartitionReport | None
    relation: str
    host: str
    port: int
    # Shards of different tables with the same place have the same projects, and are on the same node.
    place: str

    @property
    def is_spread(self) -> bool:
        return self.table.place == "by project"

    @property
    def node(self) -> str:
        return f"{self.host}:{self.port}"


async def version(connection: Connection) -> str:
    """Of Citus; empty on a plain PostgreSQL."""
    return str(await connection.fetchval(query("find_citus")) or "")


async def nodes(connection: Connection, shards: Sequence[Shard]) -> list[Node]:
    """Needs a transaction."""
    await connection.execute(_PATIENCE)
    one_column = f"select row_to_json(asked) from ({SERVER}) as asked"  # noqa: S608 - one of our own, without input
    answers = {row["id"]: row for row in await connection.fetch(_ASK, one_column)}
    spread = [shard for shard in shards if shard.is_spread]
    found = []
    for row in await connection.fetch(query("look_at_nodes")):
        answer = answers.get(row["id"])
        is_up = answer is not None and answer["success"]
        own = [shard for shard in spread if (shard.host, shard.port) == (row["host"], row["port"])]
        role: Literal["coordinator", "worker", "standby"] = "coordinator" if row["groupid"] == 0 else "worker"
        found.append(
            Node(
                row["id"],
                row["host"],
                row["port"],
                role if row["role"] == "primary" else "standby",
                msgspec.json.decode(answer["result"], type=ServerReport) if is_up and answer else None,
                "" if is_up else str(answer["result"]) if answer else "it is not asked: it is not active",
                len(own),
                sum(shard.table.bytes for shard in own),
            )
        )
    return found


async def shards(connection: Connection) -> list[Shard]:
    """Needs a transaction."""
    await connection.execute(_PATIENCE)
    rows_of: dict[int, tuple[int, int]] = {}
    for answer in await connection.fetch(_ASK, query("look_at_shard_rows")):
        if answer["success"]:
            told = msgspec.json.decode(answer["result"], type=list[tuple[int, int, int]])
            rows_of |= {shard: (rows, dead) for shard, rows, dead in told}
    found = []
    for row in await connection.fetch(query("look_at_shards")):
        rows, dead = rows_of.get(row["id"], (-1, 0))
        known = rows if rows >= 0 else None
        part = row["partition"]
        found.append(
            Shard(
                row["id"],
                Table(row["name"], known, row["bytes"], dead, place=_PLACES[row["type"]]),
                PartitionReport(row["name"], part, row["bounds"], known, row["bytes"]) if part else None,
                row["shard_name"],
                row["host"],
                row["port"],
                row["place"],
            )
        )
    return found


def cluster_tables(shards: Iterable[Shard], here: Sequence[Table]) -> tuple[list[Table], list[PartitionReport]]:
    """All tables of the cluster: those in shards, and those that are only `here`, on the coordinator. A reference table
    has its rows once, and its size on every node."""
    shards = list(shards)
    seen: set[int] = set()
    pieces: list[tuple[Table, PartitionReport | None]] = []
    for shard in shards:
        again = shard.id in seen
        seen.add(shard.id)
        pieces.append((replace(shard.table, rows=None, dead=0) if again else shard.table, shard.partition))
    spread, partitions = summed(pieces)
    others = {shard.relation.rpartition(".")[2] for shard in shards} | {table.name for table in spread}
    local = [replace(table, place="coordinator") for table in here if table.name not in others]
    return sorted([*spread, *local], key=lambda one: -one.bytes), partitions


class ProjectLocation(NamedTuple):
    """Where a project's rows are."""

    node: str
    # All shards of its range together, and how many other projects are in them.
    bytes: int
    neighbours: int


async def homes(connection: Connection, shards: Sequence[Shard]) -> Mapping[str, ProjectLocation]:
    """By project."""
    by_id = {shard.id: shard for shard in shards if shard.is_spread}
    sizes: dict[str, int] = defaultdict(int)
    for shard in by_id.values():
        sizes[shard.place] += shard.table.bytes
    placed = {row["id"]: by_id.get(row["shard"]) for row in await connection.fetch(query("place_projects"))}
    together: dict[str, int] = defaultdict(int)
    for one in placed.values():
        if one is not None:
            together[one.place] += 1
    return {
        project: ProjectLocation(one.node, sizes[one.place], together[one.place] - 1)
        for project, one in placed.items()
        if one is not None
    }
