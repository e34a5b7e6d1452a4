"""Processes that are killed in the middle of their work leave nothing half written and lose nothing acknowledged."""

import asyncio
import http.client
import os
import random
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import asyncpg
import psutil  # type: ignore[import-untyped]  # ships no types

from latchkey.database.pool import Database
from latchkey.database.sealing import Sealer
from latchkey.engine.changes import Changes
from latchkey.now import real_now
from latchkey.subjects.api_keys import usecases as keys
from latchkey.subjects.customers.usecases import edits as grants
from latchkey.subjects.demo.usecases.project import APP_ID, PROJECT_ID, ensure_demo
from latchkey.subjects.webhooks.rules import Setup
from latchkey.subjects.webhooks.usecases.registry import Registry
from tests.cli.running import Running, ask, serving
from tests.crash.books import audit
from tests.patience import PATIENCE, until, wait_until
from tests.subjects.webhooks.delivery import certificates
from tests.subjects.webhooks.delivery.processes import Receiver, in_order

PURCHASES = {"INITIAL_PURCHASE", "NON_RENEWING_PURCHASE"}
KILLS = 5
BUYERS = 6
USERS = 20
GRANTS = 1_800
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
        self.statuses: set[int] = set()

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
                    self.statuses.add(status)
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


def killing(running: Running, times: int, answered: Callable[[], int]) -> None:
    """Kill one of the service's processes several times, each time while purchases are made."""
    for _ in range(times):
        enough = answered() + 10
        wait_until(lambda enough=enough: answered() >= enough, lambda: running.output)  # type: ignore[misc]
        victims = wait_until(lambda: processes(running))
        with suppress(ProcessLookupError):
            os.kill(random.choice(victims), signal.SIGKILL)


async def test_processes_killed_amid_purchases_leave_nothing_half_done_and_deliver_everything_in_order(
    database: Database, tmp_path: Path
) -> None:
    """The processes send what they commit themselves: each kill leaves deliveries that are leased to nobody alive."""
    now = real_now()
    await ensure_demo(database, now, secret_key=None, public_key=None)
    issued = await keys.create_public_key(database, PROJECT_ID, APP_ID, "crowd", now, rate_limit=1_000_000)
    certs = certificates.make(tmp_path / "certificates")
    settings = {
        "LATCHKEY_WEBHOOK_ALLOW_NETWORKS": "127.0.0.0/8,::1/128",
        "LATCHKEY_WEBHOOK_EXTRA_CA": str(certs.authority),
        # A lease is two seconds longer.
        "LATCHKEY_WEBHOOK_TIMEOUT_MS": "3000",
    }

    def storm() -> list[Buyer]:
        words = "--roles", "api,delivery", "--workers", "2"
        with serving(database.url, *words, **settings) as (running, address):
            buyers = [Buyer(number, address, issued.plaintext) for number in range(BUYERS)]
            for buyer in buyers:
                buyer.start()
            killing(running, KILLS, lambda: sum(len(buyer.answered) for buyer in buyers))
            for buyer in buyers:
                buyer.enough.set()
            for buyer in buyers:
                buyer.join(PATIENCE)
            wait_until(lambda: asyncio.run(waiting(database.url)) == 0, lambda: running.output)
            return buyers

    with Receiver(tmp_path, certs.good) as receiver:
        setup = Setup(name="receiver", url=receiver.url())
        await Registry(database, Sealer(SECRET_KEY)).add(PROJECT_ID, setup, now)
        buyers = await asyncio.to_thread(storm)
        arrivals = receiver.arrivals()
    customers, events = await audit(database)
    answered = [one for buyer in buyers for one in buyer.answered]
    assert len(answered) == sum(len(buyer.asked) for buyer in buyers)
    # While a process is down, no client gets a 4xx, which would make an app drop the transaction.
    assert set().union(*(buyer.statuses for buyer in buyers)) <= {200, 500, 503}
    for user, token, product in answered:
        customer = customers[user]
        mine = {one.id: one.current.product_id for one in customer.subscriptions}
        mine |= {one.id: one.product_id for one in customer.purchases}
        assert mine[token] == product
    bought = [event for one in events.values() for event in one if event["type"] in PURCHASES]
    told = [event["original_transaction_id"] for event in bought]
    assert told, "there is no purchase event"
    assert {arrival.event_id for arrival in arrivals} == {event["id"] for one in events.values() for event in one}
    assert in_order(arrivals)
    assert len(told) == len(set(told)), "a receipt that was sent again made a second event"
    assert set(told) <= {token for buyer in buyers for _, token, _ in buyer.asked}


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
