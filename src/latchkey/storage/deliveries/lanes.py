"""The queue of deliveries.

A *lane* is a row for one customer at one webhook. It exists while deliveries wait there, and counts them. Only the
oldest waiting delivery of a lane is ever sent, so a customer's events arrive in order. A worker claims a lane until
its lease runs out and marks it with a token; an outcome is recorded only while the lane still has that token.

A delivery whose next retry is far away gets a lane for itself, so that the customer's later events need not wait
for it. `aside` is 0 for the customer's ordinary lane, and the delivery's sequence for such a lane of its own.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Mapping, Sequence

from msgspec import Struct

from latchkey.domain.instants import Ms
from latchkey.storage.database import Database
from latchkey.storage.errors import OutageError
from latchkey.storage.outages import translates_errors
from latchkey.storage.sql import query

_CLAIM = query("claim_lanes")
_RELEASE = query("release_lanes")
_DUE = query("due_webhooks")


# A struct: creating a frozen dataclass of fourteen fields takes 7 µs, a tenth of the budget of a delivery.
class Claim(Struct, frozen=True):
    """The oldest waiting delivery of a lane, claimed until the lease runs out.

    From `project_id` on, the fields are the columns of `claim_lanes`, in the same order.
    """

    lease_until: Ms
    project_id: str
    customer_id: int
    webhook_key: int
    # 0, or the delivery's sequence where it has a lane of its own.
    aside: int
    webhook_version: int
    # Deliveries in the lane, this one included.
    waiting: int
    # Every sequence up to this one is finished.
    done: int
    # Attempts since it was queued or resent, and when the first of them began.
    tries: int
    tried_at: Ms | None
    sequence: int
    event_id: str
    # Attempts ever.
    attempts: int
    event: bytes
    token: int
    # Of the webhook when the delivery was queued or resent; None is the default.
    dialect: str | None
    # The part of the delivery: in which partition it is stored.
    part: int


@translates_errors
async def claim(database: Database, budgets: Mapping[int, int], now: Ms, lease_until: Ms) -> Sequence[Claim]:
    """Claim due lanes: for each webhook at most its budget."""
    # The statement adds the number of the row, so that no two lanes have the same token.
    token = secrets.randbits(62)
    async with database.at_hand() as connection:
        rows = await connection.fetch(_CLAIM, list(budgets), list(budgets.values()), now, lease_until, token)
    claims = [Claim(lease_until, *row) for row in rows]
    empty = [one for one in claims if one.event is None]
    if empty:
        # Another worker finished the delivery between our query and our claim. If the release fails, the leases run out
        # and nothing is lost.
        with contextlib.suppress(OutageError):
            await release(database, empty)
        claims = [one for one in claims if one.event is not None]
    return claims


@translates_errors
async def release(database: Database, claims: Sequence[Claim]) -> None:
    """Release claims that will not be sent, so that other workers need not wait for the lease to run out."""
    if claims:
        await database.pool.execute(
            _RELEASE,
            [one.project_id for one in claims],
            [one.customer_id for one in claims],
            [one.webhook_key for one in claims],
            [one.aside for one in claims],
            [one.token for one in claims],
        )


@translates_errors
async def due(database: Database, keys: Sequence[int] | None = None) -> dict[int, Ms]:
    """When each webhook, or each of these, has something to send next, by webhook key."""
    return {row["key"]: row["at"] for row in await database.pool.fetch(_DUE, keys)}
