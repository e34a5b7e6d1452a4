"""What PostgreSQL keeps for the charts: periods and customers, and who has changed since when.

Both are read as CSV by COPY into a file, which DuckDB reads. The SQL in `facts/` makes the facts of them.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from latchkey.database.pool import Connection, Executor
from latchkey.database.sql import query


def _columns(definition: str) -> Mapping[str, str]:
    return dict(column.split() for column in definition.split(","))


# The columns of the two tables in DuckDB, in the order of the queries.
PERIODS: Final = _columns(
    """customer BIGINT, purchase UUID, place INTEGER, type VARCHAR, cause VARCHAR, sandbox BOOLEAN, store VARCHAR,
    product VARCHAR, duration VARCHAR, country VARCHAR, offering VARCHAR, purchased_at BIGINT, starts_at BIGINT,
    ends_at BIGINT, access_ends_at BIGINT, refunded_at BIGINT, currency VARCHAR, micros BIGINT, usd BIGINT,
    monthly_micros BIGINT, monthly_usd BIGINT, tax DOUBLE, commission DOUBLE, back VARCHAR, standing INTEGER,
    told_at BIGINT, failed_at BIGINT, grace_ends_at BIGINT, platform VARCHAR, app_version VARCHAR,
    seen_country VARCHAR, side TINYINT"""
)
CUSTOMERS: Final = _columns(
    """customer BIGINT, first_seen_at BIGINT, clock VARCHAR, platform VARCHAR, app_version VARCHAR, country VARCHAR,
    enrollments VARCHAR, attributes VARCHAR"""
)


class Mark(Struct, frozen=True):
    """Everything that was committed before is known."""

    # The server and its timeline. Transaction ids of another one mean nothing.
    epoch: str
    # Every transaction before this one has ended.
    oldest_xid: int


async def mark(connection: Connection, project_id: str) -> Mark:
    """To be taken before the rows are read, or in the same snapshot."""
    found, _ = await _snapshot(connection, project_id)
    return found


async def _snapshot(connection: Connection, project_id: str) -> tuple[Mark, int]:
    """And the next transaction's id."""
    found = await connection.fetchrow(query("chart_mark"), project_id)
    assert found is not None, "the query always has a row"
    return Mark(found["epoch"], found["oldest_xid"]), found["next_xid"]


async def changed_since(connection: Connection, project_id: str, known: Mark) -> tuple[Mark, list[int] | None]:
    """The keys of customers whose rows may differ from what was read at `known`; some of them are gone. None: the
    server is another one, and everything has to be read again. In a transaction with one snapshot."""
    now, next_xid = await _snapshot(connection, project_id)
    if now.epoch != known.epoch:
        return now, None
    # Ids of transactions that are yet to come are from another server, before a restore: only whoever knows nothing
    # asks for them.
    until = next_xid if known.oldest_xid else 2**63 - 1
    rows = await connection.fetch(query("chart_changes"), project_id, known.oldest_xid, until)
    return now, [row["id"] for row in rows]


async def copy_rows(
    connection: Connection, project_id: str, periods: Path, people: Path, keys: Sequence[int] | None = None
) -> None:
    """Of these customers, or of all. CSV without a header, in the order of PERIODS and CUSTOMERS."""
    for sql, output in ((query("chart_periods_of"), periods), (query("chart_customers_of"), people)):
        await connection.copy_from_query(sql, project_id, keys, output=output, format="csv")


async def chosen_attributes(connection: Executor, project_id: str) -> list[str] | None:
    """The customer attributes that charts can be broken down by. None: there is no such project."""
    found: list[str] | None = await connection.fetchval(query("chart_attributes_of"), project_id)
    return found


async def choose_attributes(connection: Connection, project_id: str, names: Sequence[str]) -> None:
    await connection.execute(query("choose_chart_attributes"), project_id, names)


async def keep_erased(
    connection: Connection, project_id: str, key: int, enrollments: str | None, attributes: str | None
) -> None:
    await connection.execute(query("keep_erased_chart_customer"), project_id, key, enrollments, attributes)
