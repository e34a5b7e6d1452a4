"""Test clocks as the dashboard lists them: newest first, with their customers."""

from __future__ import annotations

from dataclasses import dataclass

from latchkey.domain.customers.customer import Customer
from latchkey.domain.instants import Ms
from latchkey.storage.customers.state_format import decode
from latchkey.storage.database import Connection
from latchkey.storage.sandbox.clocks import TestClock, clock_of
from latchkey.storage.sql import query

_NEWEST = query("newest_clocks")
_CUSTOMERS = query("customers_on_clock")

# `newest_clocks` counts the customers of a clock up to this number.
COUNTED = 100


@dataclass(frozen=True, slots=True)
class ListedClock:
    clock: TestClock
    customers: int
    next_due_at: Ms | None


@dataclass(frozen=True, slots=True)
class Inhabitant:
    customer: Customer
    # When this customer next changes by itself.
    next_due_at: Ms | None


async def newest(connection: Connection, project_id: str, after: str | None, limit: int) -> list[ListedClock]:
    rows = await connection.fetch(_NEWEST, project_id, after, limit)
    return [ListedClock(clock_of(row), row["customers"], row["next_due_at"]) for row in rows]


async def inhabitants(connection: Connection, project_id: str, clock_id: str, limit: int) -> list[Inhabitant]:
    """The customers of a clock; those who fall due first come first."""
    rows = await connection.fetch(_CUSTOMERS, project_id, clock_id, limit)
    return [Inhabitant(decode(row["state"]), row["next_due_at"]) for row in rows]
