"""What a store can be asked about: one row for each purchase token or original transaction that it told of."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Literal

from msgspec import Struct

from latchkey.database.pool import Connection, Executor
from latchkey.database.rows import fetch_all, fetches_all, fetches_one
from latchkey.database.sql import query
from latchkey.domain.instants import DAY, Ms
from latchkey.domain.purchases.purchase import Environment

Kind = Literal["subscription", "one_time"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Handle:
    project_id: str
    app_id: str
    store: str
    handle: str = field(repr=False)
    environment: Environment
    # The id of its purchase in the store.
    store_id: str
    kind: Kind
    product_id: str
    check_at: Ms | None = None
    checks: int = 0
    acknowledge_at: Ms | None = None
    acknowledge_attempts: int = 0


class Healings(Struct, frozen=True):
    checks: int
    healed: int


async def load(connection: Executor, project_id: str, store: str, handles: Iterable[str]) -> dict[str, Handle]:
    hashes = [_hash(handle) for handle in handles]
    found = await fetch_all(connection, Handle, query("load_handles"), project_id, store, hashes)
    return {handle.handle: handle for handle in found}


# The latest handle of a purchase, by project, store and the purchase's id there. None: the store has never told of it.
of_purchase = fetches_one(Handle, query("handles_of_purchase"))
# Those that are due now: until when they are leased, and how many at most.
claim_checks = fetches_all(Handle, query("claim_checks"))
claim_acknowledgements = fetches_all(Handle, query("claim_acknowledgements"))


async def add(connection: Connection, told: Sequence[tuple[Handle, Ms]], first_seen_at: Ms) -> None:
    """The stores told of these at that moment. Of several reports about one handle the last counts. What is known of a
    handle already stays as it is."""
    if not told:
        return
    rows = {}
    for one, at in told:
        times = first_seen_at, at, one.check_at, one.acknowledge_at
        key = one.project_id, one.store, _hash(one.handle)
        rows[key] = (*key, one.handle, one.app_id, one.environment, one.store_id, one.kind, one.product_id, *times)
    # Always in this order: two transactions that write in different orders could wait for each other.
    ordered = [rows[key] for key in sorted(rows)]
    await connection.execute(query("add_handles"), *map(list, zip(*ordered, strict=True)))


async def set_check(connection: Executor, handle: Handle, at: Ms | None) -> None:
    await connection.execute(query("set_check_at"), handle.project_id, handle.store, _hash(handle.handle), at)


async def set_acknowledge(connection: Executor, handle: Handle, at: Ms | None) -> None:
    await connection.execute(query("set_acknowledge_at"), handle.project_id, handle.store, _hash(handle.handle), at)


async def forget(connection: Connection, project_id: str, customer_key: int, app_user_ids: Iterable[str]) -> None:
    """Remove what the stores told of a customer who is erased, while it still owns its purchases."""
    await connection.execute(query("forget_notifications"), project_id, list(app_user_ids))
    await connection.execute(query("forget_handles"), project_id, customer_key)


async def note_healing(connection: Executor, project_id: str, app_id: str, now: Ms, *, healed: bool) -> None:
    """The safety net looked once more, and found something or not."""
    await connection.execute(query("note_healing"), project_id, app_id, now // DAY, 1, int(healed))


async def healings(connection: Executor, project_id: str, since: Ms) -> dict[str, Healings]:
    """By app."""
    rows = await connection.fetch(query("list_healings"), project_id, since // DAY)
    return {row["app_id"]: Healings(row["checks"], row["healed"]) for row in rows}


async def prune_healings(connection: Executor, before: Ms) -> None:
    await connection.execute(query("prune_healings"), before // DAY)


def _hash(handle: str) -> bytes:
    return sha256(handle.encode()).digest()
