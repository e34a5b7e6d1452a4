"""The log of what was delivered is kept for a while; what failed, and every event, for ever."""

from __future__ import annotations

import asyncio

from latchkey.domain.instants import Ms
from latchkey.storage.database import Database
from latchkey.storage.sql import query

_WEBHOOKS = query("prunable_webhooks")
_PRUNE = query("prune_deliveries")
_CLEAR_LANES = query("clear_lanes_of_deleted")
_CLEAR = query("clear_deleted")
_FORGET = query("forget_webhook")

# Small enough that nobody notices; rows in use are stepped over, so nobody waits.
_BATCH = 500
_BREATH = 0.05


async def prune(db: Database, before: Ms) -> int:
    """Remove what was delivered before a moment, and all that belonged to deleted webhooks; says how much."""
    removed = 0
    for row in await db.pool.fetch(_WEBHOOKS):
        key = row["key"]
        if row["deleted"]:
            await _batches(db, _CLEAR_LANES, key)
            removed += await _batches(db, _CLEAR, key)
            await db.pool.execute(_FORGET, key)
        else:
            removed += await _batches(db, _PRUNE, key, before)
    return removed


async def _batches(db: Database, statement: str, *about: int) -> int:
    """Run the statement until it finds less than a full batch."""
    removed = 0
    while True:
        found: int = await db.pool.fetchval(statement, *about, _BATCH)
        removed += found
        if found < _BATCH:
            return removed
        await asyncio.sleep(_BREATH)
