"""Adds the made-up year to the demo project of `latchkey up`, in the background, when everything else is up."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import structlog

from latchkey.cli.connections import Connection
from latchkey.cli.demo_consumer import DemoConsumer
from latchkey.now import real_now
from latchkey.storage.database import Database

log = structlog.get_logger()


@contextlib.asynccontextmanager
async def adding_history(
    consumer: DemoConsumer, connection: Connection, said: Callable[[str], None]
) -> AsyncIterator[None]:
    """Beside what is done within. What is not finished when that ends is given up: nothing was written then, and the
    next start tries again."""
    adding = asyncio.create_task(_add(consumer, connection, said))
    try:
        yield
    finally:
        adding.cancel()
        await asyncio.wait({adding})


async def _add(consumer: DemoConsumer, connection: Connection, said: Callable[[str], None]) -> None:
    # Loaded now: nobody should wait for this code before the service answers.
    from latchkey.usecases.sandbox.history.writing import is_wanted, tell, write_history

    try:
        async with Database(connection.database_url, max_size=1, application_name="latchkey up") as database:
            if not await is_wanted(database, connection.project_id):
                return
            said("Adding a year of made-up customers to the demo project (--no-history leaves it out)")
            history = await tell(database, connection.project_id, real_now())
            if history.last_event_id is not None:
                # Before the events are there. Otherwise the consumer could take them for events that it missed.
                await consumer.begin_after(history.last_event_id)
            await write_history(database, connection.project_id, history, real_now())
    except Exception:
        # A demo without a history is still a demo. The next start tries again.
        log.exception("demo history not written")
    else:
        log.info("demo history written", customers=len(history.newcomers), events=len(history.events))
