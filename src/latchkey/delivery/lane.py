"""Lanes: one customer's deliveries to one webhook, claimed with a lease and recorded only while it holds."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Mapping, Sequence

from msgspec import Struct, json

from latchkey.delivery.outage import OUTAGES
from latchkey.delivery.reply import Answer
from latchkey.domain.instants import Ms
from latchkey.domain.retry import Decision, GiveUp, Retry
from latchkey.storage.database import Database
from latchkey.storage.sql import query

_CLAIM = query("claim_lanes")
_RELEASE = query("release_lanes")
_RECORD = query("record_attempts")
_RECORD_LAST = query("record_last_deliveries")
_DUE = query("due_webhooks")

_ENCODER = json.Encoder()


# Structs: a frozen dataclass of fourteen fields takes 7 µs to make, a tenth of what a delivery may cost.
class Claim(Struct, frozen=True):
    """The head of a lane, ours until the lease runs out."""

    token: int
    lease_until: Ms
    # The rest in the order in which the statement gives it.
    project_id: str
    customer_id: int
    webhook_key: int
    aside: int
    webhook_version: int
    # In the lane, this one among them.
    waiting: int
    done: int
    tries: int
    tried_at: Ms | None
    sequence: int
    event_id: str
    attempts: int
    event: bytes

    @property
    def body(self) -> bytes:
        """The same bytes with every attempt: the event as it was stored, in its envelope."""
        return b'{"api_version":"1.0","event":' + self.event + b"}"


class Result(Struct, frozen=True):
    claim: Claim
    answer: Answer
    # None when it was delivered.
    decision: Decision | None


class Recorded(Struct, frozen=True):
    result: Result
    # The lane goes on at once with its next delivery.
    more: bool
    # The webhook has failures to its name, so this outcome may change its health.
    troubled: bool


async def claim(db: Database, budgets: Mapping[int, int], now: Ms, lease_until: Ms) -> Sequence[Claim]:
    """The heads of due lanes, for each webhook at most its budget."""
    token = secrets.randbits(62)
    rows = await db.pool.fetch(_CLAIM, list(budgets), list(budgets.values()), now, lease_until, token)
    claims, empty = [], []
    for row in rows:
        if row["body"] is None:
            # The lane moved on between the moment we looked and the moment we took it.
            empty.append((row["project_id"], row["customer_id"], row["webhook_key"], row["aside"], token))
            continue
        claims.append(Claim(token, lease_until, *row))
    if empty:
        with contextlib.suppress(*OUTAGES):
            await _release(db, empty)
    return claims


async def release(db: Database, claims: Sequence[Claim]) -> None:
    """Give back what will not be sent, so that nobody has to wait for the lease to run out."""
    await _release(db, [(one.project_id, one.customer_id, one.webhook_key, one.aside, one.token) for one in claims])


async def _release(db: Database, heads: Sequence[tuple[str, int, int, int, int]]) -> None:
    if heads:
        await db.pool.execute(_RELEASE, *(list(column) for column in zip(*heads, strict=True)))


async def record(db: Database, results: Sequence[Result], now: Ms) -> Sequence[Recorded]:
    """Write down what came of these attempts; those whose lease was lost are left out, and were or will be repeated."""
    last: list[Result] = []
    others: list[Result] = []
    for one in results:
        (last if one.claim.waiting <= 1 and one.answer.delivered else others).append(one)
    recorded: list[Recorded] = []
    if last:
        recorded = await _record_last(db, last)
        if len(recorded) < len(last):
            known = {id(one.result) for one in recorded}
            others += [one for one in last if id(one) not in known]
    if others:
        recorded += await _record(db, others, now)
    return recorded


async def _record_last(db: Database, results: Sequence[Result]) -> list[Recorded]:
    """Those that arrived and left nothing behind them in their lanes."""
    claims = [one.claim for one in results]
    answers = [one.answer for one in results]
    rows = await db.pool.fetch(
        _RECORD_LAST,
        _numbers([one.customer_id for one in claims]),
        _numbers([one.webhook_key for one in claims]),
        _numbers([one.aside for one in claims]),
        _numbers([one.token for one in claims]),
        _numbers([one.sequence for one in claims]),
        _numbers([one.attempts + 1 for one in claims]),
        _numbers([one.at for one in answers]),
        _numbers([one.took_ms for one in answers]),
        _lines([_ENCODER.encode(one.request_headers) for one in answers]),
        _lines([_ENCODER.encode(one.response_headers) for one in answers]),
        [one.response_body for one in answers],
    )
    return [Recorded(results[place - 1], False, troubled) for place, troubled in rows]


async def _record(db: Database, results: Sequence[Result], now: Ms) -> list[Recorded]:
    claims = [one.claim for one in results]
    answers = [one.answer for one in results]
    steps = [_step(one) for one in results]
    rows = await db.pool.fetch(
        _RECORD,
        [one.project_id for one in claims],
        [one.customer_id for one in claims],
        [one.webhook_key for one in claims],
        [one.aside for one in claims],
        [one.token for one in claims],
        [one.done for one in claims],
        [one.sequence for one in claims],
        [one.attempts + 1 for one in claims],
        [one.at for one in answers],
        [one.took_ms for one in answers],
        [next_at for next_at, _ in steps],
        [others_at for _, others_at in steps],
        [one.error for one in answers],
        [one.status for one in answers],
        [_ENCODER.encode(one.request_headers) for one in answers],
        [_ENCODER.encode(one.response_headers) if one.status is not None else None for one in answers],
        [one.response_body if one.status is not None else None for one in answers],
        now,
    )
    return [Recorded(results[row["place"] - 1], row["more"], row["troubled"]) for row in rows]


async def due(db: Database, keys: Sequence[int] | None = None) -> Mapping[int, Ms]:
    """When these webhooks, or all, have something to send next."""
    return {row["key"]: row["at"] for row in await db.pool.fetch(_DUE, keys)}


def _numbers(values: Sequence[int]) -> str:
    return "{" + ",".join(map(str, values)) + "}"


def _lines(encoded: Sequence[bytes]) -> str:
    return b"\n".join(encoded).decode()


def _step(result: Result) -> tuple[Ms | None, Ms | None]:
    match result.decision:
        case Retry(at, others_at):
            # What stepped aside before has nobody behind it.
            return at, others_at if result.claim.aside == 0 else None
        case None | GiveUp():
            return None, None
