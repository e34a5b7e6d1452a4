"""Processes and the database are killed while the App Store sends: what was answered is journalled and is applied."""

from __future__ import annotations

import asyncio
import http.client
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from msgspec import json

from latchkey.database.embedded.postgres import EmbeddedServer
from latchkey.database.pool import Database
from latchkey.database.sealing import Sealer
from latchkey.domain.instants import DAY, HOUR
from latchkey.emulators.apple.apple_books import AppleBooks
from latchkey.emulators.apple.apple_emulator import AppleApp, AppleEmulator
from latchkey.emulators.apple.apple_keys import make_apple_keys
from latchkey.emulators.emulator import EmulatorClock
from latchkey.emulators.emulator_server import ServedEmulator, running
from latchkey.now import real_now
from latchkey.stores.adapters import adapters
from latchkey.subjects.demo.usecases.project import PROJECT_ID, ensure_demo
from latchkey.subjects.projects.usecases import create_app
from latchkey.subjects.purchase_intake.storage.connection_rows import note_history_read
from latchkey.subjects.purchase_intake.usecases import store_connections as credentials
from latchkey.subjects.purchase_intake.usecases.purchase_intake import LEASE
from latchkey.subjects.purchase_intake.usecases.store_connections import Connections
from tests.cli.running import Running, ask, serving
from tests.connections import migrated
from tests.crash.books import audit
from tests.crash.chaos import processes
from tests.patience import PATIENCE, until, wait_until

CUSTOMERS = 100
SENDERS = 4
KILLS = 3
APP = AppleApp(bundle_id="com.example.notes", app_apple_id=1_234_567_890, environment="Production")


@pytest.fixture
def server(short_folder: Path) -> Iterator[EmbeddedServer]:
    """Durable: what is committed must survive a crash of the database."""
    server = EmbeddedServer(short_folder / "stores_killed")
    server.start()
    yield server
    server.stop()


class Sender(threading.Thread):
    """Sends what is next in the list, each again until it is answered, as stores do."""

    def __init__(self, letters: Iterator[tuple[str, bytes]], address: str, path: str, pace: threading.Event) -> None:
        super().__init__(daemon=True)
        self.letters, self.address, self.path, self.pace = letters, address, path, pace
        self.answered: list[str] = []
        self.statuses: set[int] = set()

    def run(self) -> None:
        for id, body in self.letters:
            # Slowly until everything was killed that is to be killed.
            self.pace.wait(0.05)
            while True:
                with suppress(OSError, http.client.HTTPException):
                    status = ask(self.address, "POST", self.path, body=body).status
                    self.statuses.add(status)
                    if status == 200:
                        self.answered.append(id)
                        break
                time.sleep(0.05)


class Letters:
    """Shared by the senders: each is taken once."""

    def __init__(self, letters: list[tuple[str, bytes]]) -> None:
        self._left = iter(letters)
        self._lock = threading.Lock()

    def __iter__(self) -> Letters:
        return self

    def __next__(self) -> tuple[str, bytes]:
        with self._lock:
            return next(self._left)


def token(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012d}"


async def sold() -> AppleEmulator:
    """An App Store emulator in which everybody bought a month ago, and has just renewed."""
    store = AppleEmulator(
        make_apple_keys(), APP, AppleBooks(), EmulatorClock(starts_at=real_now() - 31 * DAY + HOUR, ticks=False)
    )
    for number in range(CUSTOMERS):
        store.sell(product_id="pro_monthly", buyer=f"buyer{number}", account_token=token(number))
    # A month has 28 to 31 days.
    await store.move(store.clock.now() + 31 * DAY)
    return store


