"""Real processes to kill: receivers, delivery workers, and a writer that keeps committing events.

A worker is what `latchkey serve --roles delivery` starts, without the supervisor that would start it again.
"""

import asyncio
import base64
import contextlib
import os
import random
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from msgspec import json

from latchkey import logs
from latchkey.database.pool import Database
from latchkey.domain.stores.test_store.orders import Action
from latchkey.engine.changes import Changes
from latchkey.process.service import run_process
from latchkey.settings import load
from latchkey.subjects.test_store import usecases as test_store
from latchkey.subjects.webhooks import receiver
from latchkey.subjects.webhooks.receiver import ReceivedWebhook
from tests.forks import Process, announce

SECRET_KEY = bytes(range(32))


@dataclass(frozen=True, slots=True)
class Arrival:
    at_us: int
    path: str
    user: str
    sequence: int
    event_id: str
    did: str

    @property
    def taken(self) -> bool:
        """Answered with 200, whatever became of the body."""
        return self.did in {"status 200", "endless", "trickle", "cut"} or self.did.startswith("slow")


class Receiver(Process):
    def __init__(self, folder: Path, certificate: tuple[Path, Path], port: int = 0) -> None:
        self.log = folder / f"arrivals-{time.monotonic_ns()}.jsonl"
        arguments = port, self.log, certificate
        super().__init__(_receiver, *arguments, log=folder / "receiver.log", environment={})
        self.port = int(self.announced)

    def url(self, path: str = "/") -> str:
        return f"https://localhost:{self.port}{path}"

    def arrivals(self, path: str | None = None) -> list[Arrival]:
        with self.log.open("rb") as lines:
            found = [Arrival(*json.decode(line)) for line in lines if line.endswith(b"\n")]
        return [one for one in found if path is None or one.path == path]


class Worker(Process):
    def __init__(self, folder: Path, database_url: str, authority: Path, **settings: str) -> None:
        environment = {
            "LATCHKEY_DATABASE_URL": database_url,
            "LATCHKEY_SECRET_KEY": base64.b64encode(SECRET_KEY).decode(),
            "LATCHKEY_WEBHOOK_EXTRA_CA": str(authority),
            "LATCHKEY_WEBHOOK_ALLOW_NETWORKS": "127.0.0.0/8,::1/128",
            # A busy machine may need long for a handshake and an answer.
            "LATCHKEY_WEBHOOK_TIMEOUT_MS": "60000",
            "LATCHKEY_LOG_FORMAT": "json",
            **settings,
        }
        super().__init__(_worker, log=folder / "worker.log", environment=environment)


class Writer(Process):
    """Commits purchases of random customers, `per_second` of them."""

    def __init__(self, folder: Path, database_url: str, per_second: int, seed: int) -> None:
        environment = {"LATCHKEY_DATABASE_URL": database_url}
        super().__init__(_writer, per_second, seed, log=folder / "writer.log", environment=environment)


def in_order(arrivals: Iterable[Arrival]) -> bool:
    """Whether each customer's events were first accepted in the order of their sequence; duplicates are ignored."""
    last: dict[str, int] = defaultdict(int)
    seen: set[str] = set()
    for one in arrivals:
        if one.taken and one.event_id not in seen:
            seen.add(one.event_id)
            if one.sequence < last[one.user]:
                return False
            last[one.user] = one.sequence
    return True


async def _worker(stop: asyncio.Event) -> None:
    settings = load(os.environ)
    logs.configure("info", "json")
    await run_process(settings, ["delivery"], None, stop, ready=announce)


async def _writer(stop: asyncio.Event, per_second: int, seed: int) -> None:
    chances = random.Random(seed)
    async with Database(os.environ["LATCHKEY_DATABASE_URL"], max_size=3) as database:
        changes = Changes(database, lambda: time.time_ns() // 1_000_000)
        announce()

        async def buy(number: int) -> None:
            action = Action(
                name="purchase",
                app_user_id=f"user{chances.randrange(40)}",
                new_id=f"test_{seed}_{number}_{time.time_ns()}",
                product_id="coins_100",
            )
            # The test restarts the database meanwhile: a purchase that fails was not committed.
            with contextlib.suppress(Exception):
                await test_store.act(changes, "proj_shop", action)

        number = 0
        writing: set[asyncio.Task[None]] = set()
        while not stop.is_set():
            number += 1
            if len(writing) < 100:
                writing.add(task := asyncio.create_task(buy(number)))
                task.add_done_callback(writing.discard)
            await asyncio.sleep(1 / per_second)
        await asyncio.gather(*writing)


async def _receiver(stop: asyncio.Event, port: int, log: Path, certificate: tuple[Path, Path]) -> None:
    # Unbuffered: a receiver that is killed has logged everything it received.
    with log.open("ab", buffering=0) as lines:

        def write(arrival: ReceivedWebhook, did: str) -> None:
            event = arrival.event
            line = [arrival.at_us, arrival.path, event.app_user_id, event.sequence, event.id, did]
            lines.write(json.encode(line) + b"\n")

        server = await receiver.listen(receiver.Receiver(write), receiver.tls(*certificate), port=port)
        announce(server.sockets[0].getsockname()[1])  # type: ignore[attr-defined]  # asyncio's own Server has it
        await stop.wait()
        server.close()
