"""The queue of deliveries.

A *lane* is a row for one customer at one webhook. It exists while deliveries wait there, and counts them. Only the
oldest waiting delivery of a lane is ever sent, so a customer's events arrive in order. A worker claims a lane until
its lease runs out and marks it with a token; an outcome is recorded only while the lane still has that token.

A delivery whose next retry is far away gets a lane for itself, so that the customer's later events need not wait
for it. `aside` is 0 for the customer's ordinary lane, and the delivery's sequence for such a lane of its own.

Also the partitions of deliveries, attempts and events, and the deletion of deliveries that are no longer needed. Locked
rows are skipped, so nobody waits for a batch.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from operator import attrgetter
from typing import Any

import asyncpg
from msgspec import Struct

from latchkey.database.errors import DatabaseBusyError, NodeAwayError, OutageError
from latchkey.database.pool import Connection, Database
from latchkey.database.rows import fetches_all, fetches_value
from latchkey.database.sql import notation, query
from latchkey.database.transient_errors import listening as listening_to
from latchkey.database.transient_errors import translated_errors, translates_errors
from latchkey.domain.instants import Ms
from latchkey.domain.partitions import Partition, Sizes
from latchkey.domain.retry import Decision, GiveUp, Retry
from latchkey.engine.storage.writes import DeliveryLease, Written


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


def leased(project_id: str, lease: DeliveryLease, written: Written) -> Sequence[Claim]:
    """What was claimed by the statement that wrote it."""
    return [
        Claim(
            lease_until=lease.until,
            project_id=project_id,
            customer_id=one.customer_id,
            webhook_key=one.webhook_key,
            aside=0,
            webhook_version=one.webhook_version,
            waiting=one.waiting,
            done=one.sequence - 1,
            tries=0,
            tried_at=None,
            sequence=one.sequence,
            event_id=one.event_id,
            attempts=0,
            event=written.bodies[one.event_id],
            token=lease.token,
            dialect=one.dialect,
            part=one.partition,
        )
        for one in written.leased or ()
    ]


def new_token(number: int) -> int:
    """A token of the process with this number of 31 bits, which is its upper half."""
    return number << 31 | secrets.randbits(31)


@translates_errors
async def claim_lane(
    database: Database, budgets: Mapping[int, int], now: Ms, lease_until: Ms, number: int = 0
) -> Sequence[Claim]:
    """Claim due lanes, for the process with this number: for each webhook at most its budget."""
    async with database.at_hand() as connection:
        # The statement adds the number of the row, so that no two lanes have the same token.
        rows = await connection.fetch(
            query("claim_lanes"), list(budgets), list(budgets.values()), now, lease_until, new_token(number)
        )
    claims = [Claim(lease_until, *row) for row in rows]
    empty = [claim for claim in claims if claim.event is None]
    if empty:
        # Another worker finished the delivery between our query and our claim. If the release fails, the leases run out
        # and nothing is lost.
        with suppress(OutageError):
            await release(database, empty)
        claims = [claim for claim in claims if claim.event is not None]
    return claims


@translates_errors
async def release(database: Database, claims: Sequence[Claim]) -> None:
    """Release claims that will not be sent, so that other workers need not wait for the lease to run out."""
    if claims:
        names = ("project_id", "customer_id", "webhook_key", "aside", "token")
        await database.pool.execute(
            query("release_lanes"), *([getattr(claim, name) for claim in claims] for name in names)
        )


@translates_errors
async def release_ended(database: Database, numbers: Sequence[int]) -> int:
    """Release what processes with these numbers had claimed. To be called only when they have ended."""
    return int(await database.pool.fetchval(query("release_ended"), numbers))


@translates_errors
async def due(database: Database, keys: Sequence[int] | None = None) -> dict[int, Ms]:
    """When each webhook, or each of these, has something to send next, by webhook key."""
    return {row["key"]: row["at"] for row in await database.pool.fetch(query("due_webhooks"), keys)}


class AttemptResult(Struct, frozen=True):
    """The result of one attempt, as logged. Only a status of 200 is success; everything else has an `error` text."""

    at: Ms
    took_ms: int
    # None if there was no response.
    status: int | None
    error: str | None
    # JSON, with secrets masked.
    request_headers: bytes
    # A JSON list of pairs; a receiver may send a header several times.
    response_headers: bytes = b"[]"
    response_body: bytes = b""
    retry_after_ms: int | None = None

    @property
    def delivered(self) -> bool:
        return self.error is None


class DeliveryOutcome(Struct, frozen=True):
    claim: Claim
    attempt: AttemptResult
    # None when it was delivered.
    decision: Decision | None


class Recorded(Struct, frozen=True):
    outcome: DeliveryOutcome
    # The lane's next delivery can be sent at once.
    more: bool
    # The webhook has recent failures, so this outcome may change its health.
    troubled: bool


@translates_errors
async def record_attempts(
    database: Database, outcomes: Sequence[DeliveryOutcome], now: Ms
) -> tuple[Sequence[Recorded], Sequence[DeliveryOutcome]]:
    """Store these outcomes. Those whose lease was lost are left out: another worker sends them again. Returned too are
    outcomes that cannot be stored now, because their node of the database is away."""
    claims = [outcome.claim for outcome in outcomes]
    attempts = [outcome.attempt for outcome in outcomes]
    steps = [_step(outcome) for outcome in outcomes]
    headers, headers_at = _once_each(
        [attempt.response_headers if attempt.status is not None else None for attempt in attempts]
    )
    # Of an event that was not sent: why not.
    bodies, bodies_at = _once_each(
        [attempt.response_body or (None if attempt.status is None else b"") for attempt in attempts]
    )
    arguments = (
        *_columns(claims, "project_id", "customer_id", "webhook_key", "aside", "token", "done", "sequence"),
        notation([claim.attempts + 1 for claim in claims]),
        *_columns(attempts, "at", "took_ms"),
        notation([next_at for next_at, _ in steps]),
        notation([others_at for _, others_at in steps]),
        *_columns(attempts, "error", "status"),
        [attempt.request_headers for attempt in attempts],
        headers_at,
        bodies_at,
        *_columns(claims, "part"),
        headers,
        bodies,
        now,
    )
    rows: Sequence[Any]
    postponed: Sequence[DeliveryOutcome] = ()
    async with database.at_hand() as connection:
        try:
            rows = await connection.fetch(query("record_attempts"), *arguments)
        except NodeAwayError as error:
            rows = error.rows
            postponed = outcomes if error.places is None else [outcomes[place] for place in error.places]
    recorded = [Recorded(outcomes[row["place"] - 1], more=row["more"], troubled=row["troubled"]) for row in rows]
    return recorded, postponed


def _columns(items: Sequence[Struct], *names: str) -> list[str]:
    """These fields of all, in PostgreSQL's notation."""
    return [notation(list(map(attrgetter(name), items))) for name in names]


