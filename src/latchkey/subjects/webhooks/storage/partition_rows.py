"""Parts: the partitions of deliveries, attempts and events, opened and dropped by the delivery role; and the deletion
of deliveries that are no longer needed. Locked rows are skipped, so nobody waits for a batch."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import asyncpg

from latchkey.database.errors import DatabaseBusyError
from latchkey.database.pool import Connection, Database
from latchkey.database.sql import query
from latchkey.database.transient_errors import translated_errors, translates_errors
from latchkey.domain.instants import Ms
from latchkey.domain.partitions import Partition, Sizes

_LIST = query("list_partitions")
_TIME = query("database_time")
_LOCK = query("lock_partitions")
_SIZE = query("size_of_partition")
_OPEN = query("open_partition")
_PENDING = query("partition_is_pending")
_KEEP = query("keep_deliveries")
_DROP = query("drop_partition")

# Whoever waits to change a table makes everybody behind it wait too.
LOCK_TIMEOUT_MS = 100


@translates_errors
async def known(database: Database) -> list[Partition]:
    """All that have not been dropped."""
    return [Partition(row["partition"], row["opened_at"]) for row in await database.pool.fetch(_LIST)]


@translates_errors
async def database_time(database: Database) -> Ms:
    at: Ms = await database.pool.fetchval(_TIME)
    return at


@translates_errors
async def sizes(database: Database, part: int) -> Sizes:
    row = await database.pool.fetchrow(_SIZE, part)
    assert row is not None, "the statement returns one row"
    return Sizes(row["deliveries"], row["events"])


async def open_part(database: Database, part: int, now: Ms) -> None:
    """From now on new rows belong to this part. Raises DatabaseBusyError if a table is locked."""
    async with _alone(database) as connection:
        await connection.execute(_OPEN, part, now)


async def settle(database: Database, part: int, since: Ms) -> bool:
    """Moves what must be kept out of a closed part: deliveries that failed, or finished since this time. False if some
    are still pending, which keep the part. Takes as long as it takes to read the part."""
    async with _alone(database) as connection:
        await connection.execute("set local statement_timeout = 0")
        if await connection.fetchval(_PENDING, part):
            return False
        await connection.execute(_KEEP, part, since)
        return True


async def drop(database: Database, part: int, now: Ms) -> None:
    """Drops the deliveries and attempts of a part that is settled. Raises DatabaseBusyError if the tables are in use
    for longer than a moment."""
    async with _alone(database) as connection:
        await connection.execute(_DROP, part, now)


@asynccontextmanager
async def _alone(database: Database) -> AsyncIterator[Connection]:
    """A transaction that no other process opens, settles or drops parts in at the same time."""
    with translated_errors():
        try:
            async with database.transaction(lock_timeout_ms=LOCK_TIMEOUT_MS) as connection:
                await connection.execute(_LOCK)
                yield connection
        except asyncpg.LockNotAvailableError as error:
            raise DatabaseBusyError("The tables of the parts are in use.") from error


_WEBHOOKS = query("prunable_webhooks")
_PRUNE = query("prune_deliveries")
_CLEAR_LANES = query("clear_lanes_of_deleted")
_CLEAR = query("clear_deleted")
_HAS_ROWS = query("webhook_has_rows")
_IS_REPLAYED = query("webhook_is_replayed")
_FORGET = query("forget_empty_webhook")


class PrunableWebhook(NamedTuple):
    key: int
    deleted: bool


@translates_errors
async def prunable_webhooks(database: Database) -> list[PrunableWebhook]:
    return [PrunableWebhook(row["key"], row["deleted"]) for row in await database.pool.fetch(_WEBHOOKS)]


@translates_errors
async def remove_delivered(database: Database, webhook_key: int, part: int, before: Ms, limit: int) -> int:
    """Deletes up to `limit` deliveries of a part delivered before this time, with their attempts; returns how many."""
    removed: int = await database.pool.fetchval(_PRUNE, webhook_key, before, limit, part)
    return removed


@translates_errors
async def remove_lanes(database: Database, webhook_key: int, limit: int) -> int:
    """Deletes up to `limit` lanes of a deleted webhook; returns how many."""
    return len(await database.pool.fetch(_CLEAR_LANES, webhook_key, limit))


@translates_errors
async def remove_deliveries(database: Database, webhook_key: int, limit: int) -> int:
    """Deletes up to `limit` deliveries of a deleted webhook, with their attempts; returns how many."""
    removed: int = await database.pool.fetchval(_CLEAR, webhook_key, limit)
    return removed


@translates_errors
async def forget_webhook(database: Database, webhook_key: int) -> None:
    """Deletes a deleted webhook's row once nothing of it is left."""
    for is_used in (_HAS_ROWS, _IS_REPLAYED):
        if await database.pool.fetchval(is_used, webhook_key):
            return
    await database.pool.execute(_FORGET, webhook_key)
