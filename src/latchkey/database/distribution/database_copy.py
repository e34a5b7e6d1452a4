"""Copies all rows of a database into another one, and compares them. It is one transaction there: all or nothing."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

import asyncpg
from msgspec import Struct

from latchkey.database.distribution.distribute import undistributed
from latchkey.database.distribution.nodes import is_distributed
from latchkey.database.distribution.statements import TABLES
from latchkey.database.errors import DatabaseBusyError, DistributionError
from latchkey.database.migrate import pending_after, require_current
from latchkey.database.pool import connect

NAME = "latchkey admin copy-database"
# Any number that nothing else in this database uses as an advisory lock.
_TURN = int.from_bytes(b"latchrel", "big", signed=True)


# May write, also where everybody else is kept from it (`put_up`).
_SETTINGS: Final = {
    "default_transaction_read_only": "off",
    "lock_timeout": "60000",
    "idle_in_transaction_session_timeout": "0",
    "plan_cache_mode": "force_custom_plan",
    "client_min_messages": "warning",
    # Of a cluster: what a transaction sets holds on every node, and it uses one connection to each.
    "citus.propagate_set_commands": "local",
    "citus.multi_shard_modify_mode": "sequential",
}


@asynccontextmanager
async def both(source_url: str, target_url: str) -> AsyncIterator[tuple[Any, Any]]:
    async with AsyncExitStack() as stack:
        opened = []
        for url in (source_url, target_url):
            opened.append(await connect(url, application_name=NAME, settings=_SETTINGS))
            stack.push_async_callback(_close, opened[-1])
        yield opened[0], opened[1]


async def take_turn(target: Any) -> None:
    """One process at a time fills a database."""
    if not await target.fetchval("select pg_try_advisory_lock($1)", _TURN):
        raise DatabaseBusyError("Another `latchkey admin copy-database` fills that database. Stop it first.")


async def _close(connection: Any) -> None:
    try:
        await asyncio.wait_for(connection.close(), 5)
    except (TimeoutError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
        connection.terminate()


# Each database has its own. `customer_keys` is filled from what was copied.
ITS_OWN: Final = frozenset({"schema_migrations", "server_identity", "customer_keys"})

_DESCRIBED = """
select c.relname::text as name,
    array_agg(a.attname::text order by a.attname) as columns,
    array_agg(format_type(a.atttypid, a.atttypmod) order by a.attname) as types
