"""The log of deliveries: what was sent to a webhook, when, and what the receiver answered."""

from dataclasses import dataclass
from typing import NamedTuple

from latchkey.database.pool import Connection, Record
from latchkey.database.sql import query
from latchkey.domain.instants import Ms
from latchkey.subjects.webhooks.rules import Attempt, Chosen, Delivery, Detail, StatusRange

_WEBHOOK = query("list_webhooks")
_PAGE = query("page_of_deliveries")
_PAGE_OF_CUSTOMER = query("deliveries_of_customer")
_LOAD = query("load_delivery")
_ATTEMPTS = query("attempts_of_delivery")
_LAST_FAILED = query("last_failed_attempt")


class DeliveryCursor(NamedTuple):
    """The position of a delivery in a webhook's log. Higher is newer."""

    created_at: Ms
    customer_key: int
    sequence: int


_MAX = 2**63 - 1
# After every delivery.
END = DeliveryCursor(_MAX, _MAX, _MAX)


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    event_id: str
    event_type: str
    attempt: Attempt


@dataclass(frozen=True, slots=True)
class Examined:
    """The deliveries that match."""

    deliveries: list[Delivery]
    # The event of the oldest examined delivery, if the limit ended the search before the end of the log.
    last_examined: str | None = None


async def webhook_key(connection: Connection, project_id: str, webhook_id: str) -> int | None:
    """The key that a webhook's deliveries are stored under. None: there is no such webhook."""
    row = await connection.fetchrow(_WEBHOOK, project_id, None, 1, webhook_id)
    return None if row is None else row["key"]


async def place_of(connection: Connection, project_id: str, webhook_key: int, event_id: str) -> DeliveryCursor | None:
    row = await connection.fetchrow(_LOAD, project_id, event_id, webhook_key)
    return None if row is None else DeliveryCursor(row["created_at"], row["customer_id"], row["sequence"])


async def page(
    connection: Connection,
    webhook_key: int,
    before: DeliveryCursor,
    since: Ms,
    status: Chosen | None,
    event_type: str | None,
    answered: StatusRange | None,
    *,
    limit: int,
    examined: int,
) -> Examined:
    """Newest first. Examines at most `examined` deliveries, so that a rare status does not read the whole log."""
    rows = await connection.fetch(
        _PAGE, webhook_key, *before, since, status, event_type, limit, examined, *_range(answered)
    )
    mark = rows.pop()["event_id"] if rows and rows[-1]["is_mark"] else None
    return Examined([_delivery(row) for row in rows], mark)


async def page_of_customer(
    connection: Connection,
    project_id: str,
    customer_key: int,
    webhook_key: int,
    before: DeliveryCursor,
    since: Ms,
    status: Chosen | None,
    event_type: str | None,
    answered: StatusRange | None,
    *,
    limit: int,
) -> Examined:
    """Newest first, with the deliveries of customers that were merged into this one."""
    rows = await connection.fetch(
        _PAGE_OF_CUSTOMER,
        project_id,
        customer_key,
        *before,
        status,
        event_type,
        limit,
        webhook_key,
        *_range(answered),
        since,
    )
    return Examined([_delivery(row) for row in rows])


async def load(connection: Connection, project_id: str, webhook_key: int, event_id: str) -> Detail | None:
    row = await connection.fetchrow(_LOAD, project_id, event_id, webhook_key)
    if row is None:
        return None
    attempts = await connection.fetch(_ATTEMPTS, project_id, row["customer_id"], webhook_key, row["sequence"])
    return Detail(_delivery(row), row["body"], row["next_at"], [_attempt(one) for one in attempts], row["dialect"])


async def last_failed_attempt(connection: Connection, webhook_key: int) -> FailedAttempt | None:
    """The newest failed attempt that can be found without reading the whole log."""
    row = await connection.fetchrow(_LAST_FAILED, webhook_key)
    return None if row is None else FailedAttempt(row["event_id"], row["event_type"], _attempt(row))


def _range(answered: StatusRange | None) -> tuple[int | None, int | None]:
    return (None, None) if answered is None else (answered.low, answered.high)


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


def _attempt(row: Record) -> Attempt:
    return Attempt(
        number=row["number"],
        at=row["at"],
        took_ms=row["took_ms"],
        error=row["error"],
        status=row["status"],
        request_headers=row["request_headers"],
        response_headers=row["response_headers"],
        response_body=row["response_body"],
    )
