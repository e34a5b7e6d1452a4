"""Copies all rows of a database into another one, and compares them. It is one transaction there: all or nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Final

from latchkey.storage.distribution.distribute import undistributed
from latchkey.storage.distribution.nodes import is_distributed
from latchkey.storage.errors import NotRelocatableError
from latchkey.storage.migrate import pending_after, require_current
from latchkey.storage.relocating import connections, fence, tables
from latchkey.storage.relocating.tables import Described

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


@dataclass(frozen=True, slots=True)
class Copied:
    rows: int
    # As COPY sends them.
    bytes: int
    seconds: float


async def copy_all(
    source: Any, target: Any, told: Callable[[str], None], *, dry_run: bool = False, replace: bool = False
) -> Copied:
    """If anything fails, both databases are as before. Afterwards nobody can write to the source; after a dry run
    everybody can, and the target is as before."""
    described = await _require_fit(source, target)
    if not replace and await target.fetchval("select exists (select from projects)"):
        raise NotRelocatableError("The other database has projects. --replace deletes everything in it first.")
    await connections.take_turn(target)
    began = time.monotonic()
    if dry_run:
        rows, size = await _copy(source, target, described, told, keep=False)
    else:
        try:
            await fence.put_up(source)
            rows, size = await _copy(source, target, described, told, keep=True)
        except BaseException:
            await fence.take_down(source)
            raise
        if await fence.is_up(target):
            await fence.take_down(target)
        await target.execute("analyze")
    return Copied(rows, size, time.monotonic() - began)


async def _require_fit(source: Any, target: Any) -> dict[str, Described]:
    into_cluster = await is_distributed(target)
    if await is_distributed(source) == into_cluster:
        raise NotRelocatableError(
            "One of the two databases must be distributed (`latchkey migrate --distributed`), and the other not."
        )
    for connection in (source, target):
        await require_current(connection)
        if waiting := await pending_after(connection):
            raise NotRelocatableError(f"{waiting[0].label} is pending. Run `latchkey migrate --after` first.")
    if into_cluster and await undistributed(target):
        raise NotRelocatableError(
            "The other database is not distributed completely. Run `latchkey migrate --distributed` on it."
        )
    if not await target.fetchval("select has_parameter_privilege('session_replication_role', 'set')"):
        raise NotRelocatableError(
            "This user may not switch foreign keys off in the other database: run `grant set on parameter "
            "session_replication_role to <user>` there, on every node."
        )
    return await tables.compared(source, target)


async def _copy(
    source: Any, target: Any, described: dict[str, Described], told: Callable[[str], None], *, keep: bool
) -> tuple[int, int]:
    """How many rows, and how many bytes."""
    rows = size = 0
    work = target.transaction()
    await work.start()
    try:
        async with source.transaction(isolation="repeatable_read", readonly=True):
            listed = ", ".join(f"public.{name}" for name in described if name != "partitions")
            await target.execute(f"truncate {listed}, public.customer_keys cascade")
            # As replication does: no foreign keys, no triggers. Not before: Citus empties the shards by a trigger.
            await target.execute("set local session_replication_role = replica")
            await tables.follow_parts(target, await tables.parts_of(source))
            await target.execute("delete from partitions")
            for table in described.values():
                amount, length = await _copy_table(source, target, table)
                rows, size = rows + amount, size + length
                if amount:
                    told(f"{table.name}: {amount:,} rows copied")
            # Nodes of a cluster that others write to do not show one moment.
            if keep or not await is_distributed(source):
                await _compare(source, target, described)
                told("All rows are the same in both databases.")
            await _take_numbers_over(source, target, list(described))
    except BaseException:
        await work.rollback()
        raise
    await (work.commit() if keep else work.rollback())
    return rows, size


async def _copy_table(source: Any, target: Any, table: Described) -> tuple[int, int]:
    waiting: asyncio.Queue[bytes | None] = asyncio.Queue(_WAITING)
    size = 0

    async def read() -> str:
        try:
            said: str = await source.copy_from_query(
                f"select {table.listed} from public.{table.name}",  # noqa: S608
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
        await target.copy_to_table(table.name, schema_name="public", columns=table.columns, source=pieces())
    except BaseException:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        raise
    return int((await reading).split()[-1]), size


async def _compare(source: Any, target: Any, described: dict[str, Described]) -> None:
    """Raises unless each table has as many rows in both databases, and the same sum over all their values."""
    for table in described.values():
        statement = (
            f"select count(*), coalesce(sum(hashtextextended(row({table.listed})::text, 0)), 0)::text"  # noqa: S608
            f" from public.{table.name}"
        )
        ours, theirs = [tuple(await connection.fetchrow(statement)) for connection in (source, target)]
        if ours != theirs:
            raise NotRelocatableError(
                f"The table {table.name} is not the same: {ours[0]:,} rows here, {theirs[0]:,} in the other database"
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
