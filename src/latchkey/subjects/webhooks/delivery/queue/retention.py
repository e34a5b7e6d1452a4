"""Opens the next part when the current one is old and large enough, and drops the deliveries of old parts."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import structlog

from latchkey.database.errors import DatabaseBusyError, StatementRefusedError
from latchkey.database.pool import Database
from latchkey.domain.instants import Ms
from latchkey.domain.partitions import deleted_before, newest, next_part, to_drop
from latchkey.subjects.webhooks.storage import partition_rows

log = structlog.get_logger()

# Each try makes others wait for at most a tenth of a second.
_TRIES = 20
_PAUSE_SECONDS_PARTS = 0.5


async def turn_over(database: Database, now: Ms, kept_ms: int) -> None:
    """What cannot be done now, because the tables are in use, is done at the next call. If the database's user may not
    create tables, the current part goes on, and old deliveries are deleted one by one."""
    known = await partition_rows.known(database)
    current = newest(known)
    number = next_part(current, await partition_rows.sizes(database, current.number), now, kept_ms)
    try:
        if number is not None:
            await partition_rows.open_part(database, number, now)
            log.info("part opened", part=number)
        for part in to_drop(known, now, kept_ms):
            if await partition_rows.settle(database, part, now - kept_ms):
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
            await partition_rows.drop(database, part, now)
        except DatabaseBusyError:
            await asyncio.sleep(_PAUSE_SECONDS_PARTS)
        else:
            return
    await partition_rows.drop(database, part, now)


# Deletes old deliveries one by one. Failed deliveries, and all events, are kept.


# Small batches with a pause between them, so that deliveries are not slowed down.
_BATCH = 500
_PAUSE_SECONDS_PRUNING = 0.05


async def prune(database: Database, now: Ms, kept_ms: int) -> int:
    """Delete deliveries that succeeded longer ago than they are kept, and everything of deleted webhooks; returns how
    many."""
    removed = 0
    known = await partition_rows.known(database)
    limits = [(one.number, deleted_before(one.number, known, now, kept_ms)) for one in known]
    for key, deleted in await partition_rows.prunable_webhooks(database):
        if deleted:
            await _in_batches(partial(partition_rows.remove_lanes, database, key, _BATCH))
            removed += await _in_batches(partial(partition_rows.remove_deliveries, database, key, _BATCH))
            await partition_rows.forget_webhook(database, key)
        else:
            for part, before in limits:
                removed += await _in_batches(
                    partial(partition_rows.remove_delivered, database, key, part, before, _BATCH)
                )
    return removed


async def _in_batches(remove: Callable[[], Awaitable[int]]) -> int:
    removed = 0
    while True:
        found = await remove()
        removed += found
        if found < _BATCH:
            return removed
        await asyncio.sleep(_PAUSE_SECONDS_PRUNING)
