"""Reading all customers of a project, a range at a time, for questions that no index can answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from latchkey.domain.customers.customer import Customer
from latchkey.domain.instants import Ms
from latchkey.storage.customers.state_format import decode
from latchkey.storage.database import Connection
from latchkey.storage.sql import query

_STRETCH = query("next_stretch_of_customers")
_MENTIONING = query("customers_mentioning")


@dataclass(frozen=True, slots=True)
class Stretch:
    # The key of its last customer.
    ends_at: int
    customers: int
    # The key of the project's last customer.
    last: int


@dataclass(frozen=True, slots=True)
class Mentioning:
    customer: Customer
    # The time of the customer's test clock, if it is on one.
    clock_now: Ms | None


async def next_stretch(connection: Connection, project_id: str, after: int, limit: int) -> Stretch | None:
    """The next `limit` customers after this key; None at the end."""
    row = await connection.fetchrow(_STRETCH, project_id, after, limit)
    assert row is not None, "an aggregate always has a row"
    return None if row["ends_at"] is None else Stretch(row["ends_at"], row["customers"], row["last"])


async def mentioning(
    connection: Connection, project_id: str, after: int, stretch: Stretch, words: Sequence[str]
) -> list[Mentioning]:
    """The customers of a range whose stored state contains one of the words; see `mention`."""
    rows = await connection.fetch(_MENTIONING, project_id, after, stretch.ends_at, list(words))
    return [Mentioning(decode(row["state"]), row["now_ms"]) for row in rows]


def mention(field: str, value: str) -> str:
    """How the stored state writes this field. Values are our own ids, so nothing in them needs escaping."""
    return f'"{field}":"{value}"'
