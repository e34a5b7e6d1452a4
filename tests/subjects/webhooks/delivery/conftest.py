"""A project with the demo catalog, and receivers and workers as real processes."""

import contextlib
import itertools
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from latchkey.database.pool import Database
from latchkey.database.sealing import Sealer
from latchkey.domain.stores.test_store.orders import Action
from latchkey.engine.changes import Changes
from latchkey.subjects.test_store import usecases as test_store
from latchkey.subjects.webhooks.rules import Setup, Webhook
from latchkey.subjects.webhooks.usecases.registry import Registry
from latchkey.wire.event import Event
from tests.engine.fixtures import new_project
from tests.forks import Process
from tests.subjects.webhooks.delivery import certificates
from tests.subjects.webhooks.delivery.processes import SECRET_KEY, Receiver, Worker

PROJECT = "proj_shop"
# Seconds instead of minutes: what is tested is that the schedule is followed, not how long it is.
QUICK = (1, 1, 1, 1, 1, 1, 1, 1)


class Yard:
    def __init__(self, folder: Path, certs: certificates.Certificates, database: Database) -> None:
        self.folder = folder
        self.certs = certs
        self.database = database
        self.webhooks = Registry(database, Sealer(SECRET_KEY))
        self.changes = Changes(database, now_ms)
        self._numbers = itertools.count(1)
        self._processes = contextlib.ExitStack()

    async def open(self) -> None:
        await new_project(self.database, PROJECT, now_ms())

    def close(self) -> None:
        self._processes.close()

    def keep(self, process: Any) -> Any:
        return self._processes.enter_context(process)

    def receiver(self, certificate: tuple[Path, Path] | None = None) -> Receiver:
        receiver: Receiver = self.keep(Receiver(self.folder, certificate or self.certs.good))
        return receiver

    def worker(self, **settings: str) -> Process:
        worker: Process = self.keep(Worker(self.folder, self.database.url, self.certs.authority, **settings))
        return worker

    async def hook(self, url: str, **setup: Any) -> Webhook:
        made = {"name": url, "retry_seconds": QUICK, "authorization": "Bearer open sesame", **setup}
        return await self.webhooks.add(PROJECT, Setup(url=url, **made), now_ms())

    async def buy(self, user: str, times: int = 1, by: Changes | None = None) -> list[Event]:
        """One purchase is two events: what was bought, and the coins."""
        told: list[Event] = []
        for _ in range(times):
            action = Action(
                name="purchase", app_user_id=user, new_id=f"test_{next(self._numbers)}", product_id="coins_100"
            )
            told += (await test_store.act(by or self.changes, PROJECT, action)).events
        return told

    async def count(self, status: str) -> int:
        found: int = await self.database.pool.fetchval("select count(*) from deliveries where status = $1", status)
        return found

    async def leased(self) -> int:
        """How many lanes are claimed."""
        found: int = await self.database.pool.fetchval("select count(*) from lanes where lease_until > $1", now_ms())
        return found


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@pytest.fixture
async def yard(tmp_path: Path, certs: certificates.Certificates, database: Database) -> AsyncIterator[Yard]:
    made = Yard(tmp_path, certs, database)
    await made.open()
    yield made
    made.close()
