"""The delivery worker: learns of deliveries, claims, sends and records, all concurrently."""

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import structlog

from latchkey.database.errors import OutageError
from latchkey.database.pool import Database
from latchkey.database.sealing import Sealer
from latchkey.domain.instants import Ms
from latchkey.engine.storage.writes import DeliveryLease, Written
from latchkey.subjects.webhooks.delivery.queue.dispatcher import (
    Agenda,
    Capacity,
    Dispatcher,
    UnrecordedReplies,
    claimed_in,
)
from latchkey.subjects.webhooks.delivery.queue.results import Recorder, claimed_batch
from latchkey.subjects.webhooks.delivery.sending.sender import Sender
from latchkey.subjects.webhooks.delivery.webhook_health import retry_through_outages
from latchkey.subjects.webhooks.rules import IN_FLIGHT, Webhook, lease_ms, may_begin
from latchkey.subjects.webhooks.storage import lanes, webhook_rows
from latchkey.subjects.webhooks.storage.lanes import Claim

log = structlog.get_logger()

# Seconds between two claims, if the first has taken everything. What is queued meanwhile is claimed together, and a
# NOTIFY about what the first has already taken does not cause a claim of its own. A lone delivery waits for nothing.
APART = 0.005
# NOTIFY does not reach a worker that is not connected, and a worker that died may hold leases: poll for due deliveries
# as well.
SWEEP_SECONDS = 10.0
# After the drain: time to record the last responses and release what was not sent.
_RELEASE_SECONDS = 5.0
_RECONNECT_SECONDS = 0.2


class KnownWebhooks:
    """A cache of webhook settings, so that a delivery need not read and decrypt them."""

    def __init__(self, database: Database, sealer: Sealer) -> None:
        self._database = database
        self._sealer = sealer
        self._known: dict[int, Webhook] = {}

    def get(self, key: int) -> Webhook | None:
        return self._known.get(key)

    def limit(self, key: int) -> int:
        known = self._known.get(key)
        return known.in_flight_limit if known is not None else IN_FLIGHT

    async def refresh(self, versions: Mapping[int, int]) -> None:
        """Load the webhooks that are not cached in this version."""
        old = [
            key for key, version in versions.items() if (one := self._known.get(key)) is None or one.version != version
        ]
        if not old:
            return
        loaded = await webhook_rows.usable(self._database, self._sealer, old)
        for key in old:
            self._known.pop(key, None)
        self._known |= {webhook.key: webhook for webhook in loaded}


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


