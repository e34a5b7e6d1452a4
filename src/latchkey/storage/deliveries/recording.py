"""Recording outcomes of attempts: the log, the delivery's status and the lane's next step, in one statement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from latchkey.domain.instants import Ms
from latchkey.domain.webhooks.retry import Decision, GiveUp, Retry
from latchkey.storage.arrays import notation
from latchkey.storage.database import Database
from latchkey.storage.deliveries.lanes import Claim
from latchkey.storage.errors import NodeAwayError
from latchkey.storage.outages import translates_errors
from latchkey.storage.sql import query

_RECORD = query("record_attempts")


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
async def record(
    database: Database, outcomes: Sequence[Outcome], now: Ms
) -> tuple[Sequence[Recorded], Sequence[Outcome]]:
    """Store these outcomes. Those whose lease was lost are left out: another worker sends them again. Returned too are
    outcomes that cannot be stored now, because their node of the database is away."""
    claims = [one.claim for one in outcomes]
    attempts = [one.attempt for one in outcomes]
    steps = [_step(one) for one in outcomes]
    headers, headers_at = _once_each([one.response_headers if one.status is not None else None for one in attempts])
    bodies, bodies_at = _once_each([one.response_body if one.status is not None else None for one in attempts])
    arguments = (
        notation([one.project_id for one in claims]),
        notation([one.customer_id for one in claims]),
        notation([one.webhook_key for one in claims]),
        notation([one.aside for one in claims]),
        notation([one.token for one in claims]),
        notation([one.done for one in claims]),
        notation([one.sequence for one in claims]),
        notation([one.attempts + 1 for one in claims]),
        notation([one.at for one in attempts]),
        notation([one.took_ms for one in attempts]),
        notation([next_at for next_at, _ in steps]),
        notation([others_at for _, others_at in steps]),
        notation([one.error for one in attempts]),
        notation([one.status for one in attempts]),
        [one.request_headers for one in attempts],
        headers_at,
        bodies_at,
        notation([one.part for one in claims]),
        headers,
        bodies,
        now,
    )
    rows: Sequence[Any]
    postponed: Sequence[Outcome] = ()
    async with database.at_hand() as connection:
        try:
            rows = await connection.fetch(_RECORD, *arguments)
        except NodeAwayError as error:
            rows = error.rows
            postponed = outcomes if error.places is None else [outcomes[place] for place in error.places]
    recorded = [Recorded(outcomes[row["place"] - 1], more=row["more"], troubled=row["troubled"]) for row in rows]
    return recorded, postponed


def _once_each(values: Sequence[bytes | None]) -> tuple[list[bytes | None], str]:
    """Each value once, and the place of each among these, from 1, in PostgreSQL's notation."""
    places = {value: place for place, value in enumerate(dict.fromkeys(values), 1)}
    return list(places), notation([places[value] for value in values])


def _step(outcome: Outcome) -> tuple[Ms | None, Ms | None]:
    """When it is retried, and when the lane continues without it; None: not at all."""
    match outcome.decision:
        case Retry(at, others_at):
            # In a lane of its own it blocks no other delivery.
            return at, others_at if outcome.claim.aside == 0 else None
        case None | GiveUp():
            return None, None
