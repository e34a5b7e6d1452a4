"""What an export reads: customers by key, events by position, and what changed since an earlier export.
Exports that run by themselves: their settings, the lease of the process that runs one, and their runs."""

from collections.abc import Iterable, Sequence
from dataclasses import astuple
from functools import partial

from msgspec import Struct

from latchkey.database.pool import Connection, Executor
from latchkey.database.rows import Listing, fetch_all, fetch_one, item_of
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
    [snapshot] = await fetch_all(connection, ExportSnapshot, query("export_snapshot"), project_id)
    return snapshot


async def allow_time(connection: Connection, seconds: int) -> None:
    """This transaction may wait this long for its client: a bucket may be slow."""
    await connection.execute(f"set local idle_in_transaction_session_timeout = {int(seconds) * 1000}")


async def customers(
    connection: Connection,
    project_id: str,
    after: int,
    limit: int,
    *,
    until: int = 2**63 - 1,
    since_xid: int | None = None,
) -> list[ExportedCustomer]:
    """Those after one key, up to another; with `since_xid`, those that a transaction since has written. Rows that
    nobody touched for two billion transactions may be among them, too."""
    rows = await connection.fetch(query("export_customers"), project_id, after, until, since_xid, limit)
    return [ExportedCustomer(id, state, LastSeen(*seen)) for id, state, *seen in rows]


async def end_of_stretch(connection: Connection, project_id: str, after: int, limit: int) -> int | None:
    """The key of the last of the next customers; None at the end."""
    end: int | None = await connection.fetchval(query("next_stretch_of_customers"), project_id, after, limit)
    return end


async def gone_customers(connection: Connection, project_id: str, since_xid: int, after: int, limit: int) -> list[int]:
    """The keys of customers that were erased or merged since."""
    rows = await connection.fetch(query("export_gone_customers"), project_id, since_xid, after, limit)
    return [row["customer_id"] for row in rows]


async def events(connection: Connection, project_id: str, after: int, until: int, limit: int) -> list[ExportedEvent]:
    return [
        ExportedEvent(*row)
        for row in await connection.fetch(query("events_of_project"), project_id, after, until, limit)
    ]


async def rewritten_events(
    connection: Connection, project_id: str, since_xid: int, after: int, until: int, limit: int
) -> list[ExportedEvent]:
    rows = await connection.fetch(query("export_rewritten_events"), project_id, since_xid, after, until, limit)
    return [ExportedEvent(*row) for row in rows]


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


EXPORTS = Listing("export", query("list_exports"), partial(item_of, Export), by_age=True)
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
    [saved] = await fetch_all(connection, Export, query("save_export"), project_id, id, *values)
    return saved


async def delete(connection: Connection, project_id: str, id: str) -> None:
    await connection.execute(query("delete_export"), project_id, id)


async def run_now(connection: Executor, project_id: str, id: str, now: Ms, *, whole: bool) -> Export | None:
    return await fetch_one(connection, Export, query("run_export_now"), project_id, id, now, whole)


async def claim(connection: Connection, now: Ms, lease_until: Ms) -> Export | None:
    return await fetch_one(connection, Export, query("claim_export"), now, lease_until)


async def renew(connection: Executor, export: Export, lease_until: Ms) -> bool:
    """False: another process has it now."""
    found = await connection.fetchval(query("renew_export"), export.project_id, export.id, export.token, lease_until)
    return found is not None


async def finish(
    connection: Connection, export: Export, *, next_at: Ms | None, failures: int, cursor: str | None
) -> bool:
    """False: another process has it now, and nothing was recorded."""
    found = await connection.fetchval(
        query("finish_export"), export.project_id, export.id, export.token, next_at, failures, cursor
    )
    return found is not None


async def begin_run(connection: Connection, export: Export, now: Ms) -> ExportRun:
    id = await connection.fetchval(
        query("begin_export_run"), export.project_id, export.id, now, INTERRUPTED, RUNS_KEPT - 1
    )
    return ExportRun(project_id=export.project_id, export_id=export.id, id=id, started_at=now)


async def finish_run(connection: Connection, run: ExportRun) -> None:
    await connection.execute(query("finish_export_run"), *astuple(run)[:-1])


async def runs(connection: Connection, project_id: str, id: str, before: int | None, limit: int) -> list[ExportRun]:
    """Newest first."""
    return await fetch_all(connection, ExportRun, _RUNS, project_id, id, before, limit)


async def last_runs(connection: Executor, project_id: str) -> dict[str, ExportRun]:
    """The newest run of each export that has run."""
    return {row["export_id"]: ExportRun(**row) for row in await connection.fetch(_RUNS, project_id, None, None, 1)}