class Worker:
    """Also the deliverer of changes that this process commits; see `Changes`."""

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
        number: int = 0,
        ended: Sequence[int] = (),
    ) -> None:
        """`number`: of this process; `ended`: those of processes that are known to have ended, so that nobody works on
        what they had claimed."""
        self._number = number or secrets.randbits(31)
        self._ended = ended
        self._database = database
        self.sender = sender
        self._now = now
        self._timeout_ms = timeout_ms
        self._webhooks = webhooks = KnownWebhooks(database, sealer)
        self._capacity = capacity = Capacity(in_flight, webhooks.limit)
        self._agenda = agenda = Agenda()
        self._inbox = inbox = UnrecordedReplies()
        self._dispatcher = dispatcher = Dispatcher(sender, inbox, capacity)
        # No more claims. A worker that does not run yet takes none either.
        self._stopping = True
        # Deliveries of changes of this process that are about to be sent.
        self._own: set[asyncio.Task[None]] = set()
        # Some webhook has used up its budget, so more may be waiting.
        self._more = False
        self._recorder = Recorder(database, agenda, capacity, webhooks.get, dispatcher, inbox, now=now, chance=chance)

    def woken(self, keys: Iterable[int]) -> None:
        """These webhooks have new deliveries."""
        self._agenda.add(keys)

    def lease(self) -> DeliveryLease | None:
        """What a change of this process takes its deliveries with. None: this worker is stopping."""
        if self._stopping:
            return None
        return DeliveryLease(self._now() + lease_ms(self._timeout_ms), lanes.new_token(self._number))

    def committed(self, project_id: str, lease: DeliveryLease, written: Written) -> None:
        """A change of this process has been written with this lease: send its deliveries."""
        self._agenda.add(written.woken or ())
        if claims := lanes.leased(project_id, lease, written):
            # After the reply to the request, which waits in the event loop already.
            asyncio.get_running_loop().call_soon(self._begin_own, claims)

    def _begin_own(self, claims: Sequence[Claim]) -> None:
        work = self._release(claims) if self._stopping else self._begin(claims, time.time_ns())
        self._own.add(task := asyncio.create_task(work))
        task.add_done_callback(self._own.discard)

    async def run(self, stop: asyncio.Event, drain_seconds: float) -> None:
        """Deliver until `stop` is set, then finish what is under way within `drain_seconds`."""
        self._stopping = False
        recording = asyncio.create_task(self._recorder.run())
        claiming = asyncio.create_task(self._claim_all())
        sweeping = asyncio.create_task(self._sweep())
        tasks = recording, claiming, sweeping
        try:
            stopping = asyncio.create_task(stop.wait())
            await asyncio.wait({stopping, *tasks}, return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
            sweeping.cancel()
            await self._drain(claiming, drain_seconds)
        finally:
            for task in (*tasks, *self._own):
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

    async def _claim_all(self) -> None:
        while not self._stopping:
            budgets = self._capacity.budgets(self._agenda.turn(self._now()))
            if budgets:
                await retry_through_outages(partial(self._claim, budgets))
                if fell_due := self._agenda.fell_due():
                    await retry_through_outages(partial(self.sweep, fell_due))
                if not self._more:
                    await asyncio.sleep(APART)
            else:
                await self._agenda.wait(self._now)

    async def _claim(self, budgets: Mapping[int, int]) -> None:
        now, began_ns = self._now(), time.time_ns()
        lease_until = now + lease_ms(self._timeout_ms)
        claims = await lanes.claim_lane(self._database, budgets, now, lease_until, self._number)
        if claims:
            claimed_batch(len(claims))
        again = self._capacity.claimed(budgets, Counter(claim.webhook_key for claim in claims))
        self._more = bool(again)
        self._agenda.add(again)
        await self._begin(claims, began_ns)

    async def _begin(self, claims: Sequence[Claim], began_ns: int) -> None:
        """Send what is claimed."""
        versions = {claim.webhook_key: claim.webhook_version for claim in claims}
        # Retried until it succeeds: no other worker can send what is claimed until the lease runs out.
        await retry_through_outages(partial(self._webhooks.refresh, versions))
        spans = await claimed_in(self._database, claims, began_ns)
        now = self._now()
        for claim in claims:
            webhook = self._webhooks.get(claim.webhook_key)
            if webhook is not None and may_begin(claim.lease_until, self._timeout_ms, now):
                self._dispatcher.send(claim, webhook, now, spans.get((claim.project_id, claim.event_id)))

    async def _release(self, claims: Sequence[Claim]) -> None:
        # If it fails, the leases run out.
        with suppress(OutageError):
            await lanes.release(self._database, claims)

    async def _sweep(self) -> None:
        if self._ended:
            await retry_through_outages(partial(lanes.release_ended, self._database, self._ended))
        while True:
            await retry_through_outages(self.sweep)
            await asyncio.sleep(SWEEP_SECONDS)

    async def _drain(self, claiming: asyncio.Task[None], seconds: float) -> None:
        """Finish what is under way. Release the rest, so that another worker need not wait for the lease."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                # After the current claim: a cancelled one could leave leases that nobody knows of.
                self._stopping = True
                self._agenda.wake()
                await asyncio.wait({claiming, *self._own})
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
