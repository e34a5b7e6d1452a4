"""Exchange rates: stored, listed, and loaded by version."""

from collections.abc import Collection, Sequence
from decimal import Decimal
from typing import TypeAlias

from msgspec import Struct, json

from latchkey.database.pool import Connection, Executor
from latchkey.database.rows import executes, fetch_all, fetches_all, fetches_value
from latchkey.database.sql import query
from latchkey.domain.instants import Ms
from latchkey.domain.money.exchange_rates import NO_RATES, DayRate, Rates
from latchkey.domain.money.fees import Fees


class StoredRate(Struct, frozen=True):
    rate: DayRate
    source: str
    learned_at: Ms


class Coverage(Struct, frozen=True):
    """The rates of one currency."""

    currency: str
    rates: int
    # Days since 1970-01-01.
    first: int
    last: int


class RatesReading(Struct, frozen=True):
    """How the operator's setting was last read; all None if it never was."""

    read_at: Ms | None
    source: str | None
    # Why nothing, or not everything, was taken.
    problem: str | None


async def since(connection: Connection, version: int) -> tuple[int, list[DayRate]]:
    """The rates that are newer than a version, and the newest version among them."""
    rows = await connection.fetch(query("rates_since"), version)
    newest = max((row["version"] for row in rows), default=version)
    return newest, [
        DayRate(row["currency"], day, usd) for row in rows for day, usd in zip(row["days"], row["rates"], strict=True)
    ]


# The next version. Whoever else writes rates waits until this transaction ends.
lock = fetches_value(int, query("lock_rates"))
save_reading = executes(query("save_rates_reading"))
coverage = fetches_all(Coverage, query("rate_currencies"))


async def known(connection: Connection, asked: Sequence[DayRate]) -> dict[tuple[str, int], str]:
    """Those of the asked currencies and days that are stored already."""
    rows = await connection.fetch(query("known_rates"), [one.currency for one in asked], [one.day for one in asked])
    return {(row["currency"], row["day"]): row["usd"] for row in rows}


async def put(connection: Connection, rates: Sequence[DayRate], source: str, now: Ms, version: int) -> None:
    if rates:
        currencies, days, amounts = zip(*rates, strict=True)
        exact = [Decimal(usd) for usd in amounts]
        await connection.execute(query("put_rates"), currencies, days, exact, source, now, version)
        await connection.execute(query("save_rates_version"), version)


async def reading(connection: Connection) -> RatesReading:
    [found] = await fetch_all(connection, RatesReading, query("rates_reading"))
    return found


async def list_rates(connection: Executor, currency: str | None, until: int, limit: int) -> list[StoredRate]:
    """Newest day first, from the day `until` backwards."""
    return [
        StoredRate(DayRate(row["currency"], row["day"], row["usd"]), row["source"], row["learned_at"])
        for row in await connection.fetch(query("list_rates"), currency, until, limit)
    ]


class KnownRates:
    def __init__(self) -> None:
        self._version = 0
        self._rates = NO_RATES

    async def at(self, connection: Connection, version: int) -> Rates:
        """The rates, at least as new as `version`, which the caller has just read."""
        if version > self._version:
            newest, more = await since(connection, self._version)
            # Another task may have loaded some meanwhile. What both loaded is the same.
            self._rates = self._rates.plus(more)
            self._version = max(self._version, newest)
        return self._rates


# Project, currency and day (days since 1970-01-01).
RateKey: TypeAlias = tuple[str, str, int]


class MissingRates(Struct, frozen=True):
    currency: str
    days: int
    last: int


async def note(connection: Connection, missing: Collection[RateKey]) -> set[RateKey]:
    """Returns those that were not noted before."""
    rows = await connection.fetch(query("note_missing_rates"), *zip(*sorted(missing), strict=True))
    return {(row["project_id"], row["currency"], row["day"]) for row in rows}


# By currency, for payments of a project since a day; of all projects if None is given.
list_missing = fetches_all(MissingRates, query("list_missing_rates"))
# Those of payments before a day.
prune_missing = executes(query("prune_missing_rates"))


fees_of = json.Decoder(Fees).decode


async def load(connection: Executor, project_id: str) -> Fees | None:
    """None: there is no such project."""
    row = await connection.fetchrow(query("load_catalog"), project_id)
    return None if row is None else fees_of(row["fees"])


async def save(connection: Connection, project_id: str, fees: Fees) -> None:
    await connection.execute(query("save_fees"), project_id, json.encode(fees))
