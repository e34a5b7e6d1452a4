"""Test clocks as people look at them: the newest first, who lives on each, and what falls due next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from latchkey.domain.customer import Customer
from latchkey.domain.instants import LATEST, Ms
from latchkey.domain.refusal import Refusal
from latchkey.storage.customers import decode
from latchkey.storage.database import Database
from latchkey.storage.sql import query
from latchkey.usecases.test_clocks import TestClock

NEWEST = query("newest_clocks")
CUSTOMERS = query("customers_on_clock")
NEXT_DUE = query("next_due_on_clock")

# Who lives on a clock is counted so far, and shown so far.
COUNTED = SHOWN = 100


@dataclass(frozen=True, slots=True)
class Listed:
    clock: TestClock
    customers: int
    next_due_at: Ms | None


@dataclass(frozen=True, slots=True)
class Inhabitant:
    customer: Customer
    # When time alone changes something for them.
    next_due_at: Ms | None


async def newest_clocks(db: Database, project_id: str, after: str | None, limit: int) -> Sequence[Listed]:
    async with db.acquire() as connection:
        rows = await connection.fetch(NEWEST, project_id, after, limit)
    return [Listed(TestClock(*clock), customers, due) for *clock, customers, due in rows]


async def inhabitants(db: Database, project_id: str, clock_id: str) -> Sequence[Inhabitant]:
    """Those who fall due first; one more than is shown says that there are more."""
    async with db.acquire() as connection:
        rows = await connection.fetch(CUSTOMERS, project_id, clock_id, SHOWN + 1)
    return [Inhabitant(decode(row["state"]), row["next_due_at"]) for row in rows]


async def next_due(db: Database, project_id: str, clock_id: str) -> Ms:
    async with db.acquire() as connection:
        instant: Ms | None = await connection.fetchval(NEXT_DUE, project_id, clock_id, LATEST)
    if instant is None:
        raise Refusal("Nothing falls due for anybody on this clock. Let somebody buy a subscription first.")
    return instant
