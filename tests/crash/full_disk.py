"""The disk of `latchkey up` filled up amid purchases, again and again: `make chaos WHAT=disk`."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import Counter
from pathlib import Path

import asyncpg
import psutil  # type: ignore[import-untyped]  # ships no types

from tests import machine
from tests.cli.running import Up
from tests.crash.shoppers import Shop, Shopper, is_documented
from tests.crash.small_disk import SmallDisk, needs_namespace, small_disk
from tests.patience import wait_until


async def run(folder: Path, seed: int, seconds: float, figures: Counter[str]) -> None:
    if needs_namespace():
        machine.skip("a small disk", "Run it as root, or name an empty folder on one in SMALL_DISK.")
    chances, ends = random.Random(seed), time.monotonic() + seconds
    with small_disk(folder / "disk") as disk, Up(disk.path / "up", "--port", "0", "--no-stores") as up:
        await asyncio.to_thread(up.wait_until_ready)
        shop, processes = await Shop.open(up), children_of(up)
        shopper = Shopper(shop, "ann")
        shopper.start()
        try:
            while time.monotonic() < ends or not figures["full disks"]:
                figures["full disks"] += 1
                await _once(up, shop, shopper, disk, chances, figures)
        finally:
            disk.make_room()
            shopper.stop()
        statuses = Counter(reply.status for reply in shopper.replies)
        figures["requests"] = statuses.total()
        figures["undocumented 5xx"] = sum(
            count for status, count in statuses.items() if status >= 500 and status != 503
        )
        assert statuses.keys() <= {200, 503}, statuses
        assert all(is_documented(reply) for reply in shopper.replies)
        assert children_of(up) == processes, "a process ended because of the full disk"
        await shop.has_lost_nothing(shopper.bought)
        figures["acknowledged"] = len(shopper.bought)
        figures["lost"] = 0
        assert up.terminate() == 0


async def _once(
    up: Up, shop: Shop, shopper: Shopper, disk: SmallDisk, chances: random.Random, figures: Counter[str]
) -> None:
    enough = len(shopper.bought) + chances.randrange(2, 20)
    await asyncio.to_thread(wait_until, lambda: len(shopper.bought) >= enough, lambda: up.output)
    # Connected before the disk is full: PostgreSQL may have to write a file for a new connection.
    connection = await asyncpg.connect(shop.connection["database_url"])
    await asyncio.to_thread(disk.fill)
    if chances.random() < 0.4:
        figures["databases stopped by it"] += 1
        await use_up_the_log(connection)
    connection.terminate()
    await asyncio.to_thread(wait_until, lambda: not shop.is_ready(), "the service still says that it is ready")
    await asyncio.sleep(chances.uniform(0, 3))
    disk.make_room()
    await asyncio.to_thread(wait_until, shop.is_ready, lambda: up.output)


def children_of(up: Up) -> set[int]:
    children = psutil.Process(up.process.pid).children()
    return {child.pid for child in children if "postgres" not in child.name()}


async def use_up_the_log(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    """PostgreSQL stops when it cannot create the next file of its write-ahead log. Switch files until it stops."""
    with contextlib.suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
        while True:
            await connection.execute("select pg_logical_emit_message(true, 'test', 'x'), pg_switch_wal()")
    connection.terminate()
