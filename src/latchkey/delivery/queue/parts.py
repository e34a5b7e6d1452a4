"""Opens the next part when the current one is old and large enough, and drops the deliveries of old parts."""

from __future__ import annotations

import asyncio

import structlog

from latchkey.domain.instants import Ms
from latchkey.domain.webhooks.parts import newest, next_part, to_drop
from latchkey.storage.database import Database
from latchkey.storage.deliveries import parts
from latchkey.storage.errors import DatabaseBusyError, StatementRefusedError

log = structlog.get_logger()

# Each try makes others wait for at most a tenth of a second.
_TRIES = 20
_PAUSE_SECONDS = 0.5


async def turn_over(database: Database, now: Ms, kept_ms: int) -> None:
    """What cannot be done now, because the tables are in use, is done at the next call. If the database's user may not
    create tables, the current part goes on, and old deliveries are deleted one by one."""
    known = await parts.known(database)
    current = newest(known)
    number = next_part(current, await parts.sizes(database, current.number), now, kept_ms)
    try:
        if number is not None:
            await parts.open_part(database, number, now)
            log.info("part opened", part=number)
        for part in to_drop(known, now, kept_ms):
            if await parts.settle(database, part, now - kept_ms):
                await _drop(database, part, now)
                log.info("part dropped", part=part)
    except DatabaseBusyError:
        log.info("parts are busy", again="at the next turn")
    except StatementRefusedError as error:
        # The database's user must own the tables (docs/retention.md).
        log.warning("parts refused", reason=str(error))


async def _drop(database: Database, part: int, now: Ms) -> None:
    for _ in range(_TRIES - 1):
        try:
            await parts.drop(database, part, now)
        except DatabaseBusyError:
            await asyncio.sleep(_PAUSE_SECONDS)
        else:
            return
    await parts.drop(database, part, now)
