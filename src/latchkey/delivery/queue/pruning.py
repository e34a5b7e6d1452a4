"""Deletes old deliveries one by one. Failed deliveries, and all events, are kept.

Most deliveries of a large installation are not deleted but dropped with their part (`parts.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from latchkey.domain.instants import Ms
from latchkey.domain.webhooks.parts import deleted_before
from latchkey.storage.database import Database
from latchkey.storage.deliveries import parts

# Small batches with a pause between them, so that deliveries are not slowed down.
_BATCH = 500
_PAUSE_SECONDS = 0.05


async def prune(database: Database, now: Ms, kept_ms: int) -> int:
    """Delete deliveries that succeeded longer ago than they are kept, and everything of deleted webhooks; returns how
    many."""
    removed = 0
    known = await parts.known(database)
    limits = [(one.number, deleted_before(one.number, known, now, kept_ms)) for one in known]
    for key, deleted in await parts.prunable_webhooks(database):
        if deleted:
            await _in_batches(partial(parts.remove_lanes, database, key, _BATCH))
            removed += await _in_batches(partial(parts.remove_deliveries, database, key, _BATCH))
            await parts.forget_webhook(database, key)
        else:
            for part, before in limits:
                removed += await _in_batches(partial(parts.remove_delivered, database, key, part, before, _BATCH))
    return removed


async def _in_batches(remove: Callable[[], Awaitable[int]]) -> int:
    removed = 0
    while True:
        found = await remove()
        removed += found
        if found < _BATCH:
            return removed
        await asyncio.sleep(_PAUSE_SECONDS)
