"""What the delivery role counts, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import structlog
from prometheus_client import Counter, Gauge, Histogram, start_http_server

log = structlog.get_logger()

WAITING = Gauge("latchkey_deliveries_waiting", "Deliveries that wait to be sent", ["webhook"])
OLDEST = Gauge("latchkey_oldest_delivery_seconds", "How long the oldest waiting delivery has waited", ["webhook"])
ATTEMPTS = Counter("latchkey_delivery_attempts", "Attempts to deliver, by outcome", ["webhook", "outcome"])
SECONDS = Histogram(
    "latchkey_delivery_seconds",
    "From sending to the receiver's answer",
    ["webhook"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
)
IN_FLIGHT = Gauge("latchkey_deliveries_in_flight", "Deliveries under way in this process")
LOST_LEASES = Counter("latchkey_delivery_leases_lost", "Outcomes that came too late to be recorded; they are repeated")


@dataclass(frozen=True, slots=True)
class _OfWebhook:
    delivered: Counter
    failed: Counter
    seconds: Histogram


# Looking a label up costs as much as counting ten times.
@lru_cache(maxsize=10_000)
def of_webhook(id: str) -> _OfWebhook:
    return _OfWebhook(ATTEMPTS.labels(id, "delivered"), ATTEMPTS.labels(id, "failed"), SECONDS.labels(id))


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
