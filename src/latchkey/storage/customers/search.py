"""Finding customers with an index: by id, e-mail address, purchase, or a prefix of an id or address."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from latchkey.domain.customers.customer import Customer
from latchkey.domain.instants import Ms
from latchkey.domain.stores.store import STORES
from latchkey.storage.customers.records import LastSeen, folded
from latchkey.storage.customers.state_format import decode
from latchkey.storage.database import Connection, Record
from latchkey.storage.sql import query

_NEWEST = query("newest_customers")
_BY_KEY = query("customers_by_key")
_BY_ID = query("customers_by_whole_id")
_BY_EMAIL = query("customers_by_email")
_BY_PURCHASE = query("customers_by_transaction")
_BY_START_OF_ID = query("customers_by_start_of_id")

# Separates project and id in the index of ids. Text that contains it cannot be found.
SEPARATOR = "\x1f"
# Sorts after every text that begins with what precedes it.
_LAST = "\U0010ffff"
_END = 2**63 - 1


@dataclass(frozen=True, slots=True)
class FoundCustomer:
    key: int
    customer: Customer
    # The time of the customer's test clock, if it is on one.
    clock_now: Ms | None
    last_seen: LastSeen


@dataclass(frozen=True, slots=True)
class Hit:
    customer_key: int
    # The id or e-mail address that was found.
    matched: str


@dataclass(frozen=True, slots=True)
class PurchaseHit:
    # None: the owner was erased.
    customer_key: int | None


async def newest(connection: Connection, project_id: str, before: int | None, limit: int) -> list[FoundCustomer]:
    """Newest first; `before` is the key of the last customer seen."""
    return [_found(row) for row in await connection.fetch(_NEWEST, project_id, before or _END, limit)]


async def by_keys(connection: Connection, project_id: str, keys: Iterable[int]) -> list[FoundCustomer]:
    return [_found(row) for row in await connection.fetch(_BY_KEY, project_id, list(keys))]


async def by_ids(connection: Connection, project_id: str, ids: Iterable[str]) -> list[Hit]:
    return [_hit(row) for row in await connection.fetch(_BY_ID, project_id, list(ids))]


async def by_email(connection: Connection, project_id: str, address: str, limit: int) -> list[Hit]:
    whole = folded(address)
    return [_hit(row) for row in await connection.fetch(_BY_EMAIL, project_id, whole, whole, limit)]


async def by_purchases(connection: Connection, project_id: str, store_ids: Sequence[str]) -> list[PurchaseHit]:
    """Owners of the purchases with one of these ids, in any store."""
    rows = await connection.fetch(_BY_PURCHASE, project_id, store_ids, list(STORES))
    return [PurchaseHit(row["customer_id"]) for row in rows]


async def by_start_of_id(connection: Connection, project_id: str, start: str, limit: int) -> list[Hit]:
    first = f"{project_id}{SEPARATOR}{folded(start)}"
    return [_hit(row) for row in await connection.fetch(_BY_START_OF_ID, project_id, first, first + _LAST, limit)]


async def by_start_of_email(connection: Connection, project_id: str, start: str, limit: int) -> list[Hit]:
    first = folded(start)
    return [_hit(row) for row in await connection.fetch(_BY_EMAIL, project_id, first, first + _LAST, limit)]


def _hit(row: Record) -> Hit:
    return Hit(row["customer_id"], row["matched"])


def _found(row: Record) -> FoundCustomer:
    return FoundCustomer(
        key=row["id"],
        customer=decode(row["state"]),
        clock_now=row["now_ms"],
        last_seen=LastSeen(
            at=row["last_seen_at"],
            platform=row["last_seen_platform"],
            platform_version=row["last_seen_platform_version"],
            app_version=row["last_seen_app_version"],
            country=row["last_seen_country"],
        ),
    )
