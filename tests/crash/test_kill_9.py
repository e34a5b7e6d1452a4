"""Processes that are killed in the middle of their work leave nothing half written and lose nothing acknowledged."""

import asyncio
import os
import random
import signal
from collections import Counter
from contextlib import suppress
from pathlib import Path

import asyncpg

from latchkey.database.pool import Database
from latchkey.engine.changes import Changes
from latchkey.now import real_now
from latchkey.subjects.customers.usecases import edits as grants
from latchkey.subjects.demo.usecases.project import PROJECT_ID, ensure_demo
from tests.cli.running import Running, serving
from tests.crash.books import audit
from tests.crash.chaos import processes, storm
from tests.patience import until

KILLS = 5
GRANTS = 1_800


async def test_processes_killed_amid_purchases_leave_nothing_half_done_and_deliver_everything_in_order(
    database: Database, tmp_path: Path
) -> None:
    kills, figures = iter(range(KILLS)), Counter[str]()
    await storm(database, tmp_path, random.Random(), lambda: next(kills, None) is not None, figures)
    assert figures["lost"] == figures["doubled"] == 0, figures


async def test_a_clock_killed_amid_a_wave_of_ends_tells_each_end_once(database: Database) -> None:
    await ensure_demo(database, real_now(), secret_key=None, public_key=None)
    # Granted an hour ago for half an hour: every grant is due when the clock role starts.
    granted_at = real_now() - 3_600_000
    ends_at = granted_at + 1_800_000
    changes = Changes(database, lambda: granted_at)
    await asyncio.gather(
        *(
            grants.grant(changes, PROJECT_ID, f"user{number}", "pro", ends_at=ends_at, create=True)
            for number in range(GRANTS)
        )
    )
    await changes.drain()
    with serving(database.url, "--roles", "clock") as (running, _):
        await kill_amid(running, database)
    customers, events = await audit(database)
    assert len(customers) == GRANTS
    for told in events.values():
        assert [event["type"] for event in told] == ["NON_RENEWING_PURCHASE", "EXPIRATION"]
        assert told[1]["event_timestamp_ms"] == ends_at
        assert told[1]["entitlements"] == {}


async def kill_amid(running: Running, database: Database) -> None:
    """Kill the processes twice, each time while they cannot be done: the others' rows are locked."""

    async def expired(more_than: int) -> int:
        count: int = await database.pool.fetchval("select count(*) from events where type = 'EXPIRATION'")
        return count if count > more_than else 0

    count = 0
    # Not from the pool, whose transactions may not be idle for long.
    locking = await asyncpg.connect(database.url)
    for free in (1, 2):
        async with locking.transaction():
            await locking.execute("select from customers where id % 3 >= $1 for update", free)
            count = await until(lambda more_than=count: expired(more_than))  # type: ignore[misc]
            for pid in processes(running):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
    await locking.close()
    await until(lambda: expired(GRANTS - 1), lambda: running.output)
