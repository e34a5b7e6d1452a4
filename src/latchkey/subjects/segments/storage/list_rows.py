"""A page of a customer list, and how many customers it has."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import asyncpg
from msgspec import json

from latchkey.database.pool import Connection, Database, Record
from latchkey.database.sql import query
from latchkey.domain.instants import DAY, Ms
from latchkey.domain.purchases.purchase import Environment
from latchkey.engine.storage.state import decode
from latchkey.subjects.segments.rules.facets import Facets
from latchkey.subjects.segments.rules.filter import CustomerFilter, Sort
from latchkey.subjects.segments.rules.list_entry import ListCursor, ListEntry

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


def arguments(wanted: CustomerFilter, now: Ms) -> tuple[Any, ...]:
    """In the order of the queries: $4 to $17."""
    within = wanted.trial_ends_within
    return (
        sorted(wanted.status) or None,
        wanted.product_id,
        wanted.product_active,
        wanted.spent_from,
        wanted.spent_to,
        wanted.country,
        wanted.store,
        wanted.environment,
        wanted.last_seen_after.resolved(now) if wanted.last_seen_after else None,
        wanted.last_seen_before.resolved(now) if wanted.last_seen_before else None,
        wanted.first_seen_after.resolved(now) if wanted.first_seen_after else None,
        wanted.first_seen_before.resolved(now) if wanted.first_seen_before else None,
        within * DAY if within is not None else None,
        wanted.billing_issue,
    )


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
    return Facets(
        environment=Environment(row["environment"]),
        test_clock_id=row["test_clock_id"],
        first_seen_at=row["first_seen_at"],
        last_seen_at=row["last_seen_at"],
        country=row["country"],
        runs_until=row["runs_until"],
        renews_until=row["renews_until"],
        trial_until=row["trial_until"],
        grace_from=row["grace_from"],
        grace_until=row["grace_until"],
        billing_issue_until=row["billing_issue_until"],
        granted_until=row["granted_until"],
        bought=row["bought"],
        owns=row["owns"],
        spent_usd=row["spent_usd"],
        refunded_usd=row["refunded_usd"],
        products=tuple(row["products"]),
        product_untils=tuple(row["product_untils"]),
        stores=tuple(row["stores"]),
    )


# Saved filters of customer lists.


_LIST_SEGMENTS = query("list_segments")
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


async def page_segments(connection: Connection, project_id: str, after: str | None, limit: int) -> list[StoredSegment]:
    return [_segment(row) for row in await connection.fetch(_LIST_SEGMENTS, project_id, after, limit, None)]


async def load(connection: Connection, project_id: str, id: str) -> StoredSegment | None:
    row = await connection.fetchrow(_LIST_SEGMENTS, project_id, None, 1, id)
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
