"""Rebuilds a project's customer lists from the stored customers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from latchkey.domain.instants import SECOND, Ms
from latchkey.storage.catalog.catalogs import Catalogs
from latchkey.storage.customer_lists import progress
from latchkey.storage.database import Database
from latchkey.usecases.customer_lists import roller
from latchkey.usecases.customers.search import newest

# Between two looks. The last customers are safe to read some seconds after they came.
_WAIT: Ms = SECOND // 2


async def rebuild_now(
    database: Database, project_id: str, now: Callable[[], Ms], reached: Callable[[int, int], None] | None = None
) -> None:
    """Deletes the facets and walks through all customers that there are now. The service's own roller may work on it at
    the same time. `reached` is told the key of the last customer that is in the lists, and the key of the newest."""
    last = (await newest(database, Catalogs(), project_id, now(), limit=1)).views
    await roller.rebuild(database, project_id)
    while last:
        await roller.catch_up(database, project_id, now())
        async with database.transaction() as connection:
            held = await progress.hold(connection, project_id)
        counted = held.count.counted if held is not None else last[0].key
        if reached is not None:
            reached(min(counted, last[0].key), last[0].key)
        if counted >= last[0].key:
            return
        await asyncio.sleep(_WAIT / SECOND)
