"""Reads the operator's exchange rates (setting `exchange_rates`) when the clock role starts, and every six hours."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from latchkey.domain.instants import HOUR, MINUTE, Ms
from latchkey.domain.refusal import Refusal
from latchkey.storage.database import Database
from latchkey.storage.money import rates as stored
from latchkey.usecases.money.rates import Taken, take
from latchkey.usecases.money.sources import RateSource, shown

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
