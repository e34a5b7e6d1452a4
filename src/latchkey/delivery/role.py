"""The delivery role as a process runs it: a worker, its ear at the database, and the slower chores beside it."""

from __future__ import annotations

import asyncio
import random
import time

from latchkey.delivery.listening import listen
from latchkey.delivery.outage import outlive
from latchkey.delivery.sealing import Sealer
from latchkey.delivery.sender import Sender
from latchkey.delivery.worker import Worker
from latchkey.domain.instants import Ms
from latchkey.settings import Settings
from latchkey.storage.database import Database


def real_now() -> Ms:
    return time.time_ns() // 1_000_000


async def run_delivery(db: Database, settings: Settings, stop: asyncio.Event) -> None:
    """Deliver until `stop` is set, then finish what is under way."""
    sender = Sender(
        real_now,
        timeout_ms=settings.webhook_timeout_ms,
        allowed=settings.webhook_allow_networks,
        extra_ca=settings.webhook_extra_ca,
    )
    worker = Worker(
        db,
        sender,
        Sealer(settings.secret_key),
        now=real_now,
        chance=random.random,
        timeout_ms=settings.webhook_timeout_ms,
        in_flight=settings.webhook_in_flight,
    )
    listening = asyncio.create_task(listen(db, worker.woken, lambda: outlive(worker.sweep)))
    try:
        await worker.run(stop, settings.drain_seconds)
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
        await sender.close()
