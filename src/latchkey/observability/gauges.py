"""What the database says, as metrics. It is the same for all processes and machines: whoever is asked asks the
database, at most every few seconds."""

import asyncio
import time
import tomllib
from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import Any

import structlog
from prometheus_client import core
from prometheus_client.core import Metric

from latchkey.database.errors import StorageError
from latchkey.database.pool import Database
from latchkey.database.transient_errors import PASSING
from latchkey.domain.instants import Ms
from latchkey.observability import storage as observability_storage
from latchkey.observability.histogram import Tally

log = structlog.get_logger()

EVERY_SECONDS = 5.0
_PATIENCE_SECONDS = 4.0
# Rows that a measurement may count in all, and for one webhook.
_LANES, _LANES_EACH, _LANES_AT_LEAST = 100_000, 10_000, 100
_METRICS = tomllib.loads((files(__package__) / "metrics.toml").read_text(encoding="utf-8"))
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
            return metrics_of({"latchkey_database_up": 0})
        self._webhooks = len(found.queues)
        own = {"latchkey_database_up": 1, "latchkey_database_seconds": time.monotonic() - began}
        return [*metrics_of(own), *families_of(found, self._now())]


def families_of(found: observability_storage.QueueDepths, now: Ms) -> list[Metric]:
    lists, journal = found.customer_lists, found.journal
    due = [queue.due_at for queue in found.queues if queue.due_at is not None]
    return metrics_of(
        {
            "latchkey_database_node_up": found.nodes,
            "latchkey_lossy_failovers": found.lossy_failovers,
            "latchkey_webhooks": dict.fromkeys(STATES, 0) | found.webhooks,
            "latchkey_webhook_failing_seconds": {id: _since(since, now) for id, since in found.failing.items()},
            "latchkey_deliveries_waiting": {queue.webhook_id: queue.waiting for queue in found.queues},
            "latchkey_oldest_delivery_seconds": {
                queue.webhook_id: _since(queue.oldest_at, now) for queue in found.queues
            },
            "latchkey_delivery_lag_seconds": _since(min(due, default=None), now),
            "latchkey_lanes_estimated": found.lanes_estimate,
            "latchkey_clock_lag_seconds": _since(found.clock_due_at, now),
            "latchkey_store_notifications": {"waiting": journal.waiting, "failed": journal.failed},
            "latchkey_store_journal_lag_seconds": _since(journal.due_at, now),
            "latchkey_customer_lists_behind": lists.behind,
            "latchkey_customer_lists_lag_seconds": _since(lists.oldest_at, now),
        }
    )


def metrics_of(values: Mapping[str, Any]) -> list[Metric]:
    """Those of `metrics.toml`, by their names: a number or a `Tally`, or several by their labels."""
    found: list[Metric] = []
    for name, value in values.items():
        kind, text, *labels = _METRICS[name]
        family = getattr(core, f"{kind.title()}MetricFamily")(name, text, labels=labels)
        for key, one in value.items() if labels else [((), value)]:
            numbers = (one.buckets(), one.sum) if isinstance(one, Tally) else (one,)
            family.add_metric((key,) if isinstance(key, str) else key, *numbers)
        found.append(family)
    return found


def _since(then: Ms | None, now: Ms) -> float:
    return max(0, now - then) / 1000 if then is not None else 0.0
