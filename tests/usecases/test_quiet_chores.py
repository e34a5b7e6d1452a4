"""The chores of the stores: while nothing is due they ask nothing, and the lookout tells when something is."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from latchkey.now import real_now
from latchkey.storage.database import Database
from latchkey.storage.stores import journal
from latchkey.storage.stores.journal import NewEntry
from latchkey.usecases.stores.processing import Processor, run_stores
from tests.looking_out import looking_out
from tests.patience import PATIENCE, until
from tests.usecases.conftest import Shop

HANDLE = (
    "insert into store_handles (project_id, store, handle_hash, handle, app_id, environment, store_id, kind,"
    " product_id, first_seen_at, last_told_at, check_at, acknowledge_at)"
    " values ($1, 'play_store', 'x', 'x', 'app_shop', 'PRODUCTION', 'x', 'subscription', 'pro_monthly', 1, 1, $2, $3)"
)


class Asked:
    """In place of a `Processor`: counts what it is asked to do, and does it."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.times: Counter[str] = Counter()

    async def process_due(self) -> int:
        self.times["process"] += 1
        async with self.database.acquire() as connection:
            return len(await journal.claim(connection, real_now(), real_now() + 60_000, 10))

    async def acknowledge_due(self) -> int:
        self.times["acknowledge"] += 1
        await self.database.pool.execute("update store_handles set acknowledge_at = null")
        return 1

    async def check_due(self) -> int:
        self.times["check"] += 1
        await self.database.pool.execute("update store_handles set check_at = null")
        return 1

    async def read_histories(self) -> int:
        return 0


@asynccontextmanager
async def running(database: Database, asked: Asked, every: float) -> AsyncIterator[None]:
    stop = asyncio.Event()
    async with looking_out(database, real_now, every) as lookout:
        role = asyncio.create_task(run_stores(lookout, cast("Processor", asked), database, real_now, 30, stop))
        try:
            yield
        finally:
            stop.set()
            await role


def happened(times: Counter[str], name: str, often: int) -> Callable[[], Any]:
    async def enough() -> bool:
        return times[name] >= often

    return enough


async def test_a_filed_notification_is_processed_without_waiting_for_the_next_look(shop: Shop) -> None:
    asked = Asked(shop.database)
    async with running(shop.database, asked, 10 * PATIENCE):
        await until(happened(asked.times, "process", 1))
        now = real_now()
        entry = NewEntry(
            project_id=shop.project_id, app_id="app_shop", store="play_store", source="notification",
            external_id="n1", kind="test", environment=None, subject=None, occurred_at=now, received_at=now, checked={},
            payload="{}", next_at=now,
        )  # fmt: skip
        async with shop.database.acquire() as connection:
            await journal.file(connection, [entry])
        await until(happened(asked.times, "process", 2))


@pytest.mark.parametrize("name", ["acknowledge", "check"])
async def test_what_falls_due_later_is_done_then(shop: Shop, name: str) -> None:
    due = real_now() + 300
    await shop.database.pool.execute(HANDLE, shop.project_id, *((due, None) if name == "check" else (None, due)))
    asked = Asked(shop.database)
    async with running(shop.database, asked, 10 * PATIENCE):
        await until(happened(asked.times, name, 1))
    assert real_now() >= due
    assert asked.times[name] == 1
