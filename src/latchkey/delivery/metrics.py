"""What the delivery role measures, for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from prometheus_client import REGISTRY, Counter, Gauge, Histogram
from prometheus_client.core import HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from latchkey.storage.deliveries.recording import Attempt
from latchkey.watching.tally import SIZES, Tally

ATTEMPTS = Counter("latchkey_delivery_attempts", "Attempts to deliver, by outcome", ["webhook", "outcome"])
IN_FLIGHT = Gauge("latchkey_deliveries_in_flight", "Deliveries under way in this process")
SECONDS = Histogram(
    "latchkey_delivery_seconds",
    "From sending to the receiver's answer",
    ["webhook"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0),
)
LOST_LEASES = Counter("latchkey_delivery_leases_lost", "Outcomes that came too late to be recorded; they are repeated")


class _Batches(Collector):
    def __init__(self) -> None:
        self.sizes = {"claim": Tally(SIZES), "record": Tally(SIZES)}

    def collect(self) -> Iterator[Metric]:
        batches = HistogramMetricFamily("latchkey_batch_size", "How many questions shared one query.", labels=("kind",))
        for kind, tally in self.sizes.items():
            if any(tally.counts):
                batches.add_metric((kind,), tally.buckets(), tally.sum)
        if batches.samples:
            yield batches


_batches = _Batches()
REGISTRY.register(_batches)
claimed = _batches.sizes["claim"].add
recorded = _batches.sizes["record"].add


def count(webhook_id: str, attempts: Sequence[Attempt]) -> None:
    """Count attempts to deliver to this webhook."""
    delivered, failed, seconds = _of(webhook_id)
    failures = 0
    for one in attempts:
        seconds.observe(one.took_ms / 1000)
        if one.error is not None:
            failures += 1
    if failures < len(attempts):
        delivered.inc(len(attempts) - failures)
    if failures:
        failed.inc(failures)


@lru_cache(maxsize=4096)
def _of(webhook_id: str) -> tuple[Counter, Counter, Histogram]:
    """Looking them up by their labels for each batch would take longer than counting."""
    return ATTEMPTS.labels(webhook_id, "delivered"), ATTEMPTS.labels(webhook_id, "failed"), SECONDS.labels(webhook_id)