def _once_each(values: Sequence[bytes | None]) -> tuple[list[bytes | None], str]:
    """Each value once, and the place of each among these, from 1, in PostgreSQL's notation."""
    places = {value: place for place, value in enumerate(dict.fromkeys(values), 1)}
    return list(places), notation([places[value] for value in values])


def _step(outcome: DeliveryOutcome) -> tuple[Ms | None, Ms | None]:
    """When it is retried, and when the lane continues without it; None: not at all."""
    match outcome.decision:
        case Retry(at, others_at):
            # In a lane of its own it blocks no other delivery.
            return at, others_at if outcome.claim.aside == 0 else None
        case None | GiveUp():
            return None, None


# Also used by the statements in queries/delivery.sql and webhooks.sql.
_CHANNEL = "latchkey_delivery"


async def wake(connection: Connection, webhook_key: int | None) -> None:
    """Notify the workers, when this transaction commits, that a webhook has something to send; None: all webhooks."""
    await connection.execute(query("wake_workers"), "" if webhook_key is None else str(webhook_key))


def listening(database: Database, heard: Callable[[list[int]], None]) -> AbstractAsyncContextManager[asyncio.Event]:
    """Call `heard` with the keys of the notified webhooks; an empty list means all webhooks. The event is set when the
    connection is lost."""
    return listening_to(database, _CHANNEL, lambda payload: heard([int(key) for key in payload.split(",") if key]))


# Whoever waits to change a table makes everybody behind it wait too.
LOCK_TIMEOUT_MS = 100


# All that have not been dropped.
known = translates_errors(fetches_all(Partition, query("list_partitions")))
database_time = translates_errors(fetches_value(int, query("database_time")))


@translates_errors
async def sizes(database: Database, part: int) -> Sizes:
    row = await database.pool.fetchrow(query("size_of_partition"), part)
    assert row is not None, "the statement returns one row"
    return Sizes(row["deliveries"], row["events"])


async def open_part(database: Database, part: int, now: Ms) -> None:
    """From now on new rows belong to this part. Raises DatabaseBusyError if a table is locked."""
    async with _alone(database) as connection:
        await connection.execute(query("open_partition"), part, now)


async def settle(database: Database, part: int, since: Ms) -> bool:
    """Moves what must be kept out of a closed part: deliveries that failed, or finished since this time. False if some
    are still pending, which keep the part. Takes as long as it takes to read the part."""
    async with _alone(database) as connection:
        await connection.execute("set local statement_timeout = 0")
        if await connection.fetchval(query("partition_is_pending"), part):
            return False
        await connection.execute(query("keep_deliveries"), part, since)
        return True


async def drop(database: Database, part: int, now: Ms) -> None:
    """Drops the deliveries and attempts of a part that is settled. Raises DatabaseBusyError if the tables are in use
    for longer than a moment."""
    async with _alone(database) as connection:
        await connection.execute(query("drop_partition"), part, now)


@asynccontextmanager
async def _alone(database: Database) -> AsyncIterator[Connection]:
    """A transaction that no other process opens, settles or drops parts in at the same time."""
    with translated_errors():
        try:
            async with database.transaction(lock_timeout_ms=LOCK_TIMEOUT_MS) as connection:
                await connection.execute(query("lock_partitions"))
                yield connection
        except asyncpg.LockNotAvailableError as error:
            raise DatabaseBusyError("The tables of the parts are in use.") from error


class PrunableWebhook(Struct, frozen=True):
    key: int
    deleted: bool


prunable_webhooks = translates_errors(fetches_all(PrunableWebhook, query("prunable_webhooks")))
# Deletes deliveries of a webhook from before a time, up to a limit, of a part, with their attempts. Returns how many.
remove_delivered = translates_errors(fetches_value(int, query("prune_deliveries")))
# The same for all deliveries of a deleted webhook, up to a limit; and for its lanes.
remove_deliveries = translates_errors(fetches_value(int, query("clear_deleted")))


@translates_errors
async def remove_lanes(database: Database, webhook_key: int, limit: int) -> int:
    return len(await database.pool.fetch(query("clear_lanes_of_deleted"), webhook_key, limit))


@translates_errors
async def forget_webhook(database: Database, webhook_key: int) -> None:
    """Deletes a deleted webhook's row, and its replays, once nothing else of it is left."""
    for is_used in (query("webhook_has_rows"), query("webhook_is_replayed")):
        if await database.pool.fetchval(is_used, webhook_key):
            return
    await database.pool.execute(query("forget_replays"), webhook_key)
    await database.pool.execute(query("forget_empty_webhook"), webhook_key)
