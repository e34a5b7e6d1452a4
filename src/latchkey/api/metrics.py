"""What /metrics shows. Every application has its own registry, so that several can live in one process."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_LATENCIES = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter("latchkey_requests", "Requests answered.", ("route", "status"), registry=self.registry)
        self._latency = Histogram(
            "latchkey_request_seconds",
            "Time from a request's arrival to its reply.",
            ("route",),
            buckets=_LATENCIES,
            registry=self.registry,
        )
        self._batches = Histogram(
            "latchkey_batch_size",
            "How many questions shared one query.",
            ("kind",),
            buckets=_SIZES,
            registry=self.registry,
        )
        self._dropped = Counter(
            "latchkey_last_seen_dropped", "Visits not noted because too many were waiting.", registry=self.registry
        )
        # Looking a labelled child up costs more than counting with it.
        self._known: dict[tuple[str, int], tuple[Counter, Histogram]] = {}
        self.read_batch = self._batches.labels("read").observe
        self.admission_batch = self._batches.labels("admission").observe
        self.visit_dropped = self._dropped.inc

    def answered(self, route: str, status: int, seconds: float) -> None:
        children = self._known.get((route, status))
        if children is None:
            children = self._requests.labels(route, str(status)), self._latency.labels(route)
            self._known[route, status] = children
        children[0].inc()
        children[1].observe(seconds)

    def text(self) -> bytes:
        return generate_latest(self.registry)
