"""Deletes old deliveries. Failed deliveries, and all events, are kept."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from latchkey.domain.instants import Ms
from latchkey.storage.database import Database
from latchkey.storage.deliveries import pruning

# Small batches with a pause between them, so that deliveries are not slowed down.
_BATCH = 500
_PAUSE_SECONDS = 0.05


async def prune(database: Database, before: Ms) -> int:
    """Delete deliveries that succeeded before this time, and everything of deleted webhooks; returns how many."""
    removed = 0
    for key, deleted in await pruning.webhooks(database):
        if deleted:
            await _in_batches(lambda key=key: pruning.remove_lanes(database, key, _BATCH))  # type: ignore[misc]  # bound at once
            removed += await _in_batches(lambda key=key: pruning.remove_deliveries(database, key, _BATCH))  # type: ignore[misc]  # bound at once
            await pruning.forget_webhook(database, key)
        else:
            removed += await _in_batches(lambda key=key: pruning.remove_delivered(database, key, before, _BATCH))  # type: ignore[misc]  # bound at once
    return removed


async def _in_batches(remove: Callable[[], Awaitable[int]]) -> int:
    removed = 0
    while True:
        found = await remove()
        removed += found
        if found < _BATCH:
            return removed
        await asyncio.sleep(_PAUSE_SECONDS)
