"""The rows of a running import: written with COPY as they are read, put together by customer, read in that order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from msgspec import json

from latchkey.domain.instants import Ms
from latchkey.storage.database import Connection
from latchkey.storage.sql import query

_CLEAR = query("clear_staging")
_COUNT = query("count_staged")
_STAGED = query("staged_import")
_BY_ALIAS = query("group_staged_by_alias")
_BY_CHAIN = query("group_staged_by_chain")
_NEXT = query("next_staged")
_OF_CUSTOMER = query("staged_of_customer")

_ROW_COLUMNS = ("project_id", "import_id", "customer", "n", "store", "chain", "updated_at", "body")
_ID_COLUMNS = ("import_id", "project_id", "app_user_id", "customer", "as_of")
# Both tables were filled a moment ago. A nested loop over a table that was never analysed takes minutes for ten
# thousand rows.
_ANALYZE = "analyze import_rows, import_ids; set local work_mem = '64MB'"


@dataclass(frozen=True, slots=True)
class StagedRow:
    customer: str
    n: int
    # None for what is about the customer.
    purchase: tuple[str, str] | None
    updated_at: Ms
    body: bytes


@dataclass(frozen=True, slots=True)
class StagedId:
    """Another id of a customer."""

    app_user_id: str
    customer: str
    as_of: Ms


async def clear(connection: Connection, project_id: str) -> None:
    await connection.execute(_CLEAR, project_id)


async def add(
    connection: Connection, project_id: str, run_id: str, rows: Sequence[StagedRow], ids: Sequence[StagedId]
) -> None:
    if rows:
        await connection.copy_records_to_table(
            "import_rows",
            columns=_ROW_COLUMNS,
            records=[
                (project_id, run_id, one.customer, one.n, *(one.purchase or (None, None)), one.updated_at, one.body)
                for one in rows
            ],
        )
    if ids:
        await connection.copy_records_to_table(
            "import_ids",
            columns=_ID_COLUMNS,
            records=[(run_id, project_id, one.app_user_id, one.customer, one.as_of) for one in ids],
        )


async def complete(connection: Connection, project_id: str, run_id: str, counts: Mapping[str, int], now: Ms) -> int:
    """All rows are there: put them together by customer. Returns how many there are. In a transaction."""
    await group(connection, project_id, run_id)
    staged = await count(connection, project_id, run_id)
    await connection.execute(_STAGED, project_id, run_id, staged, json.encode(counts), now)
    return staged


async def group(connection: Connection, project_id: str, run_id: str) -> None:
    await connection.execute(_ANALYZE)
    await connection.execute(_BY_ALIAS, project_id, run_id)
    await connection.execute(_BY_CHAIN, project_id, run_id)


async def count(connection: Connection, project_id: str, run_id: str) -> int:
    rows: int = await connection.fetchval(_COUNT, project_id, run_id)
    return rows


async def next_customers(
    connection: Connection, project_id: str, run_id: str, after: str, limit: int
) -> dict[str, list[bytes]]:
    """The rows of the next customers, about `limit` of them, and always whole customers. Empty at the end."""
    rows = await connection.fetch(_NEXT, project_id, run_id, after, limit)
    found: dict[str, list[bytes]] = {}
    for row in rows:
        found.setdefault(row["customer"], []).append(row["body"])
    if len(rows) == limit:
        last = rows[-1]["customer"]
        # It may have more rows than were read.
        rest = found.pop(last)
        if not found:
            whole = await connection.fetch(_OF_CUSTOMER, project_id, run_id, last)
            rest = [row["body"] for row in whole]
            found[last] = rest
    return found
