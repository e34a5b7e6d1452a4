"""The switch: nobody writes for a moment, the rest is taken over, and the new database may be used. And the way back,
into a plain database."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import asyncpg

from latchkey.storage.distribution.nodes import is_distributed
from latchkey.storage.errors import NotRelocatableError
from latchkey.storage.migrate import require_current
from latchkey.storage.relocating import comparing, connections, copying, fence, numbers, progress, slot, tables
from latchkey.storage.relocating.following import Following

# Larger tables were compared just before, while the service went on.
SMALL = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Switched:
    # From the first refused write until the new database may be used.
    seconds: float
    projects: int
    tables: int


async def switch(following: Following, told: Callable[[str], None], *, compare: bool = True) -> Switched:
    """If anything fails, the old database goes on as before."""
    source, target = following.source, following.target
    await following.until_close()
    if compare:
        await following.compare(told)
        await following.until_close()
    if await source.fetchval("select exists (select from import_rows)"):
        raise NotRelocatableError("An import is under way. Switch when it has ended.")
    began = time.monotonic()
    try:
        await fence.put_up(source)
        await following.drain()
        told(f"nobody writes any more, and every change is applied ({time.monotonic() - began:.2f} s)")
        small = await comparing.small(source, following.logged, SMALL)
        await comparing.compare(source, target, small)
        projects = await comparing.compare_feeds(source, target)
        told(f"{len(small)} tables and {projects} feeds are the same ({time.monotonic() - began:.2f} s)")
        await following.copy_unlogged(later=False)
        await numbers.take_over(source, target)
        await numbers.into_cluster(source, target)
    except BaseException:
        await fence.take_down(source)
        raise
    await _open(target)
    return Switched(time.monotonic() - began, projects, len(small))


async def _open(target: Any) -> None:
    found = await progress.load(target)
    assert found is not None
    try:
        await progress.save(target, replace(found, state=progress.DONE))
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise NotRelocatableError(
            "The connection broke at the last step. Nobody can write to the old database now. Run "
            "`latchkey admin cluster switch` again: it says whether the switch was made, and makes it if not."
        ) from error


async def clean_up(following: Following) -> None:
    """When the new database is in use already. Can be repeated."""
    await following.copy_unlogged(later=True)
    await slot.drop(following.source)


async def copy_back(source: Any, target: Any, told: Callable[[str], None], *, replace: bool) -> float:
    """How many seconds it took. If anything fails, the cluster goes on and the plain database is left as it was."""
    if not await is_distributed(source) or await is_distributed(target):
        raise NotRelocatableError(
            "LATCHKEY_DATABASE_URL must name the cluster's coordinator, and --to a database that is not distributed."
        )
    for connection in (source, target):
        await require_current(connection)
    described = await tables.compared(source, target)
    if not replace and await target.fetchval("select exists (select from projects)"):
        raise NotRelocatableError("The plain database has projects. --replace deletes everything in it first.")
    await connections.take_turn(target)
    began = time.monotonic()
    try:
        await fence.put_up(source)
        async with target.transaction():
            await copying.without_triggers(target)
            await copying.empty(target, [name for name in described if name != "parts"])
            await tables.follow_parts(target, await tables.parts_of(source))
            await target.execute("delete from parts")
            for table in described.values():
                if rows := await copying.copy(source, target, table):
                    told(f"{table.name}: {rows:,} rows copied")
            await comparing.compare(source, target, [one for one in described.values() if not one.unlogged])
            await comparing.compare_feeds(source, target)
            await numbers.into_plain(source, target)
    except BaseException:
        await fence.take_down(source)
        raise
    # The fence of the switch, if it is the database that the rows came from.
    await fence.take_down(target)
    return time.monotonic() - began
