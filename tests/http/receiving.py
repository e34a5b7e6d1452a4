"""A shop with a receiver of its own: real TLS on loopback, the real delivery worker, and time that stands."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_network
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp

from latchkey.database.pool import Database
from latchkey.database.sealing import Sealer
from latchkey.engine.changes import Changes
from latchkey.http.services import Services
from latchkey.process.http_application import create_application
from latchkey.process.local_ca.authority import ensure_certificates
from latchkey.settings import Settings
from latchkey.subjects.demo.usecases.project import Demo, ensure_demo
from latchkey.subjects.webhooks.delivery.queue.worker import Worker
from latchkey.subjects.webhooks.delivery.queue.worker import listen as listen_for_deliveries
from latchkey.subjects.webhooks.delivery.sending.mailbox import mailbox_of
from latchkey.subjects.webhooks.delivery.sending.sender import Sender
from latchkey.subjects.webhooks.receiver import ReceivedWebhook, Receiver, listening, tls
from tests.http.client import Client, Clock, Reply, Shop, running
from tests.patience import PATIENCE

HOOKS = "integrations/webhooks"
MakePages = Callable[[Settings], Callable[[Services], ASGIApp]]
SECRET_KEY = bytes(range(32))


@dataclass
class Post(Shop):
    """A shop that delivers."""

    address: str = ""
    settings: Settings = field(default_factory=Settings)
    arrivals: list[ReceivedWebhook] = field(default_factory=list)
    receiver: Receiver | None = None
    worker: Worker | None = None

    async def hook(self, behaviour: str = "/", **fields: Any) -> dict[str, Any]:
        """A new webhook to the receiver, as the reply shows it."""
        new = {"name": "Mine", "url": self.address + behaviour, **fields}
        reply = await self.client.post(f"/v2/projects/{self.project_id}/{HOOKS}", new)
        assert reply.status == 201, reply
        made: dict[str, Any] = reply.json()
        return made

    async def call(self, method: str, path: str, value: Any = None) -> Reply:
        below = path if not path or path.startswith("?") else f"/{path}"
        path = f"/v2/projects/{self.project_id}/{HOOKS}{below}"
        if method == "GET":
            return await self.client.get(path)
        return await self.client.post(path, value)

    async def shown(self, path: str) -> Any:
        reply = await self.call("GET", path)
        assert reply.status == 200, reply
        return reply.json()

    async def settled(self, id: str, status: str, count: int = 1, attempts: int = 0) -> list[dict[str, Any]]:
        """The webhook's deliveries of this status, as soon as there are this many that were tried so often."""
        async with asyncio.timeout(PATIENCE):
            while True:
                items: list[dict[str, Any]] = (await self.shown(f"{id}/deliveries?status={status}"))["items"]
                if len(items) >= count and all(item["attempts_count"] >= attempts for item in items):
                    # The webhook's health is recorded after its deliveries.
                    if self.worker is not None:
                        await self.worker.until_recorded()
                    return items
                await asyncio.sleep(0.01)

    async def later(self, ms: int) -> None:
        """Time passes, and the worker looks at the clock."""
        self.clock.now += ms
        assert self.worker is not None
        await self.worker.sweep()


@asynccontextmanager
async def posting(
    database: Database, folder: Path, pages: MakePages | None = None, demo: Demo | None = None, **own: Any
) -> AsyncIterator[Post]:
    """Without a worker: nothing but test events is sent. The folder keeps the certificates; the database has the demo
    already if its keys are given. `own`: settings of its own."""
    clock = Clock()
    demo = demo or await ensure_demo(database, clock.now, secret_key=None, public_key=None)
    certificates = ensure_certificates(folder / "receiver-tls", [], time.time_ns() // 1_000_000)
    arrivals: list[ReceivedWebhook] = []
    receiver = Receiver(lambda arrival, _: arrivals.append(arrival))
    async with listening(receiver, tls(certificates.cert, certificates.key)) as port:
        settings = Settings(
            database_url=database.url,
            secret_key=SECRET_KEY,
            webhook_allow_networks=(ip_network("127.0.0.0/8"),),
            webhook_extra_ca=certificates.authority,
            store_allow_hosts=("127.0.0.1",),
            export_folder=folder / "exports",
            tls_cert=certificates.cert,
            tls_key=certificates.key,
            **own,
        )
        app = create_application(database, settings, clock, pages(settings) if pages else None)
        async with running(app):
            yield Post(
                database,
                Client(app, demo.secret_key),
                clock,
                Changes(database, clock),
                demo.secret_key,
                demo.public_key,
                address=f"https://127.0.0.1:{port}",
                settings=settings,
                arrivals=arrivals,
                receiver=receiver,
            )


@asynccontextmanager
async def delivering(post: Post) -> AsyncIterator[Worker]:
    """While the delivery role runs."""
    settings = post.settings
    sender = Sender(
        post.clock,
        timeout_ms=settings.webhook_timeout_ms,
        allowed=settings.webhook_allow_networks,
        extra_ca=settings.webhook_extra_ca,
        public_url=settings.public_url,
        mailbox=mailbox_of(post.database, settings),
    )
    worker = post.worker = Worker(
        post.database,
        sender,
        Sealer(SECRET_KEY),
        now=post.clock,
        chance=lambda: 0.5,
        timeout_ms=settings.webhook_timeout_ms,
    )
    stop = asyncio.Event()
    tasks = [
        asyncio.create_task(worker.run(stop, 1.0)),
        asyncio.create_task(listen_for_deliveries(post.database, worker.woken, worker.sweep)),
    ]
    try:
        yield worker
    finally:
        stop.set()
        await tasks[0]
        tasks[1].cancel()
        await asyncio.gather(tasks[1], return_exceptions=True)
        await sender.close()
        post.worker = None
