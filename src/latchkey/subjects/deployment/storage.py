"""One PostgreSQL: the server, the tables of this database, standbys, the projects with the most events; and the nodes
and shards of a Citus cluster, as its coordinator sees them."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from latchkey.database.pool import Connection
from latchkey.database.rows import fetch_all, fetches_all, fetches_value, finds_value, item_of
from latchkey.database.sql import query
from latchkey.subjects.deployment.rules import HotProject, Node, PartitionReport, Place, ServerReport, Standby, Table

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


class Piece(Struct, frozen=True):
    """A table, or a partition of one."""

    name: str
    partition: str | None
    bounds: str
    rows: int | None
    bytes: int
    dead: int
    place: Place


class Shard(Piece, frozen=True):
    """One placement of a shard: reference tables have one on every node. Citus also counts tables of the coordinator
    that refer to others."""

    id: int
    shard_name: str
    host: str
    port: int
    # Shards of different tables with the same range have the same projects, and are on the same node.
    range: str

    @property
    def is_spread(self) -> bool:
        return self.place == "by project"

    @property
    def node(self) -> str:
        return f"{self.host}:{self.port}"


async def tables(connection: Connection) -> tuple[list[Table], list[PartitionReport]]:
    """Largest first. Partitions are added up in their table, and listed for themselves."""
    return summed(await fetch_all(connection, Piece, query("look_at_tables")))


def summed(pieces: Iterable[Piece]) -> tuple[list[Table], list[PartitionReport]]:
    """Pieces of the same table, or of the same partition, as one."""
    tables: dict[str, Table] = {}
    partitions: dict[str, PartitionReport] = {}
    for piece in pieces:
        table = tables.get(piece.name) or Table(piece.name, None, 0, 0, place=piece.place)
        rows, dead = added(table.rows, piece.rows), table.dead + piece.dead
        tables[piece.name] = replace(table, rows=rows, bytes=table.bytes + piece.bytes, dead=dead)
        if name := piece.partition:
            part = partitions.get(name) or PartitionReport(piece.name, name, piece.bounds, None, 0)
            rows = added(part.rows, piece.rows)
            partitions[name] = replace(part, rows=rows, bytes=part.bytes + piece.bytes)
    count = Counter(part.table for part in partitions.values())
    found = [replace(table, partitions=count[table.name]) for table in tables.values()]
    return sorted(found, key=lambda one: -one.bytes), sorted(partitions.values(), key=lambda one: (one.table, one.name))


def added(first: int | None, second: int | None) -> int | None:
    """Of two numbers of which either may be unknown."""
    return second if first is None else first if second is None else first + second


largest_feeds = fetches_all(HotProject, query("look_at_feeds"))
events_since = finds_value(int, query("count_events_since"))
# Of a project, counted up to a limit.
customers = fetches_value(int, query("export_size"))

_ASK = query("ask_nodes")
# A node that does not answer must not hold up the page for Citus's own 30 seconds.
_PATIENCE = "set local citus.node_connection_timeout = '3s'"


async def version(connection: Connection) -> str:
    """Of Citus; empty on a plain PostgreSQL."""
    return str(await connection.fetchval(query("find_citus")) or "")


async def nodes(connection: Connection, shards: Sequence[Shard]) -> list[Node]:
    """Needs a transaction."""
    await connection.execute(_PATIENCE)
    one_column = f"select row_to_json(asked) from ({SERVER}) as asked"  # noqa: S608 - one of our own, without input
    answers = {row["id"]: row for row in await connection.fetch(_ASK, one_column)}
    found = []
    for row in await connection.fetch(query("look_at_nodes")):
        answer = answers.get(row["id"])
        server, problem = None, "it is not asked: it is not active"
        if answer is not None:
            server = msgspec.json.decode(answer["result"]) if answer["success"] else None
            problem = "" if answer["success"] else str(answer["result"])
        own = [shard.bytes for shard in shards if shard.is_spread and shard.node == f"{row['host']}:{row['port']}"]
        found.append(item_of(Node, row, server=server, problem=problem, shards=len(own), shard_bytes=sum(own)))
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
        found.append(item_of(Shard, row, rows=rows if rows >= 0 else None, dead=dead))
    return found


def cluster_tables(shards: Sequence[Shard], here: Sequence[Table]) -> tuple[list[Table], list[PartitionReport]]:
    """All tables of the cluster: those in shards, and those that are only `here`, on the coordinator. A reference table
    has its rows once, and its size on every node."""
    seen: set[int] = set()
    pieces: list[Shard] = []
    for shard in shards:
        pieces.append(replace(shard, rows=None, dead=0) if shard.id in seen else shard)
        seen.add(shard.id)
    spread, partitions = summed(pieces)
    others = {shard.shard_name.rpartition(".")[2] for shard in shards} | {table.name for table in spread}
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
    sizes, together = Counter[str](), Counter[str]()
    for shard in by_id.values():
        sizes[shard.range] += shard.bytes
    rows = await connection.fetch(query("place_projects"))
    placed = {row["id"]: by_id[row["shard"]] for row in rows if row["shard"] in by_id}
    together.update(shard.range for shard in placed.values())
    return {
        project: ProjectLocation(shard.node, sizes[shard.range], together[shard.range] - 1)
        for project, shard in placed.items()
    }
