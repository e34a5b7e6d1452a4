"""Kill workers, a writer and the database at random under load: `make chaos WHAT=delivery`.

Afterwards every committed event must have arrived at every webhook, in order for each customer. Duplicates are allowed,
because delivery is at least once; they are counted.
"""

import asyncio
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

from latchkey.database.embedded.postgres import EmbeddedServer
from latchkey.database.pool import Database
from latchkey.database.sealing import Sealer
from latchkey.subjects.webhooks.rules import Setup
from latchkey.subjects.webhooks.usecases.registry import Registry
from tests.connections import migrated
from tests.databases import drained
from tests.engine.fixtures import new_project
from tests.forks import Process
from tests.subjects.webhooks.delivery import certificates
from tests.subjects.webhooks.delivery.processes import SECRET_KEY, Receiver, Worker, Writer, in_order

# Two that take everything, and some of those that fail, hang or answer nonsense for a while.
GOOD = ("/", "/second")
BAD = (
    "/slow/20", "/flaky/1", "/later/3/status/503", "/later/3/half", "/later/3/garbage", "/later/3/hang",
    "/later/3/down", "/later/3/redirect", "/later/3/trickle", "/endless", "/cut",
)  # fmt: skip
WORKERS = 3
PER_SECOND = 100


async def run(folder: Path, seed: int, seconds: float, figures: Counter[str]) -> None:
    chances = random.Random(seed)
    # Committed data must survive a crash of the database, so this server syncs to disk as in production.
    server = EmbeddedServer(folder / "server")
    await asyncio.to_thread(server.start)
    async with AsyncExitStack() as stack:
        stack.callback(server.stop)
        certs = certificates.make(folder / "certificates")
        url = server.url()
        await migrated(url)
        receiver = stack.enter_context(Receiver(folder, certs.good))
        paths = (*GOOD, *chances.sample(BAD, 2))
        async with Database(url) as database:
            await new_project(database, "proj_shop", 0)
            for path in paths:
                setup = Setup(name=path, url=receiver.url(path), retry_seconds=(1,) * 60)
                await Registry(database, Sealer(SECRET_KEY)).add("proj_shop", setup, 0)

        def worker() -> Process:
            return Worker(folder, url, certs.authority, LATCHKEY_WEBHOOK_TIMEOUT_MS="1000")

        def writer() -> Process:
            return Writer(folder, url, PER_SECOND, chances.randrange(1 << 30))

        # A process starts only while the database is up.
        ends, up = time.monotonic() + seconds, asyncio.Lock()
        running: dict[int, Process] = {}
        stack.callback(lambda: [one.stop() for one in running.values()])

        async def doomed(number: int, make: Callable[[], Process], what: str, longest: float) -> None:
            """A process that is killed and started anew until the time is over."""
            mine = random.Random(f"{seed} {number}")
            running[number] = await asyncio.to_thread(make)
            while time.monotonic() < ends:
                await asyncio.sleep(mine.uniform(0.1, longest))
                figures[what] += 1
                running[number].kill()
                async with up:
                    running[number] = await asyncio.to_thread(make)

        async def crashes() -> None:
            """The database at least once, in the second half."""
            await asyncio.sleep(seconds * chances.uniform(0.5, 0.8))
            while time.monotonic() < ends:
                figures["database crashes"] += 1
                async with up:
                    await asyncio.to_thread(_crash, server)
                await asyncio.sleep(chances.uniform(3, 30))

        await asyncio.gather(
            *(doomed(number, worker, "kills", 3.0) for number in range(WORKERS)),
            doomed(WORKERS, writer, "writers killed", 5.0),
            crashes(),
        )
        running[WORKERS].stop()
        async with Database(url) as database:
            await drained(database)
            rows = await database.pool.fetch("select id, type, body->>'transaction_id' as purchase from events")
        committed = {row["id"] for row in rows}
        figures["committed"] = len(committed)
        purchases = Counter(row["purchase"] for row in rows if row["type"] == "NON_RENEWING_PURCHASE")
        figures["doubled"] = purchases.total() - len(purchases)
        figures["lost"] = 0
        for path in paths:
            arrivals = receiver.arrivals(path)
            taken = Counter(one.event_id for one in arrivals if one.taken)
            figures["lost"] += len(committed - taken.keys())
            figures["delivered"] += len(taken)
            figures["delivered again"] += taken.total() - len(taken)
            assert in_order(arrivals), path
        assert committed, "nothing was bought"
        assert not figures["lost"], figures
        assert not figures["doubled"], figures


def _crash(server: EmbeddedServer) -> None:
    """Crash without a shutdown, as in a power failure; the next start recovers."""
    assert server.pid is not None
    os.kill(server.pid, signal.SIGQUIT)
    server.stop()
    server.start()
