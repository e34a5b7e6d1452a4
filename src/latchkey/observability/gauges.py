"""What the database says, as metrics. It is the same for all processes and machines: whoever is asked asks the
database, at most every few seconds."""

import asyncio
import time
from collections.abc import Callable, Mapping

import structlog
from prometheus_client.core import GaugeMetricFamily, Metric

from latchkey.database.errors import StorageError
from latchkey.database.pool import Database
from latchkey.database.transient_errors import PASSING
from latchkey.domain.instants import Ms
from latchkey.observability import storage as observability_storage

log = structlog.get_logger()

EVERY_SECONDS = 5.0
_PATIENCE_SECONDS = 4.0
# Rows that a measurement may count in all, and for one webhook.
_LANES, _LANES_EACH, _LANES_AT_LEAST = 100_000, 10_000, 100
STATES = ("active", "failing", "circuit_open", "paused", "disabled")


class QueueGauges:
    def __init__(self, database: Database, now: Callable[[], Ms]) -> None:
        self._database = database
        self._now = now
        self._asking = asyncio.Lock()
        self._asked: float | None = None
        self._known: list[Metric] = []
        # How many webhooks had something waiting, the last time.
        self._webhooks = 100

    async def families(self) -> list[Metric]:
        async with self._asking:
            if self._asked is None or time.monotonic() - self._asked >= EVERY_SECONDS:
                self._known = await self._ask()
                self._asked = time.monotonic()
            return self._known

    async def _ask(self) -> list[Metric]:
        began = time.monotonic()
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                each = min(_LANES_EACH, max(_LANES_AT_LEAST, _LANES // max(1, self._webhooks)))
                found = await observability_storage.measure(self._database, self._now(), each)
        except (*PASSING, StorageError) as error:
            log.warning("the database could not be measured", reason=str(error) or type(error).__name__)
            return [gauge("latchkey_database_up", "Whether the database answered this measurement.", 0)]
        self._webhooks = len(found.queues)
        return [
            gauge("latchkey_database_up", "Whether the database answered this measurement.", 1),
            gauge("latchkey_database_seconds", "How long this measurement took.", time.monotonic() - began),
            *families_of(found, self._now()),
        ]


def families_of(found: observability_storage.QueueDepths, now: Ms) -> list[Metric]:
    lists, journal = found.customer_lists, found.journal
    due = [queue.due_at for queue in found.queues if queue.due_at is not None]
    return [
        gauges(
            "latchkey_database_node_up",
            "Whether a node of a Citus cluster answers. The other metrics leave out what is on one that does not.",
            "node",
            found.nodes,
        ),
        gauge(
            "latchkey_lossy_failovers",
            "Failovers that may have lost commits, until the operator has run `latchkey admin after-restore`.",
            found.lossy_failovers,
        ),
        gauges("latchkey_webhooks", "Webhooks by state.", "state", dict.fromkeys(STATES, 0) | found.webhooks),
        gauges(
            "latchkey_webhook_failing_seconds",
            "For how long every attempt of a webhook has failed, or it is paused; only those.",
            "webhook",
            {id: _since(since, now) for id, since in found.failing.items()},
        ),
        gauges(
            "latchkey_deliveries_waiting",
            "Deliveries that wait to be sent, those of 10,000 customers at most.",
            "webhook",
            {queue.webhook_id: queue.waiting for queue in found.queues},
        ),
        gauges(
            "latchkey_oldest_delivery_seconds",
            "How long the oldest waiting delivery has waited.",
            "webhook",
            {queue.webhook_id: _since(queue.oldest_at, now) for queue in found.queues},
        ),
        gauge(
            "latchkey_delivery_lag_seconds",
            "How long the oldest delivery waits that could be sent now: not for a retry, a pause or a receiver.",
            _since(min(due, default=None), now),
        ),
        gauge(
            "latchkey_lanes_estimated",
            "About how many customers have waiting deliveries, as the last vacuum saw it.",
            found.lanes_estimate,
        ),
        gauge(
            "latchkey_clock_lag_seconds",
            "How late the clock role is with what falls due for customers.",
            _since(found.clock_due_at, now),
        ),
        gauges(
            "latchkey_store_notifications",
            "Notifications and receipts of stores in the journal, 10,000 of each status at most.",
            "status",
            {"waiting": journal.waiting, "failed": journal.failed},
        ),
        gauge(
            "latchkey_store_journal_lag_seconds",
            "How late the processing of store notifications is.",
            _since(journal.due_at, now),
        ),
        gauge("latchkey_customer_lists_behind", "Events that are not in the customer lists yet.", lists.behind),
        gauge(
            "latchkey_customer_lists_lag_seconds",
            "How long the first event that is not in the customer lists has waited.",
            _since(lists.oldest_at, now),
        ),
    ]


def gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)


def gauges(name: str, text: str, label: str, values: Mapping[str, float]) -> Metric:
    """One value for each value of the label."""
    family = GaugeMetricFamily(name, text, labels=(label,))
    for key, value in values.items():
        family.add_metric((key,), value)
    return family


def _since(then: Ms | None, now: Ms) -> float:
    return max(0, now - then) / 1000 if then is not None else 0.0
