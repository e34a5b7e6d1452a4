"""Exchange rates: taking those of a file, and showing what is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from latchkey.domain.instants import DAY, Ms
from latchkey.domain.refusal import Conflict
from latchkey.domain.tariff.rate_file import Given, date_of, read_rates
from latchkey.storage.database import Database
from latchkey.storage.money import rates as stored
from latchkey.storage.money.rates import Coverage, Reading, StoredRate

MOST_LISTED = 10_000
_SHOWN = 10


class RatesDiffer(Conflict):
    """The file gives another rate for a day that is known already. Nothing was taken."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What came of a file."""

    source: str
    new: int
    replaced: int
    # Rates that are known with the same value.
    unchanged: int
    # Rates that are known with another value, which was kept.
    kept: int
    first_kept: str | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """What is known of exchange rates."""

    currencies: tuple[Coverage, ...]
    reading: Reading


async def take(
    database: Database, text: str, source: str, now: Ms, *, replace: bool = False, keep_known: bool = False
) -> Taken:
    """Stores the rates of a file, all or none. A known rate never changes unasked: without `replace` a file with
    another value for it is refused, or with `keep_known` the rest of the file is taken.

    Payments that were seen already keep their rate in any case."""
    given = read_rates(text, now // DAY)
    async with database.transaction(statement_timeout_ms=120_000) as connection:
        version = await stored.lock(connection)
        known = await stored.known(connection, [one.rate for one in given])
        new = [one for one in given if (one.rate.currency, one.rate.day) not in known]
        differing = [one for one in given if known.get((one.rate.currency, one.rate.day), one.rate.usd) != one.rate.usd]
        if differing and not replace and not keep_known:
            raise RatesDiffer(_difference(differing, known))
        taken = [*new, *(differing if replace else ())]
        await stored.put(connection, [one.rate for one in taken], source, now, version)
    return Taken(
        source,
        len(new),
        len(differing) if replace else 0,
        len(given) - len(new) - len(differing),
        0 if replace else len(differing),
        None if replace or not differing else _in_words(differing[0], known),
    )


async def listed(database: Database, currency: str | None, until: Ms, limit: int = 100) -> list[StoredRate]:
    """Newest day first."""
    async with database.acquire() as connection:
        return await stored.listed(connection, currency, until // DAY + 1, min(limit, MOST_LISTED))


async def standing(database: Database) -> Standing:
    async with database.acquire() as connection:
        return Standing(tuple(await stored.coverage(connection)), await stored.reading(connection))


def _difference(differing: Sequence[Given], known: dict[tuple[str, int], str]) -> str:
    said = [_in_words(one, known) for one in differing[:_SHOWN]]
    if len(differing) > _SHOWN:
        said.append(f"and {len(differing) - _SHOWN:,} more")
    return f"No rate was taken: some are known with another value. {'; '.join(said)}. --replace takes the new values."


def _in_words(one: Given, known: dict[tuple[str, int], str]) -> str:
    currency, day, usd = one.rate
    return f"line {one.line}: {currency} on {date_of(day)} is {usd}, known is {known[currency, day]}"
