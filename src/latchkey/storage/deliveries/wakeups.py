"""Wakes the delivery workers: PostgreSQL's NOTIFY, sent by the transaction that queues a delivery."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from latchkey.storage.database import Connection, Database
from latchkey.storage.listening import listening as listening_to
from latchkey.storage.sql import query

# Also used by the statements in queries/delivery.sql and webhooks.sql.
_CHANNEL = "latchkey_delivery"
_WAKE = query("wake_workers")


async def wake(connection: Connection, webhook_key: int | None) -> None:
    """Notify the workers, when this transaction commits, that a webhook has something to send; None: all webhooks."""
    await connection.execute(_WAKE, "" if webhook_key is None else str(webhook_key))


def listening(database: Database, heard: Callable[[list[int]], None]) -> AbstractAsyncContextManager[asyncio.Event]:
    """Call `heard` with the keys of the notified webhooks; an empty list means all webhooks. The event is set when the
    connection is lost."""
    return listening_to(database, _CHANNEL, lambda payload: heard([int(key) for key in payload.split(",") if key]))
