"""The delivery worker: claims, sends and records, all three concurrently.

    Agenda ──▶ Claimer ──▶ Dispatcher ──▶ Inbox ──▶ Recorder ──▶ Agenda

NOTIFY, the clock and recorded outcomes put webhooks on the agenda; the database is queried only for these. A worker
keeps no state that must survive it: when its leases run out, another worker claims its deliveries.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

import structlog

from latchkey.delivery.outage import retry_through_outages
from latchkey.delivery.queue.agenda import Agenda
from latchkey.delivery.queue.capacity import Capacity
from latchkey.delivery.queue.claiming import Claimer
from latchkey.delivery.queue.dispatching import Dispatcher
from latchkey.delivery.queue.inbox import Inbox
from latchkey.delivery.queue.known_webhooks import KnownWebhooks
from latchkey.delivery.queue.recording import Recorder
from latchkey.delivery.sealing import Sealer
from latchkey.delivery.sending.sender import Sender
from latchkey.domain.instants import Ms
from latchkey.storage.database import Database
from latchkey.storage.deliveries import lanes
from latchkey.storage.errors import OutageError

log = structlog.get_logger()

# NOTIFY does not reach a worker that is not connected, and a worker that died may hold leases: poll for due deliveries
# as well.
SWEEP_SECONDS = 10.0
# After the drain: time to record the last responses and release what was not sent.
_RELEASE_SECONDS = 5.0


class Worker:
    def __init__(
        self,
        database: Database,
        sender: Sender,
        sealer: Sealer,
        *,
        now: Callable[[], Ms],
        chance: Callable[[], float],
        timeout_ms: int = 60_000,
        in_flight: int = 2_000,
    ) -> None:
        self._database = database
        self._now = now
        webhooks = KnownWebhooks(database, sealer)
        capacity = Capacity(in_flight, webhooks.limit)
        self._agenda = agenda = Agenda()
        self._inbox = inbox = Inbox()
        self._dispatcher = dispatcher = Dispatcher(sender, inbox, capacity, agenda)
        self._claimer = Claimer(
            database, agenda, capacity, webhooks, dispatcher, now=now, timeout_ms=timeout_ms, look=self.sweep
        )
        self._recorder = Recorder(database, agenda, capacity, webhooks, dispatcher, inbox, now=now, chance=chance)

    def woken(self, keys: Iterable[int]) -> None:
        """These webhooks have new deliveries."""
        self._agenda.add(keys)

    async def run(self, stop: asyncio.Event, drain_seconds: float) -> None:
        """Deliver until `stop` is set, then finish what is under way within `drain_seconds`."""
        recording = asyncio.create_task(self._recorder.run())
        claiming = asyncio.create_task(self._claimer.run())
        sweeping = asyncio.create_task(self._sweep())
        tasks = recording, claiming, sweeping
        try:
            stopping = asyncio.create_task(stop.wait())
            await asyncio.wait({stopping, *tasks}, return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
            sweeping.cancel()
            await self._drain(claiming, drain_seconds)
        finally:
            for task in tasks:
                task.cancel()
            self._dispatcher.cancel()
            for ended in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(ended, Exception):
                    raise ended

    async def sweep(self, keys: Sequence[int] | None = None) -> None:
        """Query once which webhooks, or which of these, have something to send, and when.

        What is due only after the next sweep is left to that one: most of it are leases of deliveries under way, which
        will have ended by then.
        """
        now = self._now()
        for key, at in (await lanes.due(self._database, keys)).items():
            if at <= now:
                self._agenda.add([key])
            elif at <= now + 2 * SWEEP_SECONDS * 1000:
                self._agenda.add_later(key, at)

    async def until_recorded(self) -> None:
        """Wait until every answer that has come is recorded, and the webhook's health with it."""
        await self._inbox.until_recorded()

    async def _sweep(self) -> None:
        while True:
            await retry_through_outages(self.sweep)
            await asyncio.sleep(SWEEP_SECONDS)

    async def _drain(self, claiming: asyncio.Task[None], seconds: float) -> None:
        """Finish what is under way. Release the rest, so that another worker need not wait for the lease."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                self._claimer.stop()
                await asyncio.wait({claiming})
                # In a loop: the recorder may return a response to the dispatcher, to wait for its body.
                while len(self._dispatcher) or not self._inbox.all_recorded:
                    await self._dispatcher.wait()
                    await self._inbox.until_recorded()
        claiming.cancel()
        unfinished = self._dispatcher.cancel()
        try:
            async with asyncio.timeout(_RELEASE_SECONDS):
                await self._inbox.until_recorded()
                await lanes.release(self._database, unfinished)
        except (OutageError, TimeoutError):
            log.warning("outcomes not recorded, deliveries will repeat", count=len(self._inbox))
