"""Records the outcomes of attempts in batches, and adds the next steps to the agenda."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from math import inf

import structlog

from latchkey.database.errors import StatementRefusedError
from latchkey.database.pool import Database
from latchkey.domain.instants import Ms
from latchkey.domain.retry import Retry, after_failure
from latchkey.subjects.webhooks.delivery import metrics, webhook_health
from latchkey.subjects.webhooks.delivery.queue.agenda import Agenda, Capacity
from latchkey.subjects.webhooks.delivery.queue.claims import KnownWebhooks
from latchkey.subjects.webhooks.delivery.queue.dispatcher import Dispatcher, ReceivedReply, UnrecordedReplies
from latchkey.subjects.webhooks.delivery.sending.reply import AttemptResult, Reply
from latchkey.subjects.webhooks.delivery.webhook_health import retry_through_outages
from latchkey.subjects.webhooks.storage import lanes
from latchkey.subjects.webhooks.storage.lanes import DeliveryOutcome, LoggedAttempt, Recorded

log = structlog.get_logger()

# While this many are being sent, wait a moment for more responses before recording: a statement for a hundred costs
# little more than one for ten, and frees capacity for a claim of the same size.
_BUSY = 100
_LINGER_SECONDS = 0.005
# Seconds between two batches, unless somebody waits for the outcome: at a steady rate several outcomes share a
# statement. A lone outcome waits for nothing.
APART = 0.025
# Until outcomes are recorded that a part of the database could not take.
_AGAIN_SECONDS = 1.0


class Recorder:
    def __init__(
        self,
        database: Database,
        agenda: Agenda,
        capacity: Capacity,
        webhooks: KnownWebhooks,
        dispatcher: Dispatcher,
        inbox: UnrecordedReplies,
        *,
        now: Callable[[], Ms],
        chance: Callable[[], float],
    ) -> None:
        self._database = database
        self._agenda = agenda
        self._capacity = capacity
        self._webhooks = webhooks
        self._dispatcher = dispatcher
        self._inbox = inbox
        self._now = now
        self._chance = chance
        # When the last batch was recorded, in the loop's time.
        self._recorded_at = -inf
        # Outcomes that wait for their part of the database. Those of other projects do not wait for them.
        self._later: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        try:
            while True:
                await self._turn()
        finally:
            for task in self._later:
                task.cancel()

    async def _turn(self) -> None:
        await self._inbox.wait()
        await self._gather()
        if outcomes := self._outcomes(self._inbox.take()):
            await self._record(outcomes)
        self._inbox.recorded()
        self._recorded_at = asyncio.get_running_loop().time()
        metrics.IN_FLIGHT.set(len(self._dispatcher))

    async def _gather(self) -> None:
        """Wait for more responses, where that delays no other delivery."""
        if len(self._dispatcher) >= _BUSY:
            if len(self._inbox) < _BUSY:
                await asyncio.sleep(_LINGER_SECONDS)
            return
        pause = self._recorded_at + APART - asyncio.get_running_loop().time()
        if pause > 0 and not self._capacity.holds_back:
            await self._inbox.until_urgent(pause)

    def _outcomes(self, answers: Sequence[ReceivedReply]) -> list[DeliveryOutcome]:
        """What can be recorded now. A response without its body goes back to the dispatcher."""
        outcomes: list[DeliveryOutcome] = []
        for one in answers:
            reply = one.reply
            answer = reply.at_once() if isinstance(reply, Reply) else reply
            if answer is not None:
                outcomes.append(self._outcome(one, answer))
            elif isinstance(reply, Reply):
                self._dispatcher.read_rest(one.claim, one.webhook, reply)
        return outcomes

    def _outcome(self, answered: ReceivedReply, answer: AttemptResult) -> DeliveryOutcome:
        claim, decision = answered.claim, None
        if not answer.delivered:
            decision = after_failure(
                answered.webhook.setup.retry_seconds,
                tries=claim.tries + 1,
                first_at=claim.tried_at if claim.tried_at is not None else answer.at,
                now=answer.at + answer.took_ms,
                chance=self._chance(),
                retry_after_ms=answer.retry_after_ms,
            )
        return DeliveryOutcome(claim, answer, decision)

    async def _record_later(self, batch: Sequence[DeliveryOutcome]) -> None:
        await asyncio.sleep(_AGAIN_SECONDS)
        await self._record(batch)

    async def _record(self, batch: Sequence[DeliveryOutcome]) -> None:
        postponed: Sequence[DeliveryOutcome] = ()
        try:
            postponed = await retry_through_outages(partial(self._record_once, batch))
        except StatementRefusedError as error:
            if len(batch) > 1:
                for one in batch:
                    await self._record([one])
                return
            # Nothing that a receiver sends may stop deliveries to others. This one is repeated after its lease.
            log.error("attempt not recorded", event_id=batch[0].claim.event_id, exc_info=error)
        # Leases last longer than most outages. What is not recorded by then is sent again.
        later = [one for one in postponed if one.claim.lease_until > self._now()]
        if later:
            task = asyncio.create_task(self._record_later(later))
            self._later.add(task)
            task.add_done_callback(self._later.discard)
        self._agenda.add(self._capacity.end(one.claim.webhook_key for one in batch if one not in later))

    async def _record_once(self, batch: Sequence[DeliveryOutcome]) -> Sequence[DeliveryOutcome]:
        """Returns those that cannot be recorded now."""
        now = self._now()
        recorded, postponed = await lanes.record_attempts(self._database, batch, now)
        metrics.recorded(len(batch) - len(postponed))
        self._count(recorded)
        if len(recorded) + len(postponed) < len(batch):
            metrics.LOST_LEASES.inc(len(batch) - len(recorded) - len(postponed))
        if not any(one.more or one.troubled or one.outcome.decision is not None for one in recorded):
            # As nearly always: all were delivered, nothing else waits, and their webhooks have no failures.
            return postponed
        self._schedule(recorded)
        changed = await webhook_health.note(self._database, recorded, now)
        for key, state in changed.items():
            if state.open_until is not None:
                self._agenda.add_later(key, state.open_until)
            elif state.paused_at is None:
                self._agenda.add([key])
        return postponed

    def _schedule(self, recorded: Sequence[Recorded]) -> None:
        """Adds lanes that can continue at once, and retries, to the agenda."""
        self._agenda.add({one.outcome.claim.webhook_key for one in recorded if one.more})
        for one in recorded:
            decision = one.outcome.decision
            if isinstance(decision, Retry):
                key = one.outcome.claim.webhook_key
                self._agenda.add_later(key, decision.others_at or decision.at)
                self._agenda.add_later(key, decision.at)

    def _count(self, recorded: Sequence[Recorded]) -> None:
        by_webhook: defaultdict[int, list[LoggedAttempt]] = defaultdict(list)
        for one in recorded:
            by_webhook[one.outcome.claim.webhook_key].append(one.outcome.attempt)
        for key, attempts in by_webhook.items():
            webhook = self._webhooks.get(key)
            if webhook is not None:
                metrics.count(webhook.id, attempts)
