"""Records the outcomes of attempts in batches, counts them, and adds the next steps to the agenda."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from math import inf

import structlog
from prometheus_client import REGISTRY, Counter, Gauge
from prometheus_client.core import HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from latchkey.database.errors import StatementRefusedError
from latchkey.database.pool import Database
from latchkey.domain.instants import Ms
from latchkey.domain.retry import Retry, after_failure
from latchkey.observability.histogram import SIZES, Tally
from latchkey.observability.storage import MOST_WEBHOOKS
from latchkey.subjects.webhooks.delivery import webhook_health
from latchkey.subjects.webhooks.delivery.queue.dispatcher import (
    Agenda,
    Capacity,
    Dispatcher,
    ReceivedReply,
    UnrecordedReplies,
)
from latchkey.subjects.webhooks.delivery.sending.reply import Reply
from latchkey.subjects.webhooks.delivery.webhook_health import retry_through_outages
from latchkey.subjects.webhooks.rules import Webhook
from latchkey.subjects.webhooks.storage import lanes
from latchkey.subjects.webhooks.storage.lanes import AttemptResult, DeliveryOutcome, Recorded

ATTEMPTS = Counter("latchkey_delivery_attempts", "Attempts to deliver, by outcome", ["webhook", "outcome"])
IN_FLIGHT = Gauge("latchkey_deliveries_in_flight", "Deliveries under way in this process")
LOST_LEASES = Counter("latchkey_delivery_leases_lost", "Outcomes that came too late to be recorded; they are repeated")
_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class _Histograms(Collector):
    """For each delivery and for each batch: see `Tally` for why they are not the library's own."""

    def __init__(self) -> None:
        self.sizes = {"claim": Tally(SIZES), "record": Tally(SIZES)}
        self.seconds: defaultdict[str, Tally] = defaultdict(lambda: Tally(_BOUNDS))

    def collect(self) -> Iterator[Metric]:
        batches = HistogramMetricFamily("latchkey_batch_size", "How many questions shared one query.", labels=("kind",))
        for kind, tally in self.sizes.items():
            if any(tally.counts):
                batches.add_metric((kind,), tally.buckets(), tally.sum)
        if batches.samples:
            yield batches
        seconds = HistogramMetricFamily(
            "latchkey_delivery_seconds", "From sending to the receiver's answer", labels=("webhook",)
        )
        # A copy: Prometheus asks in a thread of its own.
        for webhook_id, tally in list(self.seconds.items()):
            seconds.add_metric((webhook_id,), tally.buckets(), tally.sum)
        yield seconds


_histograms = _Histograms()
REGISTRY.register(_histograms)
claimed_batch = _histograms.sizes["claim"].add
recorded_batch = _histograms.sizes["record"].add


def _count(webhook_id: str, attempts: Sequence[AttemptResult]) -> None:
    """Count attempts to deliver to this webhook. After so many others since the start it has no series of its own."""
    if webhook_id not in _histograms.seconds and len(_histograms.seconds) >= MOST_WEBHOOKS:
        webhook_id = "other"
    delivered, failed = _of(webhook_id)
    seconds = _histograms.seconds[webhook_id]
    for attempt in attempts:
        seconds.add(attempt.took_ms / 1000)
    failures = sum(attempt.error is not None for attempt in attempts)
    if failures < len(attempts):
        delivered.inc(len(attempts) - failures)
    if failures:
        failed.inc(failures)


@lru_cache(maxsize=4096)
def _of(webhook_id: str) -> tuple[Counter, Counter]:
    """Looking them up by their labels for each batch would take longer than counting."""
    return ATTEMPTS.labels(webhook_id, "delivered"), ATTEMPTS.labels(webhook_id, "failed")


log = structlog.get_logger()

# While this many are being sent, wait a moment for more responses before recording: a statement for a hundred costs
# little more than one for ten, and frees capacity for a claim of the same size.
_BUSY = 100
_LINGER_SECONDS = 0.005
# Seconds between two batches, unless somebody waits for the outcome: at a steady rate several outcomes share a
# statement. A lone outcome waits for nothing.
APART = 0.05
# Until outcomes are recorded that a part of the database could not take.
_AGAIN_SECONDS = 1.0


