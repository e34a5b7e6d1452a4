"""Checkouts of web pages. A row is found by the hash of the id that only the page knows."""

from dataclasses import dataclass, field
from hashlib import sha256
from typing import Literal

from latchkey.database import rows
from latchkey.database.pool import Connection, Executor, Record
from latchkey.database.sql import affected, query
from latchkey.domain.instants import DAY, Ms
from latchkey.domain.money.amounts import Price

_PRUNED_AT_ONCE = 1000
# How much longer a checkout is kept whose payment is on its way: a debit or a voucher takes weeks.
_ASKED_FOR: Ms = 90 * DAY

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
    # Sold by a link without a known user: whoever shows the link of the mail takes the purchase over.
    redeemable: bool = False
    # Of a redeemable purchase that was paid.
    email: str | None = field(default=None, repr=False)
    purchase_id: str | None = None
    redeemed_by: str | None = None


def hash_of(id: str) -> bytes:
    return sha256(id.encode()).digest()


# With the moment to ask about it.
save = rows.saves(
    query("save_checkout"),
    *("id_hash", "app_id", "app_user_id", "product_id", "price.micros", "price.currency", "trial_days", "handle"),
    *("created_at", "expires_at", "offering", "redeemable"),
)


async def load(connection: Executor, project_id: str, app_id: str, id: str) -> Checkout | None:
    """None: this app has no checkout with this id."""
    row = await connection.fetchrow(query("load_checkout"), hash_of(id), project_id, app_id)
    return None if row is None else _checkout(row)


async def load_paid(connection: Executor, id_hash: bytes) -> Checkout | None:
    row = await connection.fetchrow(query("load_paid_checkout"), id_hash)
    return None if row is None else _checkout(row)


async def claim(connection: Executor, now: Ms, lease_until: Ms, limit: int) -> list[Checkout]:
    return [_checkout(row) for row in await connection.fetch(query("claim_checkouts"), now, lease_until, limit)]


def _checkout(row: Record) -> Checkout:
    return rows.item_of(Checkout, row, price=Price(row["price_micros"], row["currency"]))


set_check = rows.executes(query("set_checkout_check"))
# The handle that counts: the first one. None: the checkout is gone.
set_handle = rows.finds_value(str, query("set_checkout_handle"))
# With the status and, if it succeeded, the transaction, when it was bought, the purchase and the buyer's address.
# False: it was finished already.
finish = rows.changes_rows(query("finish_checkout"))
# The user who counts: the first one. None: there is nothing to redeem.
redeem = rows.finds_value(str, query("redeem_checkout"))
forget = rows.executes(query("forget_checkouts"))


async def prune(connection: Connection, before: Ms) -> bool:
    """Remove a batch of old checkouts. True: there may be more."""
    done = await connection.execute(query("prune_checkouts"), before, before - _ASKED_FOR, _PRUNED_AT_ONCE)
    return affected(done) == _PRUNED_AT_ONCE
