"""A cache of webhook settings, so that a delivery need not read and decrypt them."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

import structlog

from latchkey import spans as observability_spans
from latchkey.database.pool import Database
from latchkey.database.sealing import Sealer, UnsealableError
from latchkey.domain.instants import Ms
from latchkey.subjects.webhooks.delivery import metrics
from latchkey.subjects.webhooks.delivery.queue.agenda import Agenda, Capacity
from latchkey.subjects.webhooks.delivery.queue.dispatcher import Dispatcher, claimed_in
from latchkey.subjects.webhooks.delivery.webhook import IN_FLIGHT, Webhook, unsealed
from latchkey.subjects.webhooks.delivery.webhook_health import retry_through_outages
from latchkey.subjects.webhooks.rules import lease_ms, may_begin
from latchkey.subjects.webhooks.storage import lanes, webhook_rows

log = structlog.get_logger()


class KnownWebhooks:
    def __init__(self, database: Database, sealer: Sealer) -> None:
        self._database = database
        self._sealer = sealer
        self._known: dict[int, Webhook] = {}

    def get(self, key: int) -> Webhook | None:
        return self._known.get(key)

    def limit(self, key: int) -> int:
        known = self._known.get(key)
        return known.setup.in_flight_limit if known is not None else IN_FLIGHT

    async def refresh(self, versions: Mapping[int, int]) -> None:
        """Load the webhooks that are not cached in this version."""
        old = [
            key for key, version in versions.items() if (one := self._known.get(key)) is None or one.version != version
        ]
        if not old:
            return
        for sealed in await webhook_rows.by_keys(self._database, old):
            try:
                self._known[sealed.key] = unsealed(sealed, self._sealer)
            except UnsealableError as error:
                self._known.pop(sealed.key, None)
                log.error("webhook not usable", webhook=sealed.id, reason=str(error))


# Claims due deliveries and passes them to the dispatcher, while it sends others.


# Seconds between two claims, if the first has taken everything. What is queued meanwhile is claimed together, and a
# NOTIFY about what the first has already taken does not cause a claim of its own. A lone delivery waits for nothing.
APART = 0.005


class Claimer:
    def __init__(
        self,
        database: Database,
        agenda: Agenda,
        capacity: Capacity,
        webhooks: KnownWebhooks,
        dispatcher: Dispatcher,
        *,
        now: Callable[[], Ms],
        timeout_ms: int,
        look: Callable[[Sequence[int]], Awaitable[None]],
    ) -> None:
        """`look`: query when these webhooks have something to send next."""
        self._database = database
        self._agenda = agenda
        self._capacity = capacity
        self._webhooks = webhooks
        self._dispatcher = dispatcher
        self._now = now
        self._timeout_ms = timeout_ms
        self._look = look
        self._stopping = False
        # Some webhook has used up its budget, so more may be waiting.
        self._more = False

    def stop(self) -> None:
        """End `run` after the current claim. A cancelled claim could leave leases that nobody knows of."""
        self._stopping = True
        self._agenda.wake()

    async def run(self) -> None:
        while not self._stopping:
            budgets = self._capacity.budgets(self._agenda.turn(self._now()))
            if budgets:
                await retry_through_outages(partial(self._claim, budgets))
                if fell_due := self._agenda.fell_due():
                    await retry_through_outages(partial(self._look, fell_due))
                if not self._more:
                    await asyncio.sleep(APART)
            else:
                await self._agenda.wait(self._now)

    async def _claim(self, budgets: Mapping[int, int]) -> None:
        now, began_ns = self._now(), time.time_ns()
        claims = await lanes.claim_lane(self._database, budgets, now, now + lease_ms(self._timeout_ms))
        if claims:
            metrics.claimed(len(claims))
        versions = {one.webhook_key: one.webhook_version for one in claims}
        # Retried until it succeeds: no other worker can send what is claimed until the lease runs out.
        await retry_through_outages(partial(self._webhooks.refresh, versions))
        again = self._capacity.claimed(budgets, Counter(one.webhook_key for one in claims))
        self._more = bool(again)
        self._agenda.add(again)
        spans = await claimed_in(self._database, claims, began_ns) if observability_spans.tracer is not None else None
        now = self._now()
        for one in claims:
            webhook = self._webhooks.get(one.webhook_key)
            if webhook is not None and may_begin(one.lease_until, self._timeout_ms, now):
                self._dispatcher.send(one, webhook, now, spans.get((one.project_id, one.event_id)) if spans else None)
