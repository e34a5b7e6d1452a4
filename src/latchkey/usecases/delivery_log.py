"""What was sent to a webhook, when, and what the receiver said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from latchkey.domain.instants import Ms
from latchkey.domain.refusal import NotFound
from latchkey.storage.database import Connection, Database, Record
from latchkey.storage.sql import query

_KEY = query("webhook_key")
_PLACE = query("delivery_place")
_PAGE = query("page_of_deliveries")
_OF_CUSTOMER = query("deliveries_of_customer")
_CUSTOMER = query("customer_key")
_LOAD = query("load_delivery")
_ATTEMPTS = query("attempts_of_delivery")

Status = Literal["waiting", "delivered", "failed"]

# So many deliveries one page looks at, at most: about a tenth of a second.
EXAMINED = 20_000
_END = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    status: Status | None = None
    type: str | None = None
    # Any of the customer's ids.
    customer_id: str | None = None
    # From the first on, and before the second.
    since: Ms | None = None
    until: Ms | None = None


@dataclass(frozen=True, slots=True)
class Delivery:
    event_id: str
    event_type: str
    app_user_id: str
    sequence: int
    status: Status
    attempts: int
    created_at: Ms
    finished_at: Ms | None
    response_status: int | None
    error: str | None
    replay_id: str | None


@dataclass(frozen=True, slots=True)
class Attempt:
    number: int
    at: Ms
    took_ms: int
    error: str | None
    status: int | None
    # As JSON, secrets masked.
    request_headers: bytes
    response_headers: bytes | None
    response_body: bytes | None


@dataclass(frozen=True, slots=True)
class Detail:
    delivery: Delivery
    # The event's JSON.
    event: bytes
    next_at: Ms | None
    attempts: Sequence[Attempt]


@dataclass(frozen=True, slots=True)
class Page:
    deliveries: Sequence[Delivery]
    # After which event's delivery the next page begins. A page may be short, or empty, and still have a next one.
    after: str | None


async def page_of_deliveries(
    db: Database, project_id: str, webhook_id: str, chosen: Filter, *, after: str | None, limit: int
) -> Page:
    """The newest first."""
    since = chosen.since if chosen.since is not None else 0
    filtered = chosen.status is not None or chosen.type is not None
    async with db.acquire() as connection:
        key = await _webhook(connection, project_id, webhook_id)
        place = await _place(connection, project_id, key, after)
        # One bound, not two: the index is entered at the first that it meets, and walked from there.
        if chosen.until is not None:
            place = min(place, (chosen.until, 0, 0))
        if chosen.customer_id is None:
            looked_at = EXAMINED if filtered else limit + 1
            rows = await connection.fetch(_PAGE, key, *place, since, chosen.status, chosen.type, limit + 1, looked_at)
        else:
            customer = await connection.fetchval(_CUSTOMER, project_id, chosen.customer_id)
            if customer is None:
                raise NotFound(f"There is no customer {chosen.customer_id!r}.", param="customer_id")
            rows = await connection.fetch(
                _OF_CUSTOMER,
                project_id,
                customer,
                key,
                *place,
                since,
                chosen.status,
                chosen.type,
                limit + 1,
            )
    mark = rows.pop()["event_id"] if rows and rows[-1].get("is_mark") else None
    found = [_delivery(row) for row in rows]
    if len(found) > limit:
        return Page(found[:limit], found[limit - 1].event_id)
    return Page(found, mark)


async def load_delivery(db: Database, project_id: str, webhook_id: str, event_id: str) -> Detail:
    async with db.acquire() as connection:
        key = await _webhook(connection, project_id, webhook_id)
        row = await connection.fetchrow(_LOAD, project_id, event_id, key)
        if row is None:
            raise missing_delivery(webhook_id, event_id)
        attempts = await connection.fetch(_ATTEMPTS, project_id, row["customer_id"], key, row["sequence"])
    return Detail(_delivery(row), row["body"], row["next_at"], [Attempt(*one) for one in attempts])


def missing_delivery(webhook_id: str, event_id: str) -> NotFound:
    return NotFound(f"Webhook {webhook_id!r} has no delivery {event_id!r}.", param="delivery_id")


def missing_webhook(webhook_id: str) -> NotFound:
    return NotFound(f"There is no webhook {webhook_id!r} in this project.", param="webhook_id")


async def _webhook(connection: Connection, project_id: str, webhook_id: str) -> int:
    key: int | None = await connection.fetchval(_KEY, project_id, webhook_id)
    if key is None:
        raise missing_webhook(webhook_id)
    return key


async def _place(connection: Connection, project_id: str, key: int, after: str | None) -> tuple[int, int, int]:
    if after is None:
        return _END, _END, _END
    row = await connection.fetchrow(_PLACE, project_id, after, key)
    if row is None:
        raise NotFound(f"There is no delivery {after!r} to start after.", param="starting_after")
    return row["created_at"], row["customer_id"], row["sequence"]


def _delivery(row: Record) -> Delivery:
    return Delivery(
        event_id=row["event_id"],
        event_type=row["event_type"],
        app_user_id=row["app_user_id"] or "",
        sequence=row["sequence"],
        status=row["status"],
        attempts=row["attempts"],
        created_at=row["created_at"],
        finished_at=row["finished_at"],
        response_status=row["response_status"],
        error=row["error"],
        replay_id=row["replay_id"],
    )
