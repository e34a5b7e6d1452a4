"""What the api role counts. Every application has its own, so that one process can have several.

Requests are counted in plain lists, and converted to Prometheus' families when /metrics is read (`watching/tally.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from latchkey.usecases.money.missing_rates import counted as without_rate
from latchkey.watching.tally import SECONDS, SIZES, Tally


class Metrics(Collector):
    def __init__(self) -> None:
        # By route and status; the statuses of a route are added up when /metrics is read.
        self._requests: dict[tuple[str, int], Tally] = {}
        self._batches = {kind: Tally(SIZES) for kind in ("read", "admission", "change")}
        self._visits_dropped = 0
        # How many leases of the rate limit this process holds.
        self.leases: Callable[[], int] = lambda: 0
        # Requests that could not be written to the log of their key.
        self.requests_lost: Callable[[], int] = lambda: 0
        self.read_batch = self._batches["read"].add
        self.admission_batch = self._batches["admission"].add
        self.change_batch = self._batches["change"].add

    def answered(self, route: str, status: int, seconds: float) -> None:
        tally = self._requests.get((route, status))
        if tally is None:
            tally = self._requests[route, status] = Tally(SECONDS)
        tally.add(seconds)

    def visit_dropped(self) -> None:
        self._visits_dropped += 1

    def collect(self) -> Iterator[Metric]:
        requests = CounterMetricFamily("latchkey_requests", "Requests answered.", labels=("route", "status"))
        of_route: dict[str, Tally] = {}
        for (route, status), tally in self._requests.items():
            requests.add_metric((route, str(status)), sum(tally.counts))
            of_route.setdefault(route, Tally(SECONDS)).merge(tally)
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
        yield GaugeMetricFamily(
            "latchkey_rate_limit_leases", "Leases of the rate limit that this process holds.", value=self.leases()
        )
        yield CounterMetricFamily(
            "latchkey_last_seen_dropped", "Visits not noted because too many were waiting.", value=self._visits_dropped
        )
        yield CounterMetricFamily(
            "latchkey_request_log_lost", "Requests not written to the log of their key.", value=self.requests_lost()
        )
        missing = CounterMetricFamily(
            "latchkey_missing_rates", "Changes with a payment whose amount in USD is an estimate.", labels=("currency",)
        )
        for currency, count in sorted(without_rate.items()):
            missing.add_metric((currency,), count)
        yield missing
