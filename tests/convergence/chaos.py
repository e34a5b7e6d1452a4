"""Kill service, delivery and consumer at random, over a network that loses, repeats and reorders: `make chaos
WHAT=consumer`.

Meanwhile simulated users buy, cancel and so on. Afterwards every user's local copy must equal V2, and every event must
have been processed once. The report also says how many copies were right before reconciliation.
"""

import asyncio
import base64
import random
import time
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from pprint import pformat

from msgspec import json
from pyreqwest.client import ClientBuilder
from sqlalchemy import func, select

from latchkey.client.client import Client
from latchkey.consumer.consumer_settings import Settings
from latchkey.consumer.reference_consumer import Consumer
from latchkey.consumer.storage.consumer_storage import ConsumerStorage
from latchkey.consumer.storage.copy_tables import currency_transactions, jobs, processed_events
from latchkey.database.embedded.postgres import EmbeddedServer
from latchkey.database.migrate import migrate
from latchkey.database.pool import Database, connect
from latchkey.database.sealing import Sealer
from latchkey.now import real_now
from latchkey.process.supervision.listeners import bind
from latchkey.subjects.api_keys.usecases import create_public_key, create_secret_key
from latchkey.subjects.projects.usecases import create_app
from latchkey.subjects.webhooks.rules import Setup
from latchkey.subjects.webhooks.usecases.registry import Registry
from tests.connections import connected
from tests.convergence.lives import Lives
from tests.convergence.processes import Killable, reconcile
from tests.convergence.proxy import Fault, HostileProxy
from tests.convergence.verdict import Verdict, answers, compare
from tests.databases import drained
from tests.engine.fixtures import new_project
from tests.subjects.webhooks.delivery import certificates
from tests.subjects.webhooks.delivery.processes import SECRET_KEY

PROJECT = "proj_shop"
SECRET = "a webhook secret of the convergence run"
NO_LIMIT = 1_000_000
# Jobs of a consumer that was killed wait for its lease to run out.
JOB_PATIENCE = 15.0


@dataclass(frozen=True, slots=True)
class Books:
    """The events and the sum of all balances on both sides."""

    events: int
    unprocessed: int
    invented: int
    # How often each of them was the error of a delivery.
    errors: dict[str, int]
    balance_here: int
    balance_there: int


@dataclass(frozen=True, slots=True)
class Report:
    seed: int
    database: str
    lives: int
    acts: dict[str, int]
    kills: dict[str, int]
    network: dict[str, int]
    drained_in: float
    # Before reconciliation, only lost events and erasures may explain a difference.
    before: Verdict
    unexplained: dict[str, str]
    events_missed: int
    users_differed: int
    jobs_waiting: int
    after: Verdict
    # For every id, aliases too.
    wrong_answers: dict[str, str]
    books: Books

    @property
    def good(self) -> bool:
        converged = not self.after.wrong and self.after.right == self.after.users > 0
        explained = not self.wrong_answers and not self.unexplained
        exact = not self.books.unprocessed and not self.books.invented
        exact = exact and self.books.balance_here == self.books.balance_there
        return converged and explained and exact


