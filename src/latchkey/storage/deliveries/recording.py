"""Recording outcomes of attempts: the log, the delivery's status and the lane's next step, in one statement.

Most lanes hold one delivery, and most deliveries succeed. For these `record_last_deliveries` just deletes the lane;
everything else goes through `record_attempts`, which handles all cases.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from latchkey.domain.instants import Ms
from latchkey.domain.webhooks.retry import Decision, GiveUp, Retry
from latchkey.storage.arrays import notation
from latchkey.storage.database import Database
from latchkey.storage.deliveries.lanes import Claim
from latchkey.storage.outages import translates_errors
from latchkey.storage.sql import query

_RECORD = query("record_attempts")
_RECORD_LAST = query("record_last_deliveries")


class Attempt(Struct, frozen=True):
    """One attempt as logged. It succeeded if it has no `error`."""

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

    @property
    def delivered(self) -> bool:
        return self.error is None


class Outcome(Struct, frozen=True):
    claim: Claim
    attempt: Attempt
    # None when it was delivered.
    decision: Decision | None


class Recorded(Struct, frozen=True):
    outcome: Outcome
    # The lane's next delivery can be sent at once.
    more: bool
    # The webhook has recent failures, so this outcome may change its health.
    troubled: bool


@translates_errors
async def record(database: Database, outcomes: Sequence[Outcome], now: Ms) -> Sequence[Recorded]:
    """Store these outcomes. Those whose lease was lost are left out: another worker sends them again."""
    last: list[Outcome] = []
    others: list[Outcome] = []
    for one in outcomes:
        (last if one.claim.waiting <= 1 and one.attempt.error is None else others).append(one)
    recorded: list[Recorded] = []
    if last:
        recorded = await _record_last(database, last)
        if len(recorded) < len(last):
            # The lane has grown since the claim, or the lease was lost.
            done = {id(one.outcome) for one in recorded}
            others += [one for one in last if id(one) not in done]
    if others:
        recorded += await _record(database, others, now)
    return recorded


async def _record_last(database: Database, outcomes: Sequence[Outcome]) -> list[Recorded]:
    """Delivered, and nothing else waits in the lane."""
    claims = [one.claim for one in outcomes]
    attempts = [one.attempt for one in outcomes]
    headers, headers_at = _once_each([one.response_headers for one in attempts])
    bodies, bodies_at = _once_each([one.response_body for one in attempts])
    async with database.at_hand() as connection:
        row = await connection.fetchrow(
            _RECORD_LAST,
            # As text: the driver would take a pair of numbers for an array.
            '{"' + '","'.join([one.lane for one in claims]) + '"}',
            notation([one.token for one in claims]),
            notation([one.sequence for one in claims]),
            notation([one.at for one in attempts]),
            notation([one.took_ms for one in attempts]),
            # JSON has no line break inside.
            b"\n".join([one.request_headers for one in attempts]).decode(),
            headers,
            bodies,
            list({one.webhook_key for one in claims}),
            notation([one.part for one in claims]),
            headers_at,
            bodies_at,
        )
    assert row is not None, "the statement returns one row"
    troubled = row["troubled"]
    recorded = [outcomes[place - 1] for place in row["places"]]
    return [Recorded(one, more=False, troubled=one.claim.webhook_key in troubled) for one in recorded]


def _once_each(values: Sequence[bytes]) -> tuple[list[bytes], str]:
    """Each value once, and the place of each among these, from 1, in PostgreSQL's notation."""
    places = {value: place for place, value in enumerate(dict.fromkeys(values), 1)}
    return list(places), notation([places[value] for value in values])


async def _record(database: Database, outcomes: Sequence[Outcome], now: Ms) -> list[Recorded]:
    claims = [one.claim for one in outcomes]
    attempts = [one.attempt for one in outcomes]
    steps = [_step(one) for one in outcomes]
    rows = await database.pool.fetch(
        _RECORD,
        [one.project_id for one in claims],
        [one.customer_id for one in claims],
        [one.webhook_key for one in claims],
        [one.aside for one in claims],
        [one.token for one in claims],
        [one.done for one in claims],
        [one.sequence for one in claims],
        [one.attempts + 1 for one in claims],
        [one.at for one in attempts],
        [one.took_ms for one in attempts],
        [next_at for next_at, _ in steps],
        [others_at for _, others_at in steps],
        [one.error for one in attempts],
        [one.status for one in attempts],
        [one.request_headers for one in attempts],
        [one.response_headers if one.status is not None else None for one in attempts],
        [one.response_body if one.status is not None else None for one in attempts],
        now,
        [one.part for one in claims],
    )
    return [Recorded(outcomes[row["place"] - 1], more=row["more"], troubled=row["troubled"]) for row in rows]


def _step(outcome: Outcome) -> tuple[Ms | None, Ms | None]:
    """When it is retried, and when the lane continues without it; None: not at all."""
    match outcome.decision:
        case Retry(at, others_at):
            # In a lane of its own it blocks no other delivery.
            return at, others_at if outcome.claim.aside == 0 else None
        case None | GiveUp():
            return None, None
