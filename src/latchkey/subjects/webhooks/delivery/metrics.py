"""What the delivery role measures, for Prometheus."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache

from prometheus_client import REGISTRY, Counter, Gauge
from prometheus_client.core import HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from latchkey.observability.histogram import SIZES, Tally
from latchkey.subjects.webhooks.storage.lanes import LoggedAttempt

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
claimed = _histograms.sizes["claim"].add
recorded = _histograms.sizes["record"].add


def count(webhook_id: str, attempts: Sequence[LoggedAttempt]) -> None:
    """Count attempts to deliver to this webhook."""
    delivered, failed = _of(webhook_id)
    seconds = _histograms.seconds[webhook_id]
    failures = 0
    for one in attempts:
        seconds.add(one.took_ms / 1000)
        if one.error is not None:
            failures += 1
    if failures < len(attempts):
        delivered.inc(len(attempts) - failures)
    if failures:
        failed.inc(failures)


@lru_cache(maxsize=4096)
def _of(webhook_id: str) -> tuple[Counter, Counter]:
    """Looking them up by their labels for each batch would take longer than counting."""
    return ATTEMPTS.labels(webhook_id, "delivered"), ATTEMPTS.labels(webhook_id, "failed")
