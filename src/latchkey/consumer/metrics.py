"""The content of /metrics. Every consumer has its own registry, so that one process can have several."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from latchkey.consumer.handlers import HANDLERS

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)


class Metrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._events = Counter(
            "latchkey_consumer_events", "Events received.", ("type", "outcome"), registry=self.registry
        )
        # Finding the counter of a type costs more than counting.
        self._counters: dict[tuple[str, str], Counter] = {}
        self._refused = Counter(
            "latchkey_consumer_webhooks_refused", "Webhooks refused.", ("reason",), registry=self.registry
        )
        self._seconds = Histogram(
            "latchkey_consumer_webhook_seconds",
            "Time from a webhook's arrival to its reply.",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._views = Counter(
            "latchkey_consumer_views", "Questions about users, by who answered.", ("source",), registry=self.registry
        )
        self._jobs = Gauge("latchkey_consumer_jobs_waiting", "Background jobs to be done.", registry=self.registry)
        self._aside = Gauge("latchkey_consumer_events_set_aside", "Events set aside.", registry=self.registry)

    def took(self, seconds: float) -> None:
        """A webhook has been answered."""
        self._seconds.observe(seconds)

    def received(self, event_type: str, outcome: str) -> None:
        # Otherwise a sender could fill the registry with types of its own.
        key = (event_type if event_type in HANDLERS else "unknown", outcome)
        counter = self._counters.get(key)
        if counter is None:
            counter = self._counters[key] = self._events.labels(*key)
        counter.inc()

    def refused(self, reason: str) -> None:
        self._refused.labels(reason).inc()

    def viewed(self, source: str) -> None:
        self._views.labels(source).inc()

    def text(self, *, jobs_waiting: int, events_set_aside: int) -> bytes:
        self._jobs.set(jobs_waiting)
        self._aside.set(events_set_aside)
        return generate_latest(self.registry)
