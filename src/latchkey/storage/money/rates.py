"""Exchange rates: stored, listed, and loaded by version."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from latchkey.domain.instants import Ms
from latchkey.domain.tariff.rates import DayRate
from latchkey.storage.database import Connection
from latchkey.storage.sql import query

_SINCE = query("rates_since")
_LOCK = query("lock_rates")
_KNOWN = query("known_rates")
_PUT = query("put_rates")
_SAVE_VERSION = query("save_rates_version")
_SAVE_READING = query("save_rates_reading")
_READING = query("rates_reading")
_LIST = query("list_rates")
_CURRENCIES = query("rate_currencies")


@dataclass(frozen=True, slots=True)
class StoredRate:
    rate: DayRate
    source: str
    learned_at: Ms


@dataclass(frozen=True, slots=True)
class Coverage:
    """The rates of one currency."""

    currency: str
    rates: int
    # Days since 1970-01-01.
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Reading:
    """How the operator's setting was last read; all None if it never was."""

    read_at: Ms | None
    source: str | None
    # Why nothing, or not everything, was taken.
    problem: str | None


async def version(connection: Connection) -> int:
    found: int = await connection.fetchval(_READING)
    return found


async def since(connection: Connection, version: int) -> tuple[int, list[DayRate]]:
    """The rates that are newer than a version, and the newest version among them."""
    rows = await connection.fetch(_SINCE, version)
    newest = max((row["version"] for row in rows), default=version)
    return newest, [
        DayRate(row["currency"], day, usd) for row in rows for day, usd in zip(row["days"], row["rates"], strict=True)
    ]


async def lock(connection: Connection) -> int:
    """The next version. Whoever else writes rates waits until this transaction ends."""
    following: int = await connection.fetchval(_LOCK)
    return following


async def known(connection: Connection, asked: Sequence[DayRate]) -> dict[tuple[str, int], str]:
    """Those of the asked currencies and days that are stored already."""
    rows = await connection.fetch(_KNOWN, [one.currency for one in asked], [one.day for one in asked])
    return {(row["currency"], row["day"]): row["usd"] for row in rows}


async def put(connection: Connection, rates: Sequence[DayRate], source: str, now: Ms, version: int) -> None:
    if rates:
        await connection.execute(
            _PUT,
            [one.currency for one in rates],
            [one.day for one in rates],
            [Decimal(one.usd) for one in rates],
            source,
            now,
            version,
        )
        await connection.execute(_SAVE_VERSION, version)


async def save_reading(connection: Connection, now: Ms, source: str, problem: str | None) -> None:
    await connection.execute(_SAVE_READING, now, source, problem)


async def reading(connection: Connection) -> Reading:
    row = await connection.fetchrow(_READING)
    assert row is not None, "the migration writes the only row"
    return Reading(row["read_at"], row["source"], row["problem"])


async def listed(connection: Connection, currency: str | None, until: int, limit: int) -> list[StoredRate]:
    """Newest day first, from the day `until` backwards."""
    return [
        StoredRate(DayRate(row["currency"], row["day"], row["usd"]), row["source"], row["learned_at"])
        for row in await connection.fetch(_LIST, currency, until, limit)
    ]


async def coverage(connection: Connection) -> list[Coverage]:
    rows = await connection.fetch(_CURRENCIES)
    return [Coverage(row["currency"], row["rates"], row["first"], row["last"]) for row in rows]
