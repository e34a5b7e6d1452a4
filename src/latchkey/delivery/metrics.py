"""What the delivery role counts, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import structlog
from prometheus_client import REGISTRY, Counter, Gauge, Metric, start_http_server
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector

from latchkey.tally import Tally

log = structlog.get_logger()

WAITING = Gauge("latchkey_deliveries_waiting", "Deliveries that wait to be sent", ["webhook"])
OLDEST = Gauge("latchkey_oldest_delivery_seconds", "How long the oldest waiting delivery has waited", ["webhook"])
ATTEMPTS = Counter("latchkey_delivery_attempts", "Attempts to deliver, by outcome", ["webhook", "outcome"])
IN_FLIGHT = Gauge("latchkey_deliveries_in_flight", "Deliveries under way in this process")
LOST_LEASES = Counter("latchkey_delivery_leases_lost", "Outcomes that came too late to be recorded; they are repeated")


class Latencies(Collector):
    """From sending to the receiver's answer, by webhook."""

    _SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

    def __init__(self) -> None:
        self._of: dict[str, Tally] = {}

    def add(self, webhook: str, took_ms: Iterable[int]) -> None:
        tally = self._of.setdefault(webhook, Tally(self._SECONDS))
        for one in took_ms:
            tally.add(one / 1000)

    def collect(self) -> Iterable[Metric]:
        family = HistogramMetricFamily(
            "latchkey_delivery_seconds", "From sending to the receiver's answer", labels=["webhook"]
        )
        for webhook, tally in list(self._of.items()):
            family.add_metric([webhook], tally.buckets(), tally.sum)
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
