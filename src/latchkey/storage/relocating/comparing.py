"""Whether two databases have the same rows: the number of rows of each table, and a sum over all their values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from latchkey.storage.errors import NotRelocatableError
from latchkey.storage.relocating.tables import Described

_HEADS = """
select f.project_id, f.position, (select max(e.position) from events e where e.project_id = f.project_id)
from feeds f order by 1
"""


@dataclass(frozen=True, slots=True)
class Sum:
    rows: int
    of_values: str


async def sum_of(connection: Any, table: Described) -> Sum:
    row = await connection.fetchrow(
        f"select count(*), coalesce(sum(hashtextextended(row({table.listed})::text, 0)), 0)::text"  # noqa: S608
        f" from public.{table.name}"
    )
    return Sum(*row)


async def compare(source: Any, target: Any, tables: Iterable[Described]) -> Mapping[str, Sum]:
    """Raises if a table is not the same. The sums are those of both."""
    found: dict[str, Sum] = {}
    for table in tables:
        ours, theirs = await sum_of(source, table), await sum_of(target, table)
        if ours != theirs:
            raise NotRelocatableError(
                f"The table {table.name} is not the same: {ours.rows:,} rows in the old database, {theirs.rows:,} in "
                f"the new one{'' if ours.rows != theirs.rows else ', with other values'}."
            )
        found[table.name] = ours
    return found


async def compare_feeds(source: Any, target: Any) -> int:
    """The position of each project's feed, and of its newest event. How many projects there are."""
    ours, theirs = [[tuple(row) for row in await one.fetch(_HEADS)] for one in (source, target)]
    for mine, other in zip(ours, theirs, strict=False):
        if mine != other:
            raise NotRelocatableError(
                f"The feed of {mine[0]} is at {mine[1:]} in the old database, {other[1:]} in the new."
            )
    if len(ours) != len(theirs):
        raise NotRelocatableError(f"{len(ours)} feeds are in the old database, {len(theirs)} in the new one.")
    return len(ours)


async def small(source: Any, tables: Iterable[Described], most: int) -> list[Described]:
    """The tables of at most so many bytes."""
    rows = await source.fetch(
        "select c.relname::text as name, sum(pg_relation_size(p.relid))::bigint as size"
        " from pg_class c cross join lateral ("
        "  select relid from pg_partition_tree(c.oid) where isleaf"
        "  union all select c.oid::regclass where c.relkind = 'r'"
        " ) as p where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') group by 1"
    )
    sizes = {row["name"]: row["size"] for row in rows}
    return [one for one in tables if sizes[one.name] <= most]