@dataclass(slots=True)
class Recorder:
    database: Database
    agenda: Agenda
    capacity: Capacity
    webhook_of: Callable[[int], Webhook | None]
    dispatcher: Dispatcher
    inbox: UnrecordedReplies
    now: Callable[[], Ms]
    chance: Callable[[], float]
    # When the last batch was recorded, in the loop's time.
    _recorded_at: float = -inf
    # Outcomes that wait for their part of the database. Those of other projects do not wait for them.
    _later: set[asyncio.Task[None]] = field(default_factory=set)

    async def run(self) -> None:
        try:
            while True:
                await self._turn()
        finally:
            for task in self._later:
                task.cancel()

    async def _turn(self) -> None:
        await self.inbox.wait()
        await self._gather()
        if outcomes := self._outcomes(self.inbox.take()):
            await self._record(outcomes)
        self.inbox.recorded()
        self._recorded_at = asyncio.get_running_loop().time()
        IN_FLIGHT.set(len(self.dispatcher))

    async def _gather(self) -> None:
        """Wait for more responses, where that delays no other delivery."""
        if len(self.dispatcher) >= _BUSY:
            if len(self.inbox) < _BUSY:
                await asyncio.sleep(_LINGER_SECONDS)
            return
        pause = self._recorded_at + APART - asyncio.get_running_loop().time()
        if pause > 0 and not self.capacity.holds_back:
            await self.inbox.until_urgent(pause)

    def _outcomes(self, answers: Sequence[ReceivedReply]) -> list[DeliveryOutcome]:
        """What can be recorded now. A response without its body goes back to the dispatcher."""
        outcomes: list[DeliveryOutcome] = []
        for received_reply in answers:
            reply = received_reply.reply
            try:
                answer = reply.at_once() if isinstance(reply, Reply) else reply
            except Exception as error:
                # Nothing that a receiver sends may end the recorder, and so the process. `Reply.read` is next.
                log.error("reply not understood", event_id=received_reply.claim.event_id, exc_info=error)
                answer = None
            if answer is not None:
                outcomes.append(self._outcome(received_reply, answer))
            elif isinstance(reply, Reply):
                self.dispatcher.read_rest(received_reply.claim, received_reply.webhook, reply)
        return outcomes

    def _outcome(self, answered: ReceivedReply, answer: AttemptResult) -> DeliveryOutcome:
        claim, decision = answered.claim, None
        if not answer.delivered:
            decision = after_failure(
                answered.webhook.retry_seconds,
                tries=claim.tries + 1,
                first_at=claim.tried_at if claim.tried_at is not None else answer.at,
                now=answer.at + answer.took_ms,
                chance=self.chance(),
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
                for outcome in batch:
                    await self._record([outcome])
                return
            # Nothing that a receiver sends may stop deliveries to others. This one is repeated after its lease.
            log.error("attempt not recorded", event_id=batch[0].claim.event_id, exc_info=error)
        # Leases last longer than most outages. What is not recorded by then is sent again.
        later = [outcome for outcome in postponed if outcome.claim.lease_until > self.now()]
        if later:
            task = asyncio.create_task(self._record_later(later))
            self._later.add(task)
            task.add_done_callback(self._later.discard)
        self.agenda.add(self.capacity.end(outcome.claim.webhook_key for outcome in batch if outcome not in later))

    async def _record_once(self, batch: Sequence[DeliveryOutcome]) -> Sequence[DeliveryOutcome]:
        """Returns those that cannot be recorded now."""
        now = self.now()
        recorded, postponed = await lanes.record_attempts(self.database, batch, now)
        recorded_batch(len(batch) - len(postponed))
        self._count(recorded)
        if len(recorded) + len(postponed) < len(batch):
            LOST_LEASES.inc(len(batch) - len(recorded) - len(postponed))
        if not any(one.more or one.troubled or one.outcome.decision is not None for one in recorded):
            # As nearly always: all were delivered, nothing else waits, and their webhooks have no failures.
            return postponed
        self._schedule(recorded)
        changed = await webhook_health.note(self.database, recorded, now)
        for key, state in changed.items():
            if state.open_until is not None:
                self.agenda.add_later(key, state.open_until)
            elif state.paused_at is None:
                self.agenda.add([key])
        return postponed

    def _schedule(self, recorded: Sequence[Recorded]) -> None:
        """Adds lanes that can continue at once, and retries, to the agenda."""
        self.agenda.add({one.outcome.claim.webhook_key for one in recorded if one.more})
        for one in recorded:
            decision = one.outcome.decision
            if isinstance(decision, Retry):
                key = one.outcome.claim.webhook_key
                self.agenda.add_later(key, decision.others_at or decision.at)
                self.agenda.add_later(key, decision.at)

    def _count(self, recorded: Sequence[Recorded]) -> None:
        by_webhook: defaultdict[int, list[AttemptResult]] = defaultdict(list)
        for one in recorded:
            by_webhook[one.outcome.claim.webhook_key].append(one.outcome.attempt)
        for key, attempts in by_webhook.items():
            webhook = self.webhook_of(key)
            if webhook is not None:
                _count(webhook.id, attempts)
