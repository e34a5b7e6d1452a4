"""Statements that name several projects are sent once for each: arguments are taken apart, rows put together."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import asyncpg
from msgspec import json

from latchkey.database.distribution.statements import ByProject, ByWebhook
from latchkey.database.sql import notation, query, values_of

# Of webhooks in a notification, as in `wake_deliveries`.
MOST_NAMED = 300
# What `at_project.hold` says of a project that another node has now.
MOVED = "was moved to another node"
# What a session of the coordinator says that is of no use any more; see setup.sql.
NOT_SENT = "was not sent to the node of its project"


class MergedRow(dict[str, Any]):
    """Made of other rows; used as the driver's records are: by name and by place, and iterated over by value."""

    def __getitem__(self, key: int | str) -> Any:
        return super().__getitem__(key) if isinstance(key, str) else list(self.values())[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values())


def changed(row: Any, **values: Any) -> MergedRow:
    return MergedRow({**dict(row.items()), **values})


def projects(route: ByProject, args: Sequence[Any]) -> list[str]:
    """In the order in which locks are taken."""
    return sorted({one for columns in route.columns for one in _listed(args[columns[0] - 1])})


def part(route: ByProject, args: Sequence[Any], project_id: str) -> tuple[list[Any], list[int]]:
    """The arguments for one project, and the places of its entries in the first columns."""
    own = list(args)
    places: list[int] = []
    for columns in reversed(route.columns):
        places = [n for n, one in enumerate(_listed(args[columns[0] - 1])) if one == project_id]
        for number in columns:
            own[number - 1] = some(args[number - 1], places)
    return own, places


def _listed(column: Any) -> Sequence[Any]:
    return values_of(column) if isinstance(column, str) else column


def some(column: Any, places: Sequence[int]) -> Any:
    """These values of an array; of one in PostgreSQL's notation, the same."""
    if isinstance(column, str):
        values = values_of(column)
        return notation([values[n] for n in places])
    return [column[n] for n in places]


def together(route: ByProject, parts: Iterable[tuple[Sequence[int], Sequence[Any]]]) -> list[Any]:
    if route.in_order:
        placed = [pair for places, rows in parts for pair in zip(places, rows, strict=True)]
        return [row for _, row in sorted(placed, key=lambda pair: pair[0])]
    if route.place is not None:
        name = route.place
        return [changed(row, **{name: places[row[name] - 1] + 1}) for places, rows in parts for row in rows]
    return [row for _, rows in parts for row in rows]


def by_webhook(route: ByWebhook, args: Sequence[Any], found: Mapping[int, str]) -> Iterator[tuple[str, list[Any]]]:
    """The arguments for each project; webhooks that do not exist are left out."""
    keys = args[route.first - 1]
    for project_id in sorted({found[key] for key in keys if key in found}):
        places = [n for n, key in enumerate(keys) if found.get(key) == project_id]
        own = list(args)
        for number in range(route.first, route.last + 1):
            own[number - 1] = [args[number - 1][n] for n in places]
        yield project_id, own


def sums(rows: Sequence[Any], least: Sequence[str] = ()) -> list[Any]:
    """One row: numbers added, booleans true if one is, the least of some columns."""
    if not rows:
        return []
    return [MergedRow({name: _sum([row[name] for row in rows], name in least) for name in rows[0].keys()})]  # noqa: SIM118


def _sum(values: Sequence[Any], least: bool) -> Any:
    known = [value for value in values if value is not None]
    if not known:
        return None
    if least:
        return min(known)
    return any(known) if isinstance(known[0], bool) else sum(known)


def as_collision(error: asyncpg.PostgresError) -> Exception:
    """A duplicate key that a worker reports may arrive as an internal error; its text still says so."""
    text = str(error)
    if "duplicate key value violates unique constraint" in text:
        return asyncpg.UniqueViolationError(text)
    if "deadlock" in text or "could not serialize" in text or MOVED in text:
        return asyncpg.SerializationError(text)
    if "violates foreign key constraint" in text:
        return asyncpg.ForeignKeyViolationError(text)
    return error


# Statements of plain PostgreSQL that are several in a distributed database, and what follows some others. A handler
# takes the connection and the arguments of the plain statement. Its rows have the same columns.


