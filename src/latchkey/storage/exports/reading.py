"""What an export reads: customers by key, events by position, and what changed since an earlier export."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from latchkey.domain.customers.customer import Customer
from latchkey.domain.instants import Ms
from latchkey.storage.customers.records import LastSeen
from latchkey.storage.customers.state_format import decode
from latchkey.storage.database import Connection, Record
from latchkey.storage.sql import query

_SNAPSHOT = query("export_snapshot")
_CUSTOMERS = query("export_customers")
_STRETCH = query("next_stretch_of_customers")
_GONE = query("export_gone_customers")
_EVENTS = query("events_of_project")
_REWRITTEN = query("export_rewritten_events")
_TOKENS = query("export_tokens")
_SIZE = query("export_size")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The moment that an export is about."""

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


@dataclass(frozen=True, slots=True)
class ExportedCustomer:
    key: int
    # Decoded one by one: see `decoded`.
    state: bytes
    last_seen: LastSeen

    def decoded(self) -> Customer:
        return decode(self.state)


@dataclass(frozen=True, slots=True)
class ExportedEvent:
    position: int
    customer_key: int
    committed_at: Ms
    body: bytes


async def take_snapshot(connection: Connection, project_id: str) -> Snapshot:
    row = await connection.fetchrow(_SNAPSHOT, project_id)
    assert row is not None, "a query without a table always has a row"
    return Snapshot(
        oldest_xid=row["oldest_xid"],
        next_xid=row["next_xid"],
        epoch=row["epoch"],
        position=row["position"],
        last_customer=row["last_customer"],
        catalog_version=row["catalog_version"],
    )


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
    rows = await connection.fetch(_CUSTOMERS, project_id, after, until, since_xid, limit)
    return [_customer(row) for row in rows]


async def end_of_stretch(connection: Connection, project_id: str, after: int, limit: int) -> int | None:
    """The key of the last of the next customers; None at the end."""
    end: int | None = await connection.fetchval(_STRETCH, project_id, after, limit)
    return end


async def gone_customers(connection: Connection, project_id: str, since_xid: int, after: int, limit: int) -> list[int]:
    """The keys of customers that were erased or merged since."""
    rows = await connection.fetch(_GONE, project_id, since_xid, after, limit)
    return [row["customer_id"] for row in rows]


async def events(connection: Connection, project_id: str, after: int, until: int, limit: int) -> list[ExportedEvent]:
    return [_event(row) for row in await connection.fetch(_EVENTS, project_id, after, until, limit)]


async def rewritten_events(
    connection: Connection, project_id: str, since_xid: int, after: int, until: int, limit: int
) -> list[ExportedEvent]:
    rows = await connection.fetch(_REWRITTEN, project_id, since_xid, after, until, limit)
    return [_event(row) for row in rows]


async def tokens(
    connection: Connection, project_id: str, purchases: Iterable[tuple[str, str]]
) -> dict[tuple[str, str], str]:
    """By (store, the store's id): what the store can be asked about."""
    wanted: Sequence[str] = sorted({id for _, id in purchases})
    found: dict[tuple[str, str], str] = {}
    if wanted:
        for row in await connection.fetch(_TOKENS, project_id, wanted):
            found.setdefault((row["store"], row["store_id"]), row["handle"])
    return found


async def size(connection: Connection, project_id: str, most: int) -> tuple[int, int]:
    """How many customers (counted up to `most`) and events a project has."""
    row = await connection.fetchrow(_SIZE, project_id, most)
    assert row is not None, "a query without a table always has a row"
    return row["customers"], row["events"]


def _customer(row: Record) -> ExportedCustomer:
    seen = LastSeen(
        row["last_seen_at"],
        row["last_seen_platform"],
        row["last_seen_platform_version"],
        row["last_seen_app_version"],
        row["last_seen_country"],
    )
    return ExportedCustomer(row["id"], row["state"], seen)


def _event(row: Record) -> ExportedEvent:
    return ExportedEvent(row["position"], row["customer_id"], row["committed_at"], row["body"])
