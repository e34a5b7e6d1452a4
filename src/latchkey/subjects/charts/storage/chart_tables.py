"""What PostgreSQL keeps for the charts: periods and customers, and who has changed since when.

Both are read as CSV by COPY into a file, which DuckDB reads. The SQL in `facts/` makes the facts of them.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from latchkey.database.pool import Connection
from latchkey.database.rows import executes, fetch_one, finds_value
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


class Snapshot(Struct, frozen=True):
    """What a transaction sees. Whoever reads the rows in it, or later, knows everything before `oldest_xid`."""

    # The server and its timeline. Transaction ids of another one mean nothing.
    epoch: str
    # Every transaction before this one has ended.
    oldest_xid: int
    next_xid: int


async def snapshot(connection: Connection, project_id: str) -> Snapshot:
    found = await fetch_one(connection, Snapshot, query("chart_mark"), project_id)
    assert found is not None, "the query always has a row"
    return found


async def changed_since(connection: Connection, project_id: str, known_xid: int, now: Snapshot) -> list[int]:
    """The keys of customers whose rows may differ from what was read when `known_xid` was the oldest transaction; some
    of them are gone."""
    # Ids of transactions that are yet to come are from another server, before a restore: only whoever knows nothing
    # asks for them.
    until = now.next_xid if known_xid else 2**63 - 1
    return [row["id"] for row in await connection.fetch(query("chart_changes"), project_id, known_xid, until)]


async def copy_rows(
    connection: Connection, project_id: str, periods: Path, people: Path, keys: Sequence[int] | None = None
) -> None:
    """Of these customers, or of all. CSV without a header, in the order of PERIODS and CUSTOMERS."""
    for sql, output in ((query("chart_periods_of"), periods), (query("chart_customers_of"), people)):
        await connection.copy_from_query(sql, project_id, keys, output=output, format="csv")


# The customer attributes that charts can be broken down by. None: there is no such project.
chosen_attributes = finds_value(list[str], query("chart_attributes_of"))
choose_attributes = executes(query("choose_chart_attributes"))
# The project, the customer's key, the enrollments and the attributes.
keep_erased = executes(query("keep_erased_chart_customer"))
