"""The switch: nobody writes for a moment, the rest is taken over, and the new database may be used."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import asyncpg

from latchkey.storage.errors import NotRelocatableError
from latchkey.storage.relocating import comparing, fence, numbers, progress, slot
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
