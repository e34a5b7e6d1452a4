"""Deletes deliveries that are no longer needed. Locked rows are skipped, so nobody waits for a batch."""

from __future__ import annotations

from typing import NamedTuple

from latchkey.domain.instants import Ms
from latchkey.storage.database import Database
from latchkey.storage.outages import translates_errors
from latchkey.storage.sql import query

_WEBHOOKS = query("prunable_webhooks")
_PRUNE = query("prune_deliveries")
_CLEAR_LANES = query("clear_lanes_of_deleted")
_CLEAR = query("clear_deleted")
_FORGET = query("forget_webhook")


class PrunableWebhook(NamedTuple):
    key: int
    deleted: bool


@translates_errors
async def webhooks(database: Database) -> list[PrunableWebhook]:
    return [PrunableWebhook(row["key"], row["deleted"]) for row in await database.pool.fetch(_WEBHOOKS)]


@translates_errors
async def remove_delivered(database: Database, webhook_key: int, part: int, before: Ms, limit: int) -> int:
    """Deletes up to `limit` deliveries of a part delivered before this time, with their attempts; returns how many."""
    removed: int = await database.pool.fetchval(_PRUNE, webhook_key, before, limit, part)
    return removed


@translates_errors
async def remove_lanes(database: Database, webhook_key: int, limit: int) -> int:
    """Deletes up to `limit` lanes of a deleted webhook; returns how many."""
    removed: int = await database.pool.fetchval(_CLEAR_LANES, webhook_key, limit)
    return removed


@translates_errors
async def remove_deliveries(database: Database, webhook_key: int, limit: int) -> int:
    """Deletes up to `limit` deliveries of a deleted webhook, with their attempts; returns how many."""
    removed: int = await database.pool.fetchval(_CLEAR, webhook_key, limit)
    return removed


@translates_errors
async def forget_webhook(database: Database, webhook_key: int) -> None:
    """Deletes a deleted webhook's row once nothing of it is left."""
    await database.pool.execute(_FORGET, webhook_key)
