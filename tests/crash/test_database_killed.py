"""PostgreSQL's main process killed under `latchkey up`: it is restarted, and every process reconnects."""

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import asyncpg
import psutil  # type: ignore[import-untyped]  # ships no types
import pytest

from latchkey.database.embedded.postgres import processes_on
from tests.cli.running import Up
from tests.connections import connected
from tests.crash.shoppers import Shop, Shopper, is_documented
from tests.patience import until, wait_until

# A backend that survives a query cancel and does not notice that the main process died.
BUSY = "do $$ begin loop begin loop end loop; exception when query_canceled then null; end; end loop; end $$"


@pytest.fixture
def up(short_folder: Path) -> Iterator[Up]:
    with Up(short_folder / "killed", "--port", "0", "--no-stores") as up:
        up.wait_until_ready()
        yield up
        assert up.terminate() == 0
    assert processes_on(up.folder / "postgres") == []


def main_process(up: Up) -> int:
    for one in psutil.Process(up.process.pid).children():
        # A short-lived process may be gone by now.
        with suppress(psutil.NoSuchProcess):
            if one.name().startswith("postgres"):
                return int(one.pid)
    return 0


async def test_a_killed_database_is_started_again_and_nothing_answered_is_lost(up: Up) -> None:
    shop = await Shop.open(up)
    others = {one.pid for one in psutil.Process(up.process.pid).children()} - {main_process(up)}
    shoppers = [Shopper(shop, name) for name in ("ann", "bob")]
    for shopper in shoppers:
        shopper.start()

    def bought() -> int:
        return sum(len(shopper.bought) for shopper in shoppers)

    async def running() -> int | None:
        """The process id of the backend that runs BUSY."""
        async with connected(asyncpg.connect(shop.connection["database_url"])) as connection:
            found = await connection.fetchval(
                "select pid from pg_stat_activity where query = $1 and state = 'active'", BUSY
            )
            return int(found) if found else None

    for _ in range(3):
        enough = bought() + 10
        await asyncio.to_thread(wait_until, lambda enough=enough: bought() >= enough, lambda: up.output)
        connection = await asyncpg.connect(shop.connection["database_url"])
        query = asyncio.ensure_future(connection.execute(BUSY, timeout=None))
        backend = await until(running)
        assert backend is not None
        killed = main_process(up)
        os.kill(killed, signal.SIGKILL)
        await asyncio.to_thread(wait_until, lambda killed=killed: main_process(up) not in (0, killed))
        await asyncio.gather(query, return_exceptions=True)
        await asyncio.to_thread(wait_until, shop.is_ready, lambda: up.output)
        assert backend not in {one.pid for one in processes_on(up.folder / "postgres")}
    for shopper in shoppers:
        await asyncio.to_thread(shopper.stop)

    replies = [reply for shopper in shoppers for reply in shopper.replies]
    assert {reply.status for reply in replies} <= {200, 503}
    assert all(is_documented(reply) for reply in replies)
    assert {one.pid for one in psutil.Process(up.process.pid).children()} - {main_process(up)} == others
    # `up` says so after the start, when the service may be ready already.
    again = "PostgreSQL is running again"
    await asyncio.to_thread(wait_until, lambda: up.output.count(again) >= 3, lambda: up.output)
    assert up.output.count(again) == 3
    await shop.has_lost_nothing([user for shopper in shoppers for user in shopper.bought])
