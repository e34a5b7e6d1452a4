"""Wakes the delivery workers: PostgreSQL's NOTIFY, sent by the transaction that queues a delivery."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from latchkey.storage.database import Connection, Database, connect
from latchkey.storage.outages import translated_errors
from latchkey.storage.sql import query

# Also used by the statements in queries/delivery.sql and webhooks.sql.
_CHANNEL = "latchkey_delivery"
_WAKE = query("wake_workers")


async def wake(connection: Connection, webhook_key: int | None) -> None:
    """Notify the workers, when this transaction commits, that a webhook has something to send; None: all webhooks."""
    await connection.execute(_WAKE, "" if webhook_key is None else str(webhook_key))


@asynccontextmanager
async def listening(database: Database, heard: Callable[[list[int]], None]) -> AsyncIterator[asyncio.Event]:
    """Call `heard` with the keys of the notified webhooks; an empty list means all webhooks.

    Uses its own connection, outside the pool. The event is set when the connection is lost.
    """
    lost = asyncio.Event()

    def notified(_connection: object, _pid: object, _channel: object, payload: object) -> None:
        heard([int(key) for key in str(payload).split(",") if key])

    with translated_errors():
        connection = await connect(database.url, application_name="latchkey listening")
        try:
            connection.add_termination_listener(lambda _: lost.set())
            await connection.add_listener(_CHANNEL, notified)
            yield lost
        finally:
            connection.terminate()