async def converge(
    folder: Path,
    database_url: str,
    consumer_url: str,
    *,
    seed: int,
    seconds: float,
    together: int = 80,
    job_patience: float = JOB_PATIENCE,
) -> Report:
    """`database_url` is a migrated, empty database of the service; the consumer creates its own tables."""
    chances = random.Random(seed)
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    certs = certificates.make(folder / "certificates")
    async with AsyncExitStack() as stack:
        database = await stack.enter_async_context(Database(database_url, max_size=4))
        await new_project(database, PROJECT, real_now())
        await create_app(database, PROJECT, "Phones", "test_store", real_now(), app_id="app_phones")
        app_key = await create_public_key(database, PROJECT, "app_phones", "phones", real_now())
        writing = await create_secret_key(database, PROJECT, "lives", real_now(), rate_limit=NO_LIMIT)
        reading = await create_secret_key(
            database, PROJECT, "consumer", real_now(), scopes={"read"}, rate_limit=NO_LIMIT
        )

        [api_socket], [consumer_socket] = bind("127.0.0.1", 0, 1), bind("127.0.0.1", 0, 1)
        stack.callback(api_socket.close)
        stack.callback(consumer_socket.close)
        api_url = f"https://localhost:{api_socket.getsockname()[1]}"
        upstream = f"https://localhost:{consumer_socket.getsockname()[1]}"
        proxy = await stack.enter_async_context(HostileProxy(seed, upstream, certs.good, certs.authority))
        setup = Setup(
            name="consumer",
            url=f"{proxy.url}/webhooks/billing",
            authorization=f"Bearer {SECRET}",
            retry_seconds=(1,) * 60,
        )
        webhook = await Registry(database, Sealer(SECRET_KEY)).add(PROJECT, setup, real_now())

        service = {
            "LATCHKEY_DATABASE_URL": database_url,
            "LATCHKEY_SECRET_KEY": base64.b64encode(SECRET_KEY).decode(),
            "LATCHKEY_TLS_CERT": str(certs.good[0]),
            "LATCHKEY_TLS_KEY": str(certs.good[1]),
            "LATCHKEY_WEBHOOK_EXTRA_CA": str(certs.authority),
            "LATCHKEY_WEBHOOK_ALLOW_NETWORKS": "127.0.0.0/8,::1/128",
            # At a load of 20 on two cores half of all deliveries took longer than a second.
            "LATCHKEY_WEBHOOK_TIMEOUT_MS": "5000",
            "LATCHKEY_SHUTDOWN_DELAY_SECONDS": "0",
        }
        consumer = {
            "LATCHKEY_CONSUMER_SERVICE_URL": api_url,
            "LATCHKEY_CONSUMER_SERVICE_CA": str(certs.authority),
            "LATCHKEY_CONSUMER_PROJECT_ID": PROJECT,
            "LATCHKEY_CONSUMER_API_KEY": reading.plaintext,
            "LATCHKEY_CONSUMER_WEBHOOK_SECRET": SECRET,
            "LATCHKEY_CONSUMER_SIGNING_SECRETS": webhook.secret,
            "LATCHKEY_CONSUMER_DATABASE_URL": consumer_url,
            "LATCHKEY_CONSUMER_TLS_CERT": str(certs.good[0]),
            "LATCHKEY_CONSUMER_TLS_KEY": str(certs.good[1]),
            # No sweep, which would hide differences: reconciliation runs once, at the end.
            "LATCHKEY_CONSUMER_SWEEP_SECONDS": "0",
        }
        processes = [
            Killable("api", folder, service, api_socket),
            Killable("delivery", folder, service, None),
            Killable("consumer", folder, consumer, consumer_socket),
        ]
        for process in processes:
            stack.callback(process.stop)
        await asyncio.gather(*(asyncio.to_thread(process.start) for process in processes))

        http = ClientBuilder().add_root_certificate_pem(certs.authority.read_bytes()).http1_only()
        http = http.timeout(timedelta(seconds=60)).default_headers(
            {"authorization": f"Bearer {writing.plaintext}", "content-type": "application/json"}
        )
        poster = await stack.enter_async_context(http.build())
        lives = Lives(poster, api_url, PROJECT, app_key.plaintext, seed=seed, together=together)
        killing = asyncio.create_task(_kill(processes, chances, seconds))
        await asyncio.gather(lives.go_on(seconds), killing)

        store = ConsumerStorage(consumer_url)
        stack.push_async_callback(store.close)
        client = await stack.enter_async_context(
            Client(api_url, writing.plaintext, project_id=PROJECT, ca_cert=certs.authority)
        )
        drained_in = await drained(database, lambda: proxy.travelling)
        await _jobs_done(store, job_patience)
        before = await compare(store, client, lives.ids)
        # A copy may differ only because of a lost event, an erasure or a pending job.
        excused = before.spread(proxy.bereft | lives.erased | await _waiting(store))
        unexplained = {id: wrong for id, wrong in before.wrong.items() if id not in excused}
        mended = await asyncio.to_thread(reconcile, folder, consumer)
        waiting = await _jobs_done(store, job_patience)
        after = await compare(store, client, lives.ids)
        asking = Consumer(Settings.from_env(consumer))
        try:
            wrong_answers = await answers(asking, client, lives.ids)
        finally:
            await asking.client.close()
            await asking._store.close()
        return Report(
            seed=seed,
            database="sqlite" if store.database.is_sqlite else "postgresql",
            lives=lives.count,
            acts=dict(lives.did),
            kills={process.role: process.kills for process in processes},
            network={str(fault): count for fault, count in proxy.did.items()},
            drained_in=drained_in,
            before=before,
            unexplained=unexplained,
            events_missed=len(mended["events_missed"]),
            users_differed=len(mended["differences"]),
            jobs_waiting=waiting,
            after=after,
            wrong_answers=wrong_answers,
            books=await _books(database, store),
        )


