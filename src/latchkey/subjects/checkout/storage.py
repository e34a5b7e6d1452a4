"""Checkouts of web pages. A row is found by the hash of the id that only the page knows."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Literal

from latchkey.database.pool import Connection, Executor, Record
from latchkey.database.rows import item_of
from latchkey.database.sql import affected, query
from latchkey.domain.instants import Ms
from latchkey.domain.money.amounts import Price

_PRUNED_AT_ONCE = 1000

Status = Literal["open", "succeeded", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkout:
    id_hash: bytes = field(repr=False)
    project_id: str
    app_id: str
    app_user_id: str
    product_id: str
    # What the page shows.
    price: Price
    trial_days: int | None
    # The lookup key of the offering that the page showed.
    offering: str | None = None
    # What the provider knows the payment by; None until there is something to pay.
    handle: str | None = field(default=None, repr=False)
    status: Status = "open"
    # Of a checkout that succeeded.
    transaction_id: str | None = None
    purchased_at: Ms | None = None
    created_at: Ms
    expires_at: Ms


def hash_of(id: str) -> bytes:
    return sha256(id.encode()).digest()


async def save(connection: Connection, new: Checkout) -> None:
    who = new.id_hash, new.project_id, new.app_id, new.app_user_id
    what = new.product_id, new.price.micros, new.price.currency, new.trial_days
    times = new.created_at, new.expires_at
    await connection.execute(query("save_checkout"), *who, *what, new.handle, *times, new.offering)


async def load(connection: Executor, project_id: str, app_id: str, id: str) -> Checkout | None:
    """None: this app has no checkout with this id."""
    row = await connection.fetchrow(query("load_checkout"), hash_of(id), project_id, app_id)
    return None if row is None else _checkout(row)


async def claim(connection: Executor, now: Ms, lease_until: Ms, limit: int) -> list[Checkout]:
    return [_checkout(row) for row in await connection.fetch(query("claim_checkouts"), now, lease_until, limit)]


async def set_check(connection: Connection, id_hash: bytes, at: Ms | None) -> None:
    await connection.execute(query("set_checkout_check"), id_hash, at)


def _checkout(row: Record) -> Checkout:
    return item_of(Checkout, row, price=Price(row["price_micros"], row["currency"]))


async def set_handle(connection: Connection, id_hash: bytes, handle: str, check_at: Ms | None) -> str | None:
    """The handle that counts: the first one. None: the checkout is gone."""
    kept: str | None = await connection.fetchval(query("set_checkout_handle"), id_hash, handle, check_at)
    return kept


async def finish(
    connection: Connection,
    id_hash: bytes,
    status: Literal["succeeded", "failed"],
    transaction_id: str | None = None,
    purchased_at: Ms | None = None,
) -> None:
    await connection.execute(query("finish_checkout"), id_hash, status, transaction_id, purchased_at)


async def forget(connection: Connection, project_id: str, app_user_ids: Iterable[str]) -> None:
    await connection.execute(query("forget_checkouts"), project_id, list(app_user_ids))


async def prune(connection: Connection, before: Ms) -> bool:
    """Remove a batch of old checkouts. True: there may be more."""
    return affected(await connection.execute(query("prune_checkouts"), before, _PRUNED_AT_ONCE)) == _PRUNED_AT_ONCE
