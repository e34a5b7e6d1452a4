"""Imports: how far each is, the rows that wait to be applied, and those that were left out."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Literal, NamedTuple

from msgspec import Struct, json

from latchkey.database.pool import Connection, Executor
from latchkey.database.rows import executes, fetches_column, fetches_value, item_of
from latchkey.database.sql import query
from latchkey.domain.instants import Ms
from latchkey.subjects.imports.rules.row import Skip

Status = Literal["staging", "applying", "done"]
_SKIPS_AT_ONCE = 5_000
_SET_STATUS = query("set_import_status")


class ImportRun(Struct, frozen=True):
    id: str
    status: Status
    staged: int
    cursor: str
    counts: dict[str, int]
    started_at: Ms
    finished_at: Ms | None


@asynccontextmanager
async def undone(connection: Connection) -> AsyncIterator[None]:
    """Whatever is done within is rolled back, and its locks are let go. Inside a transaction."""
    nested = connection.transaction()
    await nested.start()
    try:
        yield
    finally:
        await nested.rollback()


# Until the connection ends, no other process imports into this project. False: one does already.
take_turn = fetches_value(bool, query("lock_import"))


async def find(connection: Executor, project_id: str, fingerprint: str) -> ImportRun | None:
    row = await connection.fetchrow(query("find_import"), project_id, fingerprint)
    return None if row is None else item_of(ImportRun, row, counts=json.decode(row["counts"]))


# With its fingerprint and the time.
begin = executes(query("begin_import"))
# With whether its skips are forgotten.
restart = executes(query("restart_import"))


async def advance(
    connection: Connection, project_id: str, run: ImportRun, cursor: str, counts: Mapping[str, int]
) -> bool:
    """With the batch that it tells of. False: another process has written this batch."""
    found = await connection.fetchval(
        query("advance_import"), project_id, run.id, run.cursor, cursor, json.encode(counts)
    )
    return found is not None


async def finish(connection: Connection, project_id: str, run_id: str, counts: Mapping[str, int], now: Ms) -> None:
    await connection.execute(_SET_STATUS, project_id, run_id, "done", json.encode(counts), None, now)


async def add_skips(connection: Connection, project_id: str, run_id: str, skips: Sequence[Skip]) -> None:
    if skips:
        columns = [[getattr(skip, name) for skip in skips] for name in ("file", "line", "reason")]
        await connection.execute(query("add_import_skips"), project_id, run_id, *columns)


async def reasons(connection: Connection, project_id: str, run_id: str) -> dict[str, int]:
    """How many rows were skipped for each reason, the most frequent first."""
    rows = await connection.fetch(query("reasons_of_skips"), project_id, run_id)
    return {row["reason"]: row["rows"] for row in rows}


async def skips(connection: Connection, project_id: str, run_id: str) -> AsyncIterator[Skip]:
    last = 0
    while rows := await connection.fetch(query("list_import_skips"), project_id, run_id, last, _SKIPS_AT_ONCE):
        for row in rows:
            yield Skip(row["file"], row["line"], row["reason"])
        last = rows[-1]["n"]


# Both tables were filled a moment ago. A nested loop over a table that was never analysed takes minutes for ten
# thousand rows.
_ANALYZE = "analyze import_rows, import_ids; set local work_mem = '64MB'"


class StagedRow(NamedTuple):
    customer: str
    n: int
    # The purchase that it belongs to; None for what is about the customer.
    store: str | None
    chain: str | None
    updated_at: Ms
    body: bytes


class StagedId(NamedTuple):
    app_user_id: str
    customer: str
    as_of: Ms


clear = executes(query("clear_staging"))
clear_stopped = executes(query("clear_stopped"))
count = fetches_value(int, query("count_staged"))


async def add(
    connection: Connection, project_id: str, run_id: str, rows: Sequence[StagedRow], ids: Sequence[StagedId]
) -> None:
    for table, fields, records in (("import_rows", StagedRow._fields, rows), ("import_ids", StagedId._fields, ids)):
        if records:
            await connection.copy_records_to_table(
                table,
                columns=("project_id", "import_id", *fields),
                records=[(project_id, run_id, *record) for record in records],
            )


async def complete(connection: Connection, project_id: str, run_id: str, counts: Mapping[str, int]) -> int:
    """All rows are there: put them together by customer. Returns how many there are. In a transaction."""
    await connection.execute(_ANALYZE)
    await connection.execute(query("group_staged_by_alias"), project_id, run_id)
    await connection.execute(query("group_staged_by_chain"), project_id, run_id)
    staged = await count(connection, project_id, run_id)
    await connection.execute(_SET_STATUS, project_id, run_id, "applying", json.encode(counts), staged, None)
    return staged


_bodies = fetches_column(bytes, query("staged_of_customer"))


async def next_customers(
    connection: Connection, project_id: str, run_id: str, after: str, limit: int
) -> dict[str, list[bytes]]:
    """The rows of the next customers, about `limit` of them, and always whole customers. Empty at the end."""
    rows = await connection.fetch(query("next_staged"), project_id, run_id, after, limit)
    found: dict[str, list[bytes]] = {}
    for row in rows:
        found.setdefault(row["customer"], []).append(row["body"])
    if len(rows) == limit:
        # The last one may have more rows than were read.
        last = rows[-1]["customer"]
        del found[last]
        if not found:
            found[last] = await _bodies(connection, project_id, run_id, last)
    return found
