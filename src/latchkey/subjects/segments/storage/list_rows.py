"""A page of a customer list, how many customers it has, and saved filters."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import asyncpg
from msgspec import convert, json

from latchkey.database.pool import Connection, Database, Record
from latchkey.database.sql import query
from latchkey.domain.instants import Ms
from latchkey.engine.storage.state import decode
from latchkey.subjects.segments.rules.facets import Facets, ListCursor, ListEntry
from latchkey.subjects.segments.rules.filter import NAMES, CustomerFilter, Segment, Sort, When, parse, written

_STANDING = query("customer_list_standing")
_LIST_READING = query("list_facets")
_COUNT = query("count_facets")
_COUNT_SEEN = query("count_seen")


@dataclass(frozen=True, slots=True)
class ListsState:
    # Customers who were not walked to yet: the newest ones, and all of them after an upgrade.
    missing: int
    # Nobody's now is earlier.
    earliest: Ms


async def plan_each(connection: Connection) -> None:
    """For this transaction: lists are planned with their filter and the statistics of the table. Planned once and for
    all, no index could be chosen, because any filter may be empty."""
    await connection.execute("set local plan_cache_mode = force_custom_plan")


async def standing(connection: Connection, project_id: str, now: Ms, most: int = 1) -> ListsState | None:
    """None: there is no such project. Missing customers are counted up to `most`."""
    row = await connection.fetchrow(_STANDING, project_id, now, most)
    return None if row is None else ListsState(row["missing"], row["earliest"])


async def page(
    connection: Connection,
    project_id: str,
    wanted: CustomerFilter,
    now: Ms,
    earliest: Ms,
    *,
    sort: Sort,
    after: ListCursor | None,
    limit: int,
    whole: bool,
) -> list[ListEntry]:
    """`whole`: with the customers themselves."""
    value, key = (after.value, after.key) if after is not None else (None, None)
    rows = await connection.fetch(
        _LIST_READING, project_id, now, earliest, *arguments(wanted, now), sort, value, key, limit, whole
    )
    return [_entry(row) for row in rows]


async def count_within(
    database: Database, timeout_ms: int, project_id: str, wanted: CustomerFilter, now: Ms, most: int
) -> int | None:
    """Counting ends at `most`. None if it takes longer than `timeout_ms`."""
    try:
        async with database.transaction(readonly=True, statement_timeout_ms=timeout_ms) as connection:
            found = await standing(connection, project_id, now)
            if found is None:
                return 0
            await plan_each(connection)
            row = await connection.fetchrow(_COUNT, project_id, now, found.earliest, *arguments(wanted, now), most)
    except asyncpg.QueryCanceledError:
        return None
    assert row is not None, "an aggregate always has a row"
    customers: int = row["customers"]
    return customers


async def count_seen(connection: Connection, project_id: str, environment: str, since: Ms) -> int:
    """Of an environment, or of the test clock with this id."""
    await plan_each(connection)
    customers: int = await connection.fetchval(_COUNT_SEEN, project_id, since, environment)
    return customers


def arguments(wanted: CustomerFilter, now: Ms) -> list[Any]:
    """The fields of the filter, in their order: $4 to $17."""
    return [_argument(getattr(wanted, name), now) for name in NAMES]


def _argument(value: Any, now: Ms) -> Any:
    match value:
        case When():
            return value.resolved(now)
        case frozenset():
            return sorted(value) or None
        case _:
            return value


def _entry(row: Record) -> ListEntry:
    return ListEntry(
        row["customer_id"],
        facets_in(row),
        row["own_now"],
        ListCursor(row["sorted_by"], row["customer_id"]),
        row["app_user_id"],
        decode(row["state"]) if row["state"] is not None else None,
    )


def facets_in(row: Record) -> Facets:
    return convert(dict(row), Facets)


_LIST_SEGMENTS = query("list_segments")
_SAVE = query("save_segment")
_DELETE = query("delete_segment")


async def page_segments(connection: Connection, project_id: str, after: str | None, limit: int) -> list[Segment]:
    return [_segment(row) for row in await connection.fetch(_LIST_SEGMENTS, project_id, after, limit, None)]


async def load(connection: Connection, project_id: str, id: str) -> Segment | None:
    row = await connection.fetchrow(_LIST_SEGMENTS, project_id, None, 1, id)
    return None if row is None else _segment(row)


async def save(
    connection: Connection,
    project_id: str,
    id: str,
    name: str,
    filter: CustomerFilter,
    columns: Sequence[str],
    sort: Sort,
    now: Ms,
) -> Segment:
    row = await connection.fetchrow(_SAVE, project_id, id, name, json.encode(written(filter)), columns, sort, now)
    assert row is not None, "an insert or update returns its row"
    return _segment(row)


async def delete(connection: Connection, project_id: str, id: str) -> bool:
    return await connection.fetchval(_DELETE, project_id, id) is not None


def _segment(row: Record) -> Segment:
    return Segment(
        row["id"],
        row["name"],
        parse(json.decode(row["filter"], type=dict[str, str])),
        tuple(row["columns"]),
        Sort(row["sort"]),
        row["created_at"],
        row["updated_at"],
    )
