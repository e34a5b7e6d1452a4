"""Hears of new deliveries the moment their transaction commits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from latchkey.delivery.enqueue import CHANNEL
from latchkey.delivery.outage import OUTAGES
from latchkey.storage.database import Database, connect


async def listen(
    db: Database, woken: Callable[[Iterable[int]], None], look_around: Callable[[], Coroutine[Any, Any, None]]
) -> None:
    """Listen for ever. `look_around` is called when listening begins anew (what was said meanwhile was not heard),
    and when too many webhooks were meant to name them."""
    looking: set[asyncio.Task[None]] = set()

    def heard(*said: object) -> None:
        if keys := _keys(said[3]):
            woken(keys)
        else:
            looking.add(task := asyncio.create_task(look_around()))
            task.add_done_callback(looking.discard)

    while True:
        try:
            connection = await connect(db.url, application_name="latchkey listening")
        except OUTAGES:
            await asyncio.sleep(0.2)
            continue
        lost = asyncio.Event()
        connection.add_termination_listener(lambda _, lost=lost: lost.set())
        try:
            await connection.add_listener(CHANNEL, heard)
            await look_around()
            await lost.wait()
        except OUTAGES:
            await asyncio.sleep(0.2)
        finally:
            connection.terminate()


def _keys(payload: object) -> list[int]:
    return [int(word) for word in str(payload).split(",") if word]
