"""The way back: all rows of a cluster into a plain database, while nobody can write."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from latchkey.storage.distribution.presence import is_distributed
from latchkey.storage.errors import NotRelocatableError
from latchkey.storage.migrate import require_current
from latchkey.storage.relocating import comparing, connections, copying, fence, numbers, parts, tables


async def copy_back(source: Any, target: Any, told: Callable[[str], None], *, replace: bool) -> float:
    """How many seconds it took. If anything fails, the cluster goes on and the plain database is left as it was."""
    if not await is_distributed(source) or await is_distributed(target):
        raise NotRelocatableError(
            "LATCHKEY_DATABASE_URL must name the cluster's coordinator, and --to a database that is not distributed."
        )
    for connection in (source, target):
        await require_current(connection)
    described = await tables.compared(source, target)
    if not replace and await target.fetchval("select exists (select from projects)"):
        raise NotRelocatableError("The plain database has projects. --replace deletes everything in it first.")
    await connections.take_turn(target)
    began = time.monotonic()
    try:
        await fence.put_up(source)
        async with target.transaction():
            await copying.without_triggers(target)
            await copying.empty(target, [name for name in described if name != "parts"])
            await parts.follow(target, await parts.of(source))
            await target.execute("delete from parts")
            for table in described.values():
                if rows := await copying.copy(source, target, table):
                    told(f"{table.name}: {rows:,} rows copied")
            await comparing.compare(source, target, [one for one in described.values() if not one.unlogged])
            await comparing.compare_feeds(source, target)
            await numbers.into_plain(source, target)
    except BaseException:
        await fence.take_down(source)
        raise
    # The fence of the switch, if it is the database that the rows came from.
    await fence.take_down(target)
    return time.monotonic() - began
