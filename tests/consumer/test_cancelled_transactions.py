"""A request that is cancelled at any point of a transaction leaves nothing open: the next writer is not locked out."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

from sqlalchemy import text

from latchkey.consumer.storage.database import Database


async def test_a_transaction_that_is_cancelled_locks_nobody_out(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'consumer.db'}")

    async def write() -> None:
        async with database.writing() as connection:
            await connection.execute(text("create table if not exists t (a int)"))

    async def cancelled(after: float) -> None:
        writing = asyncio.create_task(write())
        await asyncio.sleep(after)
        writing.cancel()
        with suppress(asyncio.CancelledError):
            await writing

    await write()
    for tenths in range(40):
        await asyncio.gather(*(cancelled(tenths / 10_000) for _ in range(6)))
        await write()
    await database.close()
