"""What the delivery role measures, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import structlog
from prometheus_client import Counter, Gauge, Histogram, start_http_server

from latchkey.storage.deliveries.recording import Attempt

log = structlog.get_logger()

WAITING = Gauge("latchkey_deliveries_waiting", "Deliveries that wait to be sent", ["webhook"])
OLDEST = Gauge("latchkey_oldest_delivery_seconds", "How long the oldest waiting delivery has waited", ["webhook"])
ATTEMPTS = Counter("latchkey_delivery_attempts", "Attempts to deliver, by outcome", ["webhook", "outcome"])
IN_FLIGHT = Gauge("latchkey_deliveries_in_flight", "Deliveries under way in this process")
SECONDS = Histogram(
    "latchkey_delivery_seconds",
    "From sending to the receiver's answer",
    ["webhook"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0),
)
LOST_LEASES = Counter("latchkey_delivery_leases_lost", "Outcomes that came too late to be recorded; they are repeated")


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


def serve(host: str, port: int) -> Callable[[], None]:
    """Serve the metrics, if a port is set; returns the function that stops it. Another worker may have the port."""
    if not port:
        return lambda: None
    try:
        server, thread = start_http_server(port, addr=host)
    except OSError as error:
        log.warning("metrics not served", port=port, reason=error.strerror)
        return lambda: None

    def end() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return end
