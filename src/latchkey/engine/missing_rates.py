"""Warns about payments in production whose amount in USD is an estimate, because no exchange rate was given.

Noted once per project, currency and day: in a table that the dashboard and `latchkey doctor` read, in the log, and in
/metrics. What is noted already costs no statement.
"""

from collections import Counter

import structlog

from latchkey.database.pool import Connection, Database
from latchkey.domain.instants import DAY, Ms
from latchkey.domain.money.exchange_rates import date_of
from latchkey.engine.storage.catalog import rates
from latchkey.engine.storage.catalog.rates import MissingRates, RateKey

# How long the warning is shown.
SHOWN_DAYS = 30
_MOST_KNOWN = 10_000

log = structlog.get_logger()

# By currency, since this process started: how often a payment had no rate.
counted: Counter[str] = Counter()
# Noted and committed.
_known: set[RateKey] = set()


def count(missing: set[RateKey]) -> None:
    counted.update(currency for _, currency, _ in missing)


def fresh(missing: set[RateKey]) -> set[RateKey]:
    """Those that are still to be noted, as far as this process knows."""
    return missing - _known


async def note(connection: Connection, missing: set[RateKey]) -> None:
    count(missing)
    unknown = fresh(missing)
    if not unknown:
        return
    new = await rates.note(connection, unknown)
    for project_id, currency, day in sorted(new):
        log.warning("amount in dollars is an estimate", project_id=project_id, currency=currency, date=date_of(day))
    if len(_known) > _MOST_KNOWN:
        _known.clear()
    # Only what another transaction had noted before: this one may be rolled back.
    _known.update(unknown - new)


async def prune(database: Database, now: Ms) -> None:
    """Deletes those that are not shown any more."""
    await rates.prune_missing(database, now // DAY - SHOWN_DAYS)


async def listed(database: Database, project_id: str | None, now: Ms) -> list[MissingRates]:
    """By currency, of the last 30 days."""
    return await rates.list_missing(database, project_id, now // DAY - SHOWN_DAYS)
