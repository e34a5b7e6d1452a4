"""The LISTEN connection: learns of new deliveries when their transaction commits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from latchkey.storage.database import Database
from latchkey.storage.deliveries import wakeups
from latchkey.storage.errors import OutageError

_RECONNECT_SECONDS = 0.2


async def listen(
    database: Database, woken: Callable[[Iterable[int]], None], look_around: Callable[[], Coroutine[Any, Any, None]]
) -> None:
    """Listen until cancelled. `woken` gets the keys of webhooks with new deliveries.

    `look_around` is called after every new connection, because notifications sent meanwhile are lost, and when a
    notification names no webhook because there are too many.
    """
    looking: set[asyncio.Task[None]] = set()

    def heard(keys: list[int]) -> None:
        if keys:
            woken(keys)
        else:
            looking.add(task := asyncio.create_task(look_around()))
            task.add_done_callback(looking.discard)

    while True:
        try:
            async with wakeups.listening(database, heard) as lost:
                await look_around()
                await lost.wait()
        except OutageError:
            await asyncio.sleep(_RECONNECT_SECONDS)