async def admit_reads(connection: Any, args: Sequence[Any]) -> list[Any]:
    hashes, firsts, amounts, ids = args
    none = [0] * len(hashes)
    return await _read(
        connection, firsts, amounts, ids, (hashes, amounts, amounts, none, none, none, [None] * len(hashes))
    )


async def admit_reads_with_leases(connection: Any, args: Sequence[Any]) -> list[Any]:
    hashes, firsts, amounts, wanted, ahead, back, settled, back_at, ids = args
    return await _read(connection, firsts, amounts, ids, (hashes, amounts, wanted, ahead, back, settled, back_at))


async def _read(
    connection: Any, firsts: Sequence[int], amounts: Sequence[int], ids: Sequence[str | None], counted: Sequence[Any]
) -> list[Any]:
    """The project of a key never changes. If it is known, the node reads while the coordinator counts."""
    directory, hashes = connection.directory, counted[0]
    parts = [ids[first : first + amount] for first, amount in zip(firsts, amounts, strict=True)]
    asked = [any(one is not None for one in own) for own in parts]
    begun: dict[int, asyncio.Task[list[Any] | None]] = {}
    try:
        for number, own in enumerate(parts):
            project_id = directory.project_of_key.get(hashes[number])
            if asked[number] and project_id is not None:
                task = await connection.begin_read("read_admitted", project_id, (project_id, own, firsts[number]))
                if task is not None:
                    begun[number] = task
        keys = await connection.fetch(query("count_reads"), *counted)
        await asyncio.gather(*begun.values())
    except BaseException:
        for task in begun.values():
            task.cancel()
        await asyncio.gather(*begun.values(), return_exceptions=True)
        raise
    rows: list[Any] = []
    for key in keys:
        number = key["place"] - 1
        first, own, project_id = firsts[number], parts[number], key["project_id"]
        directory.remember_key(hashes[number], project_id)
        read = begun[number].result() if number in begun else None
        if read is None:
            read = await connection.fetch(query("read_admitted"), project_id, own, first) if asked[number] else []
        # What is said of the key is in the row of its first id, whoever that is.
        of_first = MergedRow({"place": first + 1, **_NOBODY, "of_key": key["said"]})
        for row in read:
            if row["place"] == first + 1:
                of_first = changed(row, of_key=key["said"])
            else:
                rows.append(row)
        rows.append(of_first)
    return rows


_NOBODY = dict.fromkeys(
    (
        "key", "state", "now_ms", "next_due_at", "last_seen_at", "last_seen_platform", "last_seen_platform_version",
        "last_seen_app_version", "last_seen_country",
    )
)  # fmt: skip


async def insert_feed(connection: Any, args: Sequence[Any]) -> list[Any]:
    rows: list[Any] = await connection.on_shards(connection.directory.on_shards["insert_feed"], args)
    await connection.execute(query("insert_customer_counter"), *args)
    # The project may be the first one in its shard.
    connection.directory.forget_shards()
    return rows


async def lock_parts(connection: Any, _: Sequence[Any]) -> list[Any]:
    """On the coordinator alone, through which every process opens and drops parts. If a node waits for a lock in vain,
    Citus reports an internal error, and does not say which."""
    await connection.plain("set local citus.enable_ddl_propagation = off")
    await connection.plain(query("lock_partitions"))
    await connection.plain("set local citus.enable_ddl_propagation = on")
    return []


async def size_of_partition(connection: Any, args: Sequence[Any]) -> list[Any]:
    """Over all nodes."""
    rows: list[Any] = await connection.fetch(query("size_of_partition").replace("pg_total", "citus_total"), *args)
    return rows


async def write_changes(connection: Any, args: Sequence[Any]) -> list[Any]:
    """A node cannot notify the processes, which listen to the coordinator."""
    rows: list[Any] = await connection.on_shards(connection.directory.on_shards["write_changes"], args)
    if woken := json.decode(rows[0][0]).get("woken"):
        await connection.plain(query("wake_workers"), ",".join(map(str, woken)) if len(woken) <= MOST_NAMED else "")
    return rows


Handler = Callable[[Any, Sequence[Any]], Awaitable[list[Any]]]

HANDLERS: Final[dict[str, Handler]] = {
    "admit_reads": admit_reads,
    "admit_reads_with_leases": admit_reads_with_leases,
    "insert_feed": insert_feed,
    "lock_partitions": lock_parts,
    "size_of_partition": size_of_partition,
    "write_changes": write_changes,
}
