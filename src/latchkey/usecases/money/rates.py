"""Exchange rates: taking those of a file, now or every six hours in the clock role, and showing what is known."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog

from latchkey.domain.instants import DAY, HOUR, MINUTE, Ms
from latchkey.domain.refusal import Conflict, Refusal
from latchkey.domain.tariff.rate_file import Given, date_of, read_rates
from latchkey.storage.database import Database
from latchkey.storage.money import rates as stored
from latchkey.storage.money.rates import Coverage, Reading, StoredRate
from latchkey.usecases.money.sources import RateSource, shown

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


EVERY: Ms = 6 * HOUR
# After a failure: a bank's server may be down for a moment, or the file half written.
AGAIN: Ms = 10 * MINUTE

log = structlog.get_logger()


async def run_rates(
    database: Database, source: RateSource, setting: str, now: Callable[[], Ms], stop: asyncio.Event
) -> None:
    """Runs until `stop` is set. Several may run at once: what another has taken changes nothing."""
    while not stop.is_set() and setting:
        wait = AGAIN
        try:
            if await read(database, source, setting, now()):
                wait = EVERY
        except Exception:
            # The database may be unreachable. Payments then have the rates that are known.
            log.exception("exchange rates failed")
        try:
            await asyncio.wait_for(stop.wait(), wait / 1000)
        except TimeoutError:
            continue


async def read(database: Database, source: RateSource, setting: str, now: Ms) -> bool:
    """Takes the rates of the setting once, and notes how it went. New days are taken also where the file gives another
    value for a known day: that value is not taken, and is reported."""
    name = shown(setting)
    problem: str | None = None
    taken: Taken | None = None
    try:
        taken = await take(database, await source.read(setting), name, now, keep_known=True)
    except Refusal as refusal:
        problem = refusal.message
    if taken is not None and taken.kept:
        problem = (
            f"{taken.kept:,} rates differ from the known ones, which were kept ({taken.first_kept}). "
            "`latchkey rates import --replace` takes the new values."
        )
    async with database.acquire() as connection:
        await stored.save_reading(connection, now, name, problem)
    if problem is not None:
        log.warning("exchange rates not taken", source=name, problem=problem)
    elif taken is not None and taken.new:
        log.info("exchange rates taken", source=name, new=taken.new)
    return taken is not None
