"""Processes of `latchkey serve` killed amid purchases: `make chaos WHAT=service`.

They send what they commit themselves, so each kill also leaves deliveries that are leased to nobody alive. The
supervisor starts the processes again. In the end nothing is half written, what was acknowledged is there once, and
every event has arrived, in order for each customer.
"""

import asyncio
import http.client
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import asyncpg
import psutil  # type: ignore[import-untyped]  # ships no types

from latchkey.database.embedded.postgres import EmbeddedServer
from latchkey.database.pool import Database
from latchkey.database.sealing import Sealer
from latchkey.now import real_now
from latchkey.subjects.api_keys import usecases as keys
from latchkey.subjects.demo.usecases.project import APP_ID, PROJECT_ID, ensure_demo
from latchkey.subjects.webhooks.rules import Setup
from latchkey.subjects.webhooks.usecases.registry import Registry
from tests.cli.running import Running, ask, serving
from tests.conftest import UNSAFE_BUT_FAST
from tests.connections import migrated
from tests.crash.books import audit
from tests.patience import PATIENCE, wait_until
from tests.subjects.webhooks.delivery import certificates
from tests.subjects.webhooks.delivery.processes import Receiver, in_order

PURCHASES = {"INITIAL_PURCHASE", "NON_RENEWING_PURCHASE"}
BUYERS = 6
USERS = 20
# As `serving` has it.
SECRET_KEY = b"k" * 32


def processes(running: Running) -> list[int]:
    return [child.pid for child in psutil.Process(running.process.pid).children()]


class Buyer(threading.Thread):
    """An app that keeps buying, and sends each receipt again until it is answered, as real apps do."""

    def __init__(self, number: int, address: str, key: str) -> None:
        super().__init__(daemon=True)
        self.number, self.address, self.key = number, address, key
        self.enough = threading.Event()
        self.answered: list[tuple[str, str, str]] = []
        self.asked: list[tuple[str, str, str]] = []
        self.statuses: Counter[int] = Counter()

    def run(self) -> None:
        chance = random.Random(self.number)
        count = 0
        while not self.enough.is_set():
            count += 1
            user = f"user{chance.randrange(USERS)}"
            bought = user, f"test_{count}_{self.number}", chance.choice(("pro_monthly", "coins_100", "pro_lifetime"))
            self.asked.append(bought)
            while True:
                with suppress(OSError, http.client.HTTPException):
                    status = self.show(*bought)
                    self.statuses[status] += 1
                    if status == 200:
                        self.answered.append(bought)
                        break
                time.sleep(0.02)

    def show(self, user: str, token: str, product: str) -> int:
        receipt = {"app_user_id": user, "fetch_token": token, "product_id": product}
        return ask(self.address, "POST", "/v1/receipts", receipt, key=self.key).status


async def waiting(database_url: str) -> int:
    """How many customers have something to deliver."""
    connection = await asyncpg.connect(database_url)
    try:
        found: int = await connection.fetchval("select count(*) from lanes")
        return found
    finally:
        await connection.close()


def killing(running: Running, chances: random.Random, more: Callable[[], bool], answered: Callable[[], int]) -> int:
    """Kill one of the service's processes, each time while purchases are made. How often."""
    kills = 0
    while more():
        enough = answered() + chances.randrange(3, 15)
        wait_until(lambda enough=enough: answered() >= enough, lambda: running.output)  # type: ignore[misc]
        victims = wait_until(lambda: processes(running))
        with suppress(ProcessLookupError):
            os.kill(chances.choice(victims), signal.SIGKILL)
            kills += 1
    return kills


async def storm(
    database: Database, folder: Path, chances: random.Random, more: Callable[[], bool], figures: Counter[str]
) -> None:
    now = real_now()
    await ensure_demo(database, now, secret_key=None, public_key=None)
    issued = await keys.create_public_key(database, PROJECT_ID, APP_ID, "crowd", now, rate_limit=1_000_000)
    certs = certificates.make(folder / "certificates")
    settings = {
        "LATCHKEY_WEBHOOK_ALLOW_NETWORKS": "127.0.0.0/8,::1/128",
        "LATCHKEY_WEBHOOK_EXTRA_CA": str(certs.authority),
        # A lease is two seconds longer.
        "LATCHKEY_WEBHOOK_TIMEOUT_MS": "3000",
    }

    def under_fire() -> list[Buyer]:
        words = "--roles", "api,delivery", "--workers", "2"
        with serving(database.url, *words, **settings) as (running, address):
            buyers = [Buyer(number, address, issued.plaintext) for number in range(BUYERS)]
            for buyer in buyers:
                buyer.start()
            figures["kills"] = killing(running, chances, more, lambda: sum(len(buyer.answered) for buyer in buyers))
            for buyer in buyers:
                buyer.enough.set()
            for buyer in buyers:
                buyer.join(PATIENCE)
            wait_until(lambda: asyncio.run(waiting(database.url)) == 0, lambda: running.output)
            return buyers

    with Receiver(folder, certs.good) as receiver:
        setup = Setup(name="receiver", url=receiver.url())
        await Registry(database, Sealer(SECRET_KEY)).add(PROJECT_ID, setup, now)
        buyers = await asyncio.to_thread(under_fire)
        arrivals = receiver.arrivals()
    customers, events = await audit(database)
    answered = [one for buyer in buyers for one in buyer.answered]
    statuses = sum((buyer.statuses for buyer in buyers), Counter[int]())
    bought = [event for one in events.values() for event in one if event["type"] in PURCHASES]
    told = [event["original_transaction_id"] for event in bought]
    figures["requests"] = statuses.total()
    figures["undocumented 5xx"] = sum(count for status, count in statuses.items() if status >= 500 and status != 503)
    figures["committed"] = sum(len(one) for one in events.values())
    figures["lost"] = len({token for _, token, _ in answered} - set(told))
    figures["doubled"] = len(told) - len(set(told))
    assert len(answered) == sum(len(buyer.asked) for buyer in buyers)
    # While a process is down, no client gets a 4xx, which would make an app drop the transaction.
    assert statuses.keys() <= {200, 503}, statuses
    for user, token, product in answered:
        customer = customers[user]
        mine = {one.id: one.current.product_id for one in customer.subscriptions}
        mine |= {one.id: one.product_id for one in customer.purchases}
        assert mine[token] == product
    assert told, "there is no purchase event"
    assert {arrival.event_id for arrival in arrivals} == {event["id"] for one in events.values() for event in one}
    assert in_order(arrivals)
    assert len(told) == len(set(told)), "a receipt that was sent again made a second event"
    assert set(told) <= {token for buyer in buyers for _, token, _ in buyer.asked}


async def run(folder: Path, seed: int, seconds: float, figures: Counter[str]) -> None:
    ends = time.monotonic() + seconds
    # It is not killed here.
    server = EmbeddedServer(folder / "server", settings=UNSAFE_BUT_FAST)
    await asyncio.to_thread(server.start)
    try:
        await migrated(server.url())
        async with Database(server.url()) as database:
            await storm(database, folder, random.Random(seed), lambda: time.monotonic() < ends, figures)
    finally:
        await asyncio.to_thread(server.stop)
