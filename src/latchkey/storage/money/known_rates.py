"""The exchange rates that this process has in memory. Every change reads their version, so they are never old."""

from __future__ import annotations

from latchkey.domain.tariff.rates import NO_RATES, Rates
from latchkey.storage.database import Connection
from latchkey.storage.money import rates as stored


class KnownRates:
    def __init__(self) -> None:
        self._version = 0
        self._rates = NO_RATES

    async def at(self, connection: Connection, version: int) -> Rates:
        """The rates, at least as new as `version`, which the caller has just read."""
        if version > self._version:
            newest, more = await stored.since(connection, self._version)
            # Another task may have loaded some meanwhile. What both loaded is the same.
            self._rates = self._rates.plus(more)
            self._version = max(self._version, newest)
        return self._rates