async def connected(database: Database, store: AppleEmulator, served: ServedEmulator) -> str:
    """The path of the app's notification URL."""
    await ensure_demo(database, real_now(), secret_key=None, public_key=None)
    app = await create_app(database, PROJECT_ID, "Notes", "app_store", real_now())
    hosts = frozenset({served.base_url.partition("//")[2]})
    connections = Connections(database, Sealer(b"k" * 32), adapters(), hosts, real_now)
    try:
        saved = await credentials.save(connections, PROJECT_ID, app.id, store.credentials(served.base_url))
        # Otherwise the service would read what was sent from the store's history.
        async with database.acquire() as connection:
            await note_history_read(connection, PROJECT_ID, app.id, real_now())
    finally:
        await connections.close()
    return saved.notification_path


def storm(
    service: Running, address: str, server: EmbeddedServer, path: str, letters: list[tuple[str, bytes]]
) -> list[Sender]:
    shared, pace = Letters(letters), threading.Event()
    senders = [Sender(iter(shared), address, path, pace) for _ in range(SENDERS)]
    for sender in senders:
        sender.start()

    def answered() -> int:
        return sum(len(sender.answered) for sender in senders)

    for number in range(KILLS):
        enough = answered() + 20
        wait_until(lambda enough=enough: answered() >= enough, lambda: service.output)  # type: ignore[misc]
        if number == KILLS // 2:
            assert server.pid is not None
            os.kill(server.pid, signal.SIGQUIT)
            server.stop()
            server.start()
            continue
        # One of the two at first, later both.
        wait_until(lambda: len(processes(service)) == 2)
        victims = processes(service)
        for victim in victims if number else [random.choice(victims)]:
            with suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
    pace.set()
    for sender in senders:
        sender.join(PATIENCE)
    return senders


async def test_what_a_store_was_answered_is_applied_whatever_was_killed(server: EmbeddedServer) -> None:
    await migrated(server.url())
    store = await sold()
    messages = store.outbox.messages
    assert len(messages) == 2 * CUSTOMERS
    # Purchases and renewals mixed: some renewals come before their purchase.
    letters = [(one.id, json.encode({"signedPayload": one.content.signed_payload})) for one in messages]
    random.shuffle(letters)
    async with running(store) as served:
        async with Database(server.url()) as database:
            path = await connected(database, store, served)
        host = served.base_url.partition("//")[2]

        def under_fire() -> list[Sender]:
            with serving(
                server.url(), "--roles", "api,clock", LATCHKEY_STORE_ALLOW_HOSTS=host, LATCHKEY_WORKERS="1"
            ) as (service, address):
                senders = storm(service, address, server, path, letters)
                asyncio.run(everything_applied(server.url()))
                return senders

        senders = await asyncio.to_thread(under_fire)
    answered = [id for sender in senders for id in sender.answered]
    assert sorted(answered) == sorted(id for id, _ in letters)
    # A 4xx would tell the store that the notification is of no use.
    assert set().union(*(sender.statuses for sender in senders)) <= {200, 500, 503}
    async with Database(server.url()) as database:
        rows = await database.pool.fetch("select external_id, status, message from store_notifications")
        journal = {row["external_id"]: row for row in rows}
        assert set(answered) <= journal.keys(), "a notification was answered and is not in the journal"
        assert {journal[id]["status"] for id in answered} == {"applied"}, [tuple(row) for row in rows]
        customers, events = await audit(database)
    assert customers.keys() == {token(number) for number in range(CUSTOMERS)}
    for app_user_id, customer in customers.items():
        assert [event["type"] for event in events[app_user_id]] == ["INITIAL_PURCHASE", "RENEWAL"]
        assert len(customer.subscriptions) == 1


async def everything_applied(url: str) -> None:
    async with Database(url) as database:
        # The leases of killed processes run out.
        await database.pool.execute(
            "update store_notifications set next_at = next_at - $1 where status = 'waiting'", LEASE
        )

        async def none_waits() -> bool:
            return not await database.pool.fetchval("select count(*) from store_notifications where status = 'waiting'")

        await until(none_waits, "notifications are still waiting")
