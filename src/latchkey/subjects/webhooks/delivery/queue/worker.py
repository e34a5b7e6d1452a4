"""The LISTEN connection: learns of new deliveries when their transaction commits."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from typing import Any

import structlog

from latchkey.database.errors import OutageError
from latchkey.database.pool import Database
from latchkey.database.sealing import Sealer
from latchkey.domain.instants import Ms
from latchkey.subjects.webhooks.delivery.queue.agenda import Agenda, Capacity
from latchkey.subjects.webhooks.delivery.queue.claims import Claimer, KnownWebhooks
from latchkey.subjects.webhooks.delivery.queue.dispatcher import Dispatcher, UnrecordedReplies
from latchkey.subjects.webhooks.delivery.queue.results import Recorder
from latchkey.subjects.webhooks.delivery.sending.sender import Sender
from latchkey.subjects.webhooks.delivery.webhook_health import retry_through_outages
from latchkey.subjects.webhooks.storage import lanes

_RECONNECT_SECONDS = 0.2


async def listen(
    database: Database, woken: Callable[[Iterable[int]], None], look_around: Callable[[], Coroutine[Any, Any, None]]
) -> None:
    """Listen until cancelled. `woken` gets the keys of webhooks with new deliveries.

    `look_around` is called after every new connection, because notifications sent meanwhile are lost, and when a
    notification names no webhook because there are too many.
    """
    looking: set[asyncio.Task[None]] = set()

    def heard(keys: list[int]) -> None:
        if keys:
            woken(keys)
        else:
            looking.add(task := asyncio.create_task(look_around()))
            task.add_done_callback(looking.discard)

    while True:
        try:
            async with lanes.listening(database, heard) as lost:
                await look_around()
                await lost.wait()
        except OutageError:
            await asyncio.sleep(_RECONNECT_SECONDS)


# The delivery worker: claims, sends and records, all three concurrently.


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
        self._inbox = inbox = UnrecordedReplies()
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
