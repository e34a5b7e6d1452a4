"""Copies all rows of a table from one database into the other, without keeping them in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

from latchkey.storage.relocating.tables import Described

# Pieces of some ten kilobytes that may wait between the two.
_WAITING = 64


async def copy(source: Any, target: Any, table: Described) -> int:
    """How many rows. The target's transaction is the caller's."""
    waiting: asyncio.Queue[bytes | None] = asyncio.Queue(_WAITING)

    async def read() -> str:
        try:
            said: str = await source.copy_from_query(
                f"select {table.listed} from public.{table.name}",  # noqa: S608
                output=waiting.put,
            )
            return said
        finally:
            await waiting.put(None)

    async def pieces() -> AsyncIterator[bytes]:
        while (piece := await waiting.get()) is not None:
            yield piece

    reading = asyncio.create_task(read())
    try:
        await target.copy_to_table(table.name, schema_name="public", columns=table.columns, source=pieces())
    except BaseException:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        raise
    return int((await reading).split()[-1])


async def empty(target: Any, tables: Iterable[str]) -> None:
    listed = ", ".join(f"public.{one}" for one in tables)
    await target.execute(f"truncate {listed} cascade")


async def without_triggers(target: Any) -> None:
    """In the current transaction, as replication does: no foreign keys, no triggers."""
    await target.execute("set local session_replication_role = replica")
