"""The content of /metrics. Every application has its own registry, so that one process can have several.

Requests are counted in plain lists and converted to Prometheus' families when /metrics is read: counting with the
library's own classes takes 3 µs a request, this takes one.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, generate_latest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from latchkey.tally import Tally

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_SIZES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0)


class Metrics(Collector):
    def __init__(self) -> None:
        # By route and status; the statuses of a route are added up when /metrics is read.
        self._requests: dict[tuple[str, int], Tally] = {}
        self._batches = {"read": Tally(_SIZES), "admission": Tally(_SIZES)}
        self.registry = CollectorRegistry()
        self.registry.register(self)
        dropped = Counter(
            "latchkey_last_seen_dropped", "Visits not noted because too many were waiting.", registry=self.registry
        )
        self.read_batch = self._batches["read"].add
        self.admission_batch = self._batches["admission"].add
        self.visit_dropped = dropped.inc

    def answered(self, route: str, status: int, seconds: float) -> None:
        tally = self._requests.get((route, status))
        if tally is None:
            tally = self._requests[route, status] = Tally(_SECONDS)
        tally.add(seconds)

    def collect(self) -> Iterator[Metric]:
        requests = CounterMetricFamily("latchkey_requests", "Requests answered.", labels=("route", "status"))
        of_route: dict[str, Tally] = {}
        for (route, status), tally in self._requests.items():
            requests.add_metric((route, str(status)), sum(tally.counts))
            of_route.setdefault(route, Tally(_SECONDS)).merge(tally)
        yield requests
        seconds = HistogramMetricFamily(
            "latchkey_request_seconds", "Time from a request's arrival to its reply.", labels=("route",)
        )
        for route, tally in of_route.items():
            seconds.add_metric((route,), tally.buckets(), tally.sum)
        yield seconds
        batches = HistogramMetricFamily("latchkey_batch_size", "How many questions shared one query.", labels=("kind",))
        for kind, tally in self._batches.items():
            batches.add_metric((kind,), tally.buckets(), tally.sum)
        yield batches

    def text(self) -> bytes:
        return generate_latest(self.registry)
