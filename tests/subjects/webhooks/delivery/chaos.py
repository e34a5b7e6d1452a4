"""Kill two workers, a writer and the database at random under load. A seed makes a run repeatable.

    python -m tests.subjects.webhooks.delivery.chaos --seed 7 --seconds 60

Afterwards every committed event must have arrived at every webhook, in order for each customer. Duplicates are allowed,
because delivery is at least once; the report counts them.
"""

import argparse
import asyncio
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

from msgspec import json

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

PATHS = ("/", "/slow/20", "/second")


@dataclass(frozen=True, slots=True)
class Report:
    seed: int
    seconds: float
    events: int
    webhooks: int
    workers_killed: int
    writers_killed: int
    databases_killed: int
    lost: int
    duplicates: int
    in_order: bool
    drained_in: float

    @property
    def good(self) -> bool:
        return self.lost == 0 and self.in_order and self.events > 0


async def chaos(folder: Path, seed: int, seconds: float, per_second: int = 100) -> Report:
    chances = random.Random(seed)
    # Committed data must survive a crash of the database, so this server syncs to disk as in production.
    server = EmbeddedServer(folder / "server")
    server.start()
    try:
        with ExitStack() as processes:
            return await _run(folder, server, processes, chances, seed, seconds, per_second)
    finally:
        server.stop()


async def _run(
    folder: Path,
    server: EmbeddedServer,
    processes: ExitStack,
    chances: random.Random,
    seed: int,
    seconds: float,
    per_second: int,
) -> Report:
    certs = certificates.make(folder / "certificates")
    url = server.url()
    await migrated(url)
    receiver = processes.enter_context(Receiver(folder, certs.good))
    async with Database(url) as database:
        await new_project(database, "proj_shop", 0)
        for path in PATHS:
            setup = Setup(name=path, url=receiver.url(path), retry_seconds=(1,) * 30)
            await Registry(database, Sealer(SECRET_KEY)).add("proj_shop", setup, 0)

    makers: list[Callable[[], Process]] = [
        lambda: Worker(folder, url, certs.authority, LATCHKEY_WEBHOOK_TIMEOUT_MS="1000"),
        lambda: Worker(folder, url, certs.authority, LATCHKEY_WEBHOOK_TIMEOUT_MS="1000"),
        lambda: Writer(folder, url, per_second, chances.randrange(1 << 30)),
    ]
    running = await asyncio.gather(*(asyncio.to_thread(make) for make in makers))

    def close_all() -> None:
        for one in running:
            one.stop()

    processes.callback(close_all)
    killed: Counter[str] = Counter()
    ends = time.monotonic() + seconds
    database_due = True
    while time.monotonic() < ends:
        await asyncio.sleep(chances.uniform(0.2, 1.5))
        if database_due and time.monotonic() > ends - seconds / 2:
            database_due = False
            killed["database"] += 1
            await asyncio.to_thread(_crash, server)
            continue
        if seconds > 30 and chances.random() < 0.05:
            database_due = True
        which = chances.randrange(len(running))
        killed["writer" if which == 2 else "worker"] += 1
        running[which].kill()
        running[which] = await asyncio.to_thread(makers[which])
    running[2].stop()
    async with Database(url) as database:
        drained_in = await drained(database)
        committed = {row["id"] for row in await database.pool.fetch("select id from events")}
    lost = duplicates = 0
    ordered = True
    for path in PATHS:
        arrivals = receiver.arrivals(path)
        taken = Counter(one.event_id for one in arrivals if one.taken)
        lost += len(committed - taken.keys())
        duplicates += taken.total() - len(taken)
        ordered = ordered and in_order(arrivals)
    return Report(
        seed=seed,
        seconds=seconds,
        events=len(committed),
        webhooks=len(PATHS),
        workers_killed=killed["worker"],
        writers_killed=killed["writer"],
        databases_killed=killed["database"],
        lost=lost,
        duplicates=duplicates,
        in_order=ordered,
        drained_in=drained_in,
    )


def _crash(server: EmbeddedServer) -> None:
    """Crash without a shutdown, as in a power failure; the next start recovers."""
    assert server.pid is not None
    os.kill(server.pid, signal.SIGQUIT)
    server.stop()
    server.start()


def main() -> None:
    parser = argparse.ArgumentParser(prog="make chaos")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--per-second", type=int, default=100)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="latchkey-chaos-", ignore_cleanup_errors=True) as folder:
        report = asyncio.run(chaos(Path(folder), arguments.seed, arguments.seconds, arguments.per_second))
    sys.stdout.write(json.format(json.encode(asdict(report)), indent=2).decode() + "\n")
    sys.exit(not report.good)


if __name__ == "__main__":
    main()
