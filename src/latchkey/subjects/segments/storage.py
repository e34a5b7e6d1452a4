"""Customer lists: a page, the count, saved filters. The facets of customers: how far they have followed the feeds and
keys of projects, the next batch, and writing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import asyncpg
from msgspec import Struct, convert, json, to_builtins
from msgspec.structs import astuple

from latchkey.database.pool import Connection, Database, Record
from latchkey.database.rows import Listing, executes, fetches_all, fetches_one, item_of, returns_row
from latchkey.database.sql import query
from latchkey.domain.instants import Ms
from latchkey.engine.storage.state import decode
from latchkey.subjects.segments.rules.facets import Facets, ListCursor, ListEntry
from latchkey.subjects.segments.rules.filter import NAMES, CustomerFilter, Segment, Sort, When, parse, written


class ListsState(Struct, frozen=True):
    # Customers who were not walked to yet: the newest ones, and all of them after an upgrade.
    missing: int
    # Nobody's now is earlier.
    earliest: Ms


async def plan_each(connection: Connection) -> None:
    """For this transaction: lists are planned with their filter and the statistics of the table. Planned once and for
    all, no index could be chosen, because any filter may be empty."""
    await connection.execute("set local plan_cache_mode = force_custom_plan")


# None: there is no such project. Missing customers are counted up to a limit.
standing = fetches_one(ListsState, query("customer_list_standing"))


async def page(
    connection: Connection,
    project_id: str,
    wanted: CustomerFilter,
    now: Ms,
    earliest: Ms,
    sort: Sort,
    after: ListCursor | None,
    limit: int,
    whole: bool,
) -> list[ListEntry]:
    """`whole`: with the customers themselves."""
    value, key = (after.value, after.key) if after is not None else (None, None)
    rows = await connection.fetch(
        query("list_facets"), project_id, now, earliest, *arguments(wanted, now), sort, value, key, limit, whole
    )
    return [_entry(row) for row in rows]


async def count_within(
    database: Database, timeout_ms: int, project_id: str, wanted: CustomerFilter, now: Ms, most: int
) -> int | None:
    """Counting ends at `most`. None if it takes longer than `timeout_ms`."""
    try:
        async with database.transaction(readonly=True, statement_timeout_ms=timeout_ms) as connection:
            found = await standing(connection, project_id, now, 1)
            if found is None:
                return 0
            await plan_each(connection)
            customers: int = await connection.fetchval(
                query("count_facets"), project_id, now, found.earliest, *arguments(wanted, now), most
            )
            return customers
    except asyncpg.QueryCanceledError:
        return None


async def count_seen(connection: Connection, project_id: str, environment: str, since: Ms) -> int:
    """Of an environment, or of the test clock with this id."""
    await plan_each(connection)
    # By a bitmap: fetching each of 200,000 rows in the order of an index takes three times the CPU. An index with all
    # columns would be faster only until its table's pages change, which they do all the time.
    await connection.execute("set local enable_indexscan = off")
    customers: int = await connection.fetchval(query("count_seen"), project_id, since, environment)
    return customers


def arguments(wanted: CustomerFilter, now: Ms) -> list[Any]:
    """The fields of the filter, in their order: $4 to $17."""
    found: list[Any] = []
    for name in NAMES:
        value = getattr(wanted, name)
        if isinstance(value, frozenset):
            value = sorted(value) or None
        found.append(value.resolved(now) if isinstance(value, When) else value)
    return found


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
    row = await connection.fetchrow(
        query("save_segment"), project_id, id, name, json.encode(written(filter)), columns, sort, now
    )
    assert row is not None, "an insert or update returns its row"
    return _segment(row)


delete = returns_row(query("delete_segment"))


def _segment(row: Record) -> Segment:
    return item_of(Segment, row, filter=parse(json.decode(row["filter"], type=dict[str, str])))


# By id.
SEGMENTS = Listing("segment", query("list_segments"), Segment, read=_segment)


class StoredCustomer(NamedTuple):
    """As stored. Decoded when it is needed: one that cannot be decoded must not stop the others."""

    project_id: str
    key: int
    # None: the walk came to it, and it has facets already.
    state: bytes | None
    last_seen_at: Ms
    country: str | None


class Roll(Struct, frozen=True):
    """The progress of a project, locked by the transaction that processes the next batch. Customers up to key `counted`
    are counted; those up to `mark_id` are next."""

    project_id: str
    position: int
    counted: int
    mark_id: int | None
    mark_xid: int | None
    marked_at: Ms | None


class ProjectionBatch(Struct, frozen=True):
    """What a project's next batch is about."""

    project_id: str
    # How many events and marks, up to the limit.
    events: int
    marks: int
    # Of the last event; where there were fewer than the limit, of the feed's head.
    position: int | None
    head: int
    customers: tuple[StoredCustomer, ...]
    # Keys of customers that were named and no longer exist.
    gone: tuple[int, ...]
    # The highest key of a customer that the transaction of the batch sees; 0 if there is none.
    newest: int
    # Its own transaction id: higher than that of every transaction that had changed anything before the batch began.
    xid: int
    # Every transaction before this one has ended.
    oldest_xid: int


