"""Exports: a million transactions of 100,000 customers in each format, then an increment, with the memory it takes."""

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

from msgspec.structs import replace

from bench.ground import Ground
from bench.population import settle, subscriber
from bench.table import Row
from latchkey.domain.customers.customer import Customer
from latchkey.domain.instants import DAY
from latchkey.now import real_now

CUSTOMERS = int(os.environ.get("LATCHKEY_BENCH_EXPORTED", "100000"))
PERIODS = 10
MEGABYTE = 1024 * 1024
# Of the process; Python with all that it imports takes about half of it.
BAR_MB = 400


def renewed() -> Customer:
    """A customer with a subscription that was renewed nine times."""
    customer = subscriber(real_now() - 300 * DAY)
    [subscription] = customer.subscriptions
    first = subscription.current
    periods = tuple(
        replace(
            first,
            id=first.id if number == 0 else f"{first.id}.{number}",
            number=number,
            purchased_at=first.purchased_at + number * 30 * DAY,
            ends_at=first.purchased_at + (number + 1) * 30 * DAY,
        )
        for number in range(PERIODS)
    )
    return replace(customer, subscriptions=(replace(subscription, periods=periods),))


async def run(ground: Ground) -> list[Row]:
    await settle(ground.database, "bench", renewed(), CUSTOMERS)
    rows: list[Row] = []
    for format in ("parquet", "csv", "jsonl"):
        took, memory = await asyncio.to_thread(_exported, ground, format)
        made = CUSTOMERS * PERIODS
        rows.append(Row(f"export of {made:,} transactions, {format}", made / took, "rows/s"))
        rows.append(_memory(f"memory of that process, {format}", memory))
    async with ground.database.acquire() as connection:
        await connection.execute(
            "update customers set last_seen_at = last_seen_at + 1 where id % 1000 = 0", timeout=600
        )
    took, memory = await asyncio.to_thread(_exported, ground, "parquet", "--incremental")
    rows.append(Row(f"increment: {CUSTOMERS // 1000:,} of {CUSTOMERS:,} customers changed", took, "s"))
    return rows


def _memory(name: str, megabytes: float) -> Row:
    return Row(name, megabytes, "MB", bar=f"≤ {BAR_MB} MB", holds=megabytes <= BAR_MB)


def _exported(ground: Ground, format: str, *more: str) -> tuple[float, float]:
    """Seconds and megabytes of `latchkey export`, as a process of its own."""
    command = Path(sys.executable).with_name("latchkey")
    words = ["export", "--to", str(ground.folder / "exports"), "--what", "transactions", "--format", format, *more]
    environment = {**os.environ, "LATCHKEY_DATABASE_URL": ground.server.url()}
    began = time.monotonic()
    process = subprocess.Popen([command, *words], env=environment, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    assert status == 0, f"latchkey export ended with {status}"
    # Kilobytes on Linux, bytes on macOS.
    unit = 1 if sys.platform == "darwin" else 1024
    return time.monotonic() - began, used.ru_maxrss * unit / MEGABYTE
