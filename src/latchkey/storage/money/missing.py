"""Currencies and days of payments in production for which no exchange rate was given."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TypeAlias

from latchkey.domain.instants import Ms
from latchkey.storage.database import Connection
from latchkey.storage.sql import query

_NOTE = query("note_missing_rates")
_LIST = query("list_missing_rates")

# Project, currency and day (days since 1970-01-01).
RateKey: TypeAlias = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class MissingRates:
    currency: str
    days: int
    last: int


async def note(connection: Connection, missing: Collection[RateKey], now: Ms) -> set[RateKey]:
    """Returns those that were not noted before."""
    ordered = sorted(missing)
    rows = await connection.fetch(
        _NOTE, [one[0] for one in ordered], [one[1] for one in ordered], [one[2] for one in ordered], now
    )
    return {(row["project_id"], row["currency"], row["day"]) for row in rows}


async def listed(connection: Connection, project_id: str | None, since: int) -> list[MissingRates]:
    """By currency, for payments since a day; of all projects if None is given."""
    rows = await connection.fetch(_LIST, project_id, since)
    return [MissingRates(row["currency"], row["days"], row["last"]) for row in rows]