# Of a project, or with None of all new ones.
start = executes(query("start_facets"))
_await = fetches_one(Roll, query("await_facets"))


async def hold(connection: Connection, project_id: str) -> Roll | None:
    """Locks the project's facets. None: there is no such project."""
    held = await _await(connection, project_id)
    if held is None:
        await start(connection, project_id)
        held = await _await(connection, project_id)
    return held


# Locks the progress of the next projects after one, up to a limit, that are behind; those that another transaction
# holds are skipped. With chores also projects with customers to count, by the time and the length of a moment.
take_behind = fetches_all(Roll, query("take_facets_behind"))


async def next_batches(connection: Connection, held: Sequence[Roll], limit: int) -> list[ProjectionBatch]:
    """For each up to `limit` events and as many marks, which are deleted."""
    rows = await connection.fetch(
        query("facets_batch"), [one.project_id for one in held], [one.position for one in held], limit
    )
    return [_batch(row) for row in rows]


def _batch(row: Record) -> ProjectionBatch:
    names = ("keys", "states", "last_seen", "countries")
    columns = zip(*(row[name] or () for name in names), strict=True)
    customers = {key: StoredCustomer(row["project_id"], key, *rest) for key, *rest in columns}
    marked = row["marked"] or ()
    named = dict.fromkeys((*(row["told"] or ()), *marked))
    return ProjectionBatch(
        **{name: row[name] for name in ("project_id", "events", "position", "head", "newest", "xid", "oldest_xid")},
        marks=len(marked),
        customers=tuple(customers[key] for key in named if key in customers),
        gone=tuple(key for key in named if key not in customers),
    )


async def stretch(connection: Connection, stretches: Sequence[Roll], limit: int) -> list[StoredCustomer]:
    """Up to `limit` customers of each of these projects, by key: from the counted ones up to the mark."""
    names = ("project_id", "counted", "mark_id")
    columns = [[getattr(roll, name) for roll in stretches] for name in names]
    return [StoredCustomer(*row) for row in await connection.fetch(query("facets_stretch"), *columns, limit)]


# Deletes a project's facets; the roller makes them anew.
forget = executes(query("forget_facets"))


async def write_facets(connection: Connection, gone: Sequence[int], kept: Mapping[int, Facets], roll: Roll) -> None:
    """By the keys of customers. The caller has locked the project's row of `facet_rolls`."""
    project_id, *progress = astuple(roll)
    facets = [to_builtins(kept[key]) | {"project_id": project_id, "customer_id": key} for key in sorted(kept)]
    without = [key for key in gone if key not in kept]
    await connection.execute(query("write_facets"), project_id, without, json.encode(facets), *progress)
