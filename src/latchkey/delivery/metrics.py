"""What the delivery role counts, for Prometheus."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from itertools import accumulate

import structlog
from prometheus_client import REGISTRY, Counter, Gauge, Metric, start_http_server
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector

log = structlog.get_logger()

WAITING = Gauge("latchkey_deliveries_waiting", "Deliveries that wait to be sent", ["webhook"])
OLDEST = Gauge("latchkey_oldest_delivery_seconds", "How long the oldest waiting delivery has waited", ["webhook"])
ATTEMPTS = Counter("latchkey_delivery_attempts", "Attempts to deliver, by outcome", ["webhook", "outcome"])
IN_FLIGHT = Gauge("latchkey_deliveries_in_flight", "Deliveries under way in this process")
LOST_LEASES = Counter("latchkey_delivery_leases_lost", "Outcomes that came too late to be recorded; they are repeated")


class Latencies(Collector):
    """From sending to the receiver's answer, by webhook. Counted by hand: a Histogram takes a lock for each of the two
    values it changes, and with them as long as signing a request."""

    _BOUNDS_MS = (5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000)

    def __init__(self) -> None:
        # For each webhook how many were in each bucket, and their sum.
        self._counts: dict[str, list[int]] = {}
        self._sums: dict[str, int] = {}

    def add(self, webhook: str, took_ms: Iterable[int]) -> None:
        counts = self._counts.setdefault(webhook, [0] * (len(self._BOUNDS_MS) + 1))
        total = 0
        for one in took_ms:
            counts[bisect_left(self._BOUNDS_MS, one)] += 1
            total += one
        self._sums[webhook] = self._sums.get(webhook, 0) + total

    def collect(self) -> Iterable[Metric]:
        family = HistogramMetricFamily(
            "latchkey_delivery_seconds", "From sending to the receiver's answer", labels=["webhook"]
        )
        bounds = [*(str(bound / 1000) for bound in self._BOUNDS_MS), "+Inf"]
        for webhook, counts in list(self._counts.items()):
            buckets = list(zip(bounds, accumulate(counts), strict=True))
            family.add_metric([webhook], buckets, self._sums.get(webhook, 0) / 1000)
        yield family


LATENCIES = Latencies()
REGISTRY.register(LATENCIES)


def show(host: str, port: int) -> Callable[[], None]:
    """Serve them to Prometheus, where a port is set; gives what ends it. Another worker may have the port already."""
    if not port:
        return lambda: None
    try:
        server, thread = start_http_server(port, addr=host)
    except OSError as error:
        log.warning("metrics are not shown", port=port, reason=error.strerror)
        return lambda: None

    def end() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return end