from pg_class c
join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and c.relname = any($1::text[])
group by c.relname
"""

# The tables whose rows are copied, in the order of `TABLES`, with their columns.
Tables = dict[str, list[str]]


async def compared(source: Any, target: Any) -> Tables:
    """Raises unless both databases have the same tables."""
    here, there = [
        {row["name"]: row for row in await connection.fetch(_DESCRIBED, list(TABLES))}
        for connection in (source, target)
    ]
    for name in TABLES:
        if name not in here or here[name] != there.get(name):
            raise DistributionError(
                f"The table {name} is not the same in both databases. Run `latchkey migrate` of this version on both, "
                "and `latchkey migrate --after`."
            )
    return {name: here[name]["columns"] for name in TABLES if name not in ITS_OWN}


def _listed(columns: list[str]) -> str:
    return ", ".join(f'"{column}"' for column in columns)


async def partitions_of(connection: Any) -> dict[int, Any]:
    rows = await connection.fetch("select partition, opened_at, dropped_at from partitions order by 1")
    return {row["partition"]: row for row in rows}


async def follow_partitions(source: Any, target: Any) -> None:
    """Can be repeated."""
    there = await partitions_of(target)
    for number, partition in sorted((await partitions_of(source)).items(), key=lambda pair: (pair[0] < 0, pair[0])):
        if number not in there:
            await target.execute("select open_partition($1, $2)", number, partition["opened_at"])
            there = await partitions_of(target)
        if partition["dropped_at"] is not None and there[number]["dropped_at"] is None:
            await target.execute("select drop_partition($1, $2)", number, partition["dropped_at"])


_OTHERS = """
select array_agg(pid) from pg_stat_activity
where datname = current_database() and backend_type = 'client backend' and application_name <> $1
"""
_LEFT = "select count(*) from pg_stat_activity where pid = any($1::integer[]) and datname = current_database()"
_PATIENCE_SECONDS = 30.0


async def put_up(source: Any) -> None:
    """Keeps everybody from writing until `take_down`, also after a crash of the server or of this process. Reads go on.
    Returns when nobody can write any more and everything that was committed is visible."""
    await _set(source, "set default_transaction_read_only = on")
    await _part_from_others(source)


async def take_down(source: Any) -> None:
    await _set(source, "reset default_transaction_read_only")
    # Who has connected meanwhile cannot write.
    await _part_from_others(source)


async def is_up(source: Any) -> bool:
    found: bool = await source.fetchval(
        "select coalesce(bool_or('default_transaction_read_only=on' = any(s.setconfig)), false)"
        " from pg_db_role_setting s join pg_database d on d.oid = s.setdatabase"
        " where d.datname = current_database() and s.setrole = 0"
    )
    return found


async def _set(source: Any, words: str) -> None:
    name = await source.fetchval("select quote_ident(current_database())")
    await source.execute(f"alter database {name} {words}")


async def _part_from_others(source: Any) -> None:
    pids = await source.fetchval(_OTHERS, NAME) or []
    await source.execute("select pg_terminate_backend(pid) from unnest($1::integer[]) as pid", pids)
    loop = asyncio.get_running_loop()
    give_up = loop.time() + _PATIENCE_SECONDS
    while await source.fetchval(_LEFT, pids):
        if loop.time() > give_up:
            raise DistributionError("Some connections to the database could not be ended.")
        await asyncio.sleep(0.02)


# Pieces of some ten kilobytes that may wait between the two.
_WAITING = 64
_COUNTER: Final = "customers_id_seq"
_SEQUENCES = "select sequencename::text as name, last_value from pg_sequences where schemaname = 'public'"
# The column that each sequence is for.
_OWNERS = """
select s.relname::text as name, t.relname::text as table, a.attname::text as column
from pg_depend d
join pg_class s on s.oid = d.objid and s.relkind = 'S' and s.relnamespace = 'public'::regnamespace
join pg_class t on t.oid = d.refobjid
join pg_attribute a on a.attrelid = t.oid and a.attnum = d.refobjsubid
where d.deptype in ('a', 'i') and t.relname = any($1::text[])
"""


class Copied(Struct, frozen=True):
    rows: int
    # As COPY sends them.
    bytes: int
    seconds: float


async def copy_all(
    source: Any, target: Any, told: Callable[[str], None], *, dry_run: bool = False, replace: bool = False
) -> Copied:
    """If anything fails, both databases are as before. Afterwards nobody can write to the source; after a dry run
    everybody can, and the target is as before."""
    tables = await _require_fit(source, target)
    if not replace and await target.fetchval("select exists (select from projects)"):
        raise DistributionError("The other database has projects. --replace deletes everything in it first.")
    await take_turn(target)
    began = time.monotonic()
    if dry_run:
        rows, size = await _copy(source, target, tables, told, keep=False)
    else:
        try:
            await put_up(source)
            rows, size = await _copy(source, target, tables, told, keep=True)
        except BaseException:
            await take_down(source)
            raise
        if await is_up(target):
            await take_down(target)
        await target.execute("analyze")
    return Copied(rows, size, time.monotonic() - began)


async def _require_fit(source: Any, target: Any) -> Tables:
    into_cluster = await is_distributed(target)
    if await is_distributed(source) == into_cluster:
        raise DistributionError(
            "One of the two databases must be distributed (`latchkey migrate --distributed`), and the other not."
        )
    for connection in (source, target):
        await require_current(connection)
        if waiting := await pending_after(connection):
            raise DistributionError(f"{waiting[0].label} is pending. Run `latchkey migrate --after` first.")
    if into_cluster and await undistributed(target):
        raise DistributionError(
            "The other database is not distributed completely. Run `latchkey migrate --distributed` on it."
        )
    if not await target.fetchval("select has_parameter_privilege('session_replication_role', 'set')"):
        raise DistributionError(
            "This user may not switch foreign keys off in the other database: run `grant set on parameter "
            "session_replication_role to <user>` there, on every node."
        )
    return await compared(source, target)


async def _copy(
    source: Any, target: Any, tables: Tables, told: Callable[[str], None], *, keep: bool
) -> tuple[int, int]:
    """How many rows, and how many bytes."""
    rows = size = 0
    work = target.transaction()
    await work.start()
    try:
        async with source.transaction(isolation="repeatable_read", readonly=True):
            listed = ", ".join(f"public.{name}" for name in tables if name != "partitions")
            await target.execute(f"truncate {listed}, public.customer_keys cascade")
            # As replication does: no foreign keys, no triggers. Not before: Citus empties the shards by a trigger.
            await target.execute("set local session_replication_role = replica")
            await follow_partitions(source, target)
            await target.execute("delete from partitions")
            for name, columns in tables.items():
                amount, length = await _copy_table(source, target, name, columns)
                rows, size = rows + amount, size + length
                if amount:
                    told(f"{name}: {amount:,} rows copied")
            # Nodes of a cluster that others write to do not show one moment.
            if keep or not await is_distributed(source):
                await _compare(source, target, tables)
                told("All rows are the same in both databases.")
            await _take_numbers_over(source, target, list(tables))
    except BaseException:
        await work.rollback()
        raise
    await (work.commit() if keep else work.rollback())
    return rows, size


async def _copy_table(source: Any, target: Any, table: str, columns: list[str]) -> tuple[int, int]:
    waiting: asyncio.Queue[bytes | None] = asyncio.Queue(_WAITING)
    size = 0

    async def read() -> str:
        try:
            said: str = await source.copy_from_query(
                f"select {_listed(columns)} from public.{table}",  # noqa: S608
                output=waiting.put,
            )
            return said
        finally:
            await waiting.put(None)

    async def pieces() -> AsyncIterator[bytes]:
        nonlocal size
        while (piece := await waiting.get()) is not None:
            size += len(piece)
            yield piece

    reading = asyncio.create_task(read())
    try:
        await target.copy_to_table(table, schema_name="public", columns=columns, source=pieces())
    except BaseException:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        raise
    return int((await reading).split()[-1]), size


async def _compare(source: Any, target: Any, tables: Tables) -> None:
    """Raises unless each table has as many rows in both databases, and the same sum over all their values."""
    for name, columns in tables.items():
        statement = (
            f"select count(*), coalesce(sum(hashtextextended(row({_listed(columns)})::text, 0)), 0)::text"  # noqa: S608
            f" from public.{name}"
        )
        ours, theirs = [tuple(await connection.fetchrow(statement)) for connection in (source, target)]
        if ours != theirs:
            raise DistributionError(
                f"The table {name} is not the same: {ours[0]:,} rows here, {theirs[0]:,} in the other database"
                f"{'' if ours[0] != theirs[0] else ', with other values'}."
            )


async def _take_numbers_over(source: Any, target: Any, names: list[str]) -> None:
    """Nothing gets a number that was given before, also to a row that is deleted. A cluster counts the keys of
    customers for each project, and its nodes have ranges of their own of each sequence."""
    given = {row["name"]: row["last_value"] or 0 for row in await source.fetch(_SEQUENCES)}
    given[_COUNTER] = max(
        given[_COUNTER], await source.fetchval("select coalesce(max(last), 0) from public.customer_keys")
    )
    for row in await target.fetch(_OWNERS, names):
        column = f'select coalesce(max("{row["column"]}"), 0) from public.{row["table"]}'  # noqa: S608
        last = max(given[row["name"]], await target.fetchval(column))
        await target.execute("select setval($1::text::regclass, $2, $3)", row["name"], max(last, 1), last > 0)
    if await is_distributed(target):
        projects = [row["id"] for row in await target.fetch("select id from public.projects")]
        await target.execute(
            "insert into public.customer_keys (project_id, last) select id, $2 from unnest($1::text[]) as id",
            projects,
            given[_COUNTER],
        )