async def _kill(processes: list[Killable], chances: random.Random, seconds: float) -> None:
    ends = time.monotonic() + seconds
    while True:
        await asyncio.sleep(chances.uniform(0.1, 1.0))
        if time.monotonic() > ends:
            return
        await asyncio.to_thread(chances.choice(processes).kill)


async def _waiting(store: ConsumerStorage) -> set[str]:
    async with store.database.reading() as connection:
        return set((await connection.scalars(select(jobs.c.key))).all())


async def _jobs_done(store: ConsumerStorage, patience: float) -> int:
    """Wait until the consumer has no background job left, or the time is up; gives how many are left."""
    ends = time.monotonic() + patience
    while True:
        async with store.database.reading() as connection:
            left = await connection.scalar(select(func.count()).select_from(jobs)) or 0
        if not left or time.monotonic() > ends:
            return left
        await asyncio.sleep(0.05)


async def _books(database: Database, store: ConsumerStorage) -> Books:
    async with store.database.reading() as connection:
        processed = set((await connection.scalars(select(processed_events.c.event_id))).all())
        here = await connection.scalar(select(func.sum(currency_transactions.c.amount))) or 0
    bodies = [json.decode(row["body"]) for row in await database.pool.fetch("select body::text as body from events")]
    there = sum(
        body["amount"] * (-1 if body["transaction_type"] == "debit" and body["amount"] > 0 else 1)
        for body in bodies
        if body["type"] == "VIRTUAL_CURRENCY_TRANSACTION"
    )
    errors = await database.pool.fetch("select error, count(*) from attempts where error is not null group by error")
    committed = {body["id"] for body in bodies}
    return Books(
        events=len(committed),
        unprocessed=len(committed - processed),
        invented=len(processed - committed),
        errors={row["error"]: row["count"] for row in errors},
        balance_here=int(here),
        balance_there=there,
    )


async def run(folder: Path, seed: int, seconds: float, figures: Counter[str]) -> None:
    """With a copy in SQLite or in PostgreSQL, as the seed says."""
    server = EmbeddedServer(folder / "server")
    await asyncio.to_thread(server.start)
    try:
        async with connected(connect(server.url())) as connection:
            await migrate(connection)
            await connection.execute("create database consumer")
        consumer_url = server.url("consumer") if seed % 2 else f"sqlite:///{folder / 'consumer.db'}"
        report = await converge(folder, server.url(), consumer_url, seed=seed, seconds=seconds)
    finally:
        await asyncio.to_thread(server.stop)
    figures["lives"] = report.lives
    figures["kills"] = sum(report.kills.values())
    figures["committed"] = report.books.events
    figures["lost"] = report.books.unprocessed
    figures["doubled"] = report.books.invented
    figures["users"] = report.after.users
    figures["transfers"] = report.acts.get("transfer", 0) + report.acts.get("restore", 0)
    figures["merges"] = report.acts.get("log_in", 0)
    figures["webhooks lost on the way"] = report.network.get(Fault.LOSE, 0)
    assert report.good, pformat(report)
