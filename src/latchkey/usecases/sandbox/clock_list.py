"""Test clocks as the dashboard lists them: newest first, with their customers and what falls due next."""

from __future__ import annotations

from latchkey.domain.instants import LATEST, Ms
from latchkey.domain.refusal import Refusal
from latchkey.storage.database import Database
from latchkey.storage.sandbox import clock_list, clocks
from latchkey.storage.sandbox.clock_list import COUNTED as COUNTED
from latchkey.storage.sandbox.clock_list import Inhabitant as Inhabitant
from latchkey.storage.sandbox.clock_list import ListedClock as ListedClock

# How many customers of a clock a page shows.
SHOWN = 100


async def newest_clocks(database: Database, project_id: str, after: str | None, limit: int) -> list[ListedClock]:
    async with database.acquire() as connection:
        return await clock_list.newest(connection, project_id, after, limit)


async def inhabitants(database: Database, project_id: str, clock_id: str) -> list[Inhabitant]:
    """The customers who fall due first. One more than `SHOWN` means that there are more."""
    async with database.acquire() as connection:
        return await clock_list.inhabitants(connection, project_id, clock_id, SHOWN + 1)


async def next_due(database: Database, project_id: str, clock_id: str) -> Ms:
    async with database.acquire() as connection:
        instant = await clocks.next_due(connection, project_id, clock_id, LATEST)
    if instant is None:
        raise Refusal("No customer on this clock has anything due. Buy a subscription first.")
    return instant
