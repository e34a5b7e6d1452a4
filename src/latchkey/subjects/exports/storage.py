"""What an export reads: customers by key, events by position, and what changed since an earlier export.
Exports that run by themselves: their settings, the lease of the process that runs one, and their runs."""

from collections.abc import Iterable, Sequence
from dataclasses import astuple
from typing import Any

from msgspec import Struct

from latchkey.database import rows as statements
from latchkey.database.pool import Connection, Executor
from latchkey.database.sql import query
from latchkey.domain.customers.customer import LastSeen
from latchkey.domain.instants import Ms
from latchkey.subjects.exports.rules import Export, ExportRun, ExportSettings


class ExportSnapshot(Struct, frozen=True):
    # Every transaction before this one has ended: its changes are visible here, or it was rolled back.
    oldest_xid: int
    # No transaction has this id yet.
    next_xid: int
    # The database and its history: transaction ids mean nothing in another one, or after it was set back.
    epoch: str
    # The newest event.
    position: int
    # The highest key of a customer.
    last_customer: int
    # None: there is no such project.
    catalog_version: int | None


class ExportedCustomer(Struct, frozen=True):
    key: int
    # Decoded one by one: one that cannot be read is left out.
    state: bytes
    last_seen: LastSeen


class ExportedEvent(Struct, frozen=True):
    position: int
    customer_key: int
    committed_at: Ms
    body: bytes


async def take_snapshot(connection: Connection, project_id: str) -> ExportSnapshot:
    [snapshot] = await statements.fetch_all(connection, ExportSnapshot, query("export_snapshot"), project_id)
    return snapshot


async def allow_time(connection: Connection, seconds: int) -> None:
    """This transaction may wait this long for its client: a bucket may be slow."""
    await connection.execute(f"set local idle_in_transaction_session_timeout = {int(seconds) * 1000}")


async def customers(
    connection: Connection, project_id: str, after: int, until: int, since_xid: int | None, limit: int
) -> list[ExportedCustomer]:
    """Those after one key, up to another; with `since_xid`, those that a transaction since has written. Rows that
    nobody touched for two billion transactions may be among them, too."""
    rows = await connection.fetch(query("export_customers"), project_id, after, until, since_xid, limit)
    return [ExportedCustomer(id, state, LastSeen(*seen)) for id, state, *seen in rows]


# The key of the last of the next customers after one, up to a limit; None at the end.
end_of_stretch = statements.finds_value(int, query("next_stretch_of_customers"))
# The keys of customers that were erased or merged since a transaction: after one key, up to a limit.
gone_customers = statements.fetches_column(int, query("export_gone_customers"))


def _fetches_events(statement: str) -> statements.Statement[list[ExportedEvent]]:
    async def fetch(connection: Executor, *arguments: Any) -> list[ExportedEvent]:
        return [ExportedEvent(*row) for row in await connection.fetch(statement, *arguments)]

    return fetch


# After one position, up to another and up to a limit; of the second only those that a transaction since has written.
events = _fetches_events(query("events_of_project"))
rewritten_events = _fetches_events(query("export_rewritten_events"))


async def tokens(
    connection: Connection, project_id: str, purchases: Iterable[tuple[str, str]]
) -> dict[tuple[str, str], str]:
    """By (store, the store's id): what the store can be asked about."""
    wanted: Sequence[str] = sorted({id for _, id in purchases})
    found: dict[tuple[str, str], str] = {}
    if wanted:
        for row in await connection.fetch(query("export_tokens"), project_id, wanted):
            found.setdefault((row["store"], row["store_id"]), row["handle"])
    return found


async def size(connection: Executor, project_id: str, most: int) -> tuple[int, int]:
    """How many customers (counted up to `most`) and events a project has."""
    [row] = await connection.fetch(query("export_size"), project_id, most)
    return row["customers"], row["events"]


EXPORTS = statements.Listing("export", query("list_exports"), Export, by_age=True)
_RUNS = query("list_export_runs")

# Runs that are kept of each export.
RUNS_KEPT = 100
INTERRUPTED = "It was interrupted: the process that ran it ended, or the export was changed meanwhile."


async def save(
    connection: Connection,
    project_id: str,
    id: str,
    settings: ExportSettings,
    now: Ms,
    next_at: Ms | None,
    cursor: str | None = None,
) -> Export:
    values = *astuple(settings), now, next_at, cursor
    [saved] = await statements.fetch_all(connection, Export, query("save_export"), project_id, id, *values)
    return saved


# False: there was none.
delete = statements.returns_row(query("delete_export"))
# With a time, and whether it exports everything. None: there is none.
run_now = statements.fetches_one(Export, query("run_export_now"))
# The one that has waited longest, until the lease runs out.
claim = statements.fetches_one(Export, query("claim_export"))
# With the export's token. False: another process has it now, and nothing was recorded.
renew = statements.returns_row(query("renew_export"))
finish = statements.returns_row(query("finish_export"))


async def begin_run(connection: Connection, export: Export, now: Ms) -> ExportRun:
    id = await connection.fetchval(
        query("begin_export_run"), export.project_id, export.id, now, INTERRUPTED, RUNS_KEPT - 1
    )
    return ExportRun(project_id=export.project_id, export_id=export.id, id=id, started_at=now)


async def finish_run(connection: Connection, run: ExportRun) -> None:
    await connection.execute(query("finish_export_run"), *astuple(run)[:-1])


# Of an export, newest first: before an id, up to a limit.
runs = statements.fetches_all(ExportRun, _RUNS)


async def last_runs(connection: Executor, project_id: str) -> dict[str, ExportRun]:
    """The newest run of each export that has run."""
    return {row["export_id"]: ExportRun(**row) for row in await connection.fetch(_RUNS, project_id, None, None, 1)}
