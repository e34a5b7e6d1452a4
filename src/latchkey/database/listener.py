"""LISTEN: learns of something new when the transaction that sent NOTIFY commits."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from latchkey.database.pool import Database
from latchkey.database.transient_errors import translated_errors


@asynccontextmanager
async def listening(database: Database, channel: str, heard: Callable[[str], None]) -> AsyncIterator[asyncio.Event]:
    """Call `heard` with the payload of each notification.

    Uses its own connection, outside the pool. The event is set when the connection is lost.
    """
    lost = asyncio.Event()

    def notified(_connection: object, _pid: object, _channel: object, payload: object) -> None:
        heard(str(payload))

    with translated_errors():
        connection = await database.connect("latchkey listening")
        try:
            connection.add_termination_listener(lambda _: lost.set())
            await connection.add_listener(channel, notified)
            yield lost
        finally:
            connection.terminate()
