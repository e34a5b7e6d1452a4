"""The metrics of a process, as Prometheus' library has them, in OpenTelemetry's form."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.metrics.export import Metric as OtelMetric
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client.core import Metric

_CUMULATIVE = AggregationTemporality.CUMULATIVE


def converted(families: Iterable[Metric], resource: Resource, began_ns: int, now_ns: int) -> MetricsData:
    merged: dict[str, Metric] = {}
    for family in families:
        if family.name in merged:
            merged[family.name].samples = [*merged[family.name].samples, *family.samples]
        else:
            copied = merged[family.name] = Metric(family.name, family.documentation, family.type)
            copied.samples = list(family.samples)
    metrics = [
        OtelMetric(family.name, family.documentation, "", data)
        for family in merged.values()
        if (data := _data(family, began_ns, now_ns)) is not None
    ]
    scope = ScopeMetrics(InstrumentationScope("latchkey"), metrics, "")
    return MetricsData([ResourceMetrics(resource, [scope], "")])


def _data(family: Metric, began_ns: int, now_ns: int) -> Sum | Gauge | Histogram | None:
    if family.type == "histogram":
        points = _histograms(family, began_ns, now_ns)
        return Histogram(points, _CUMULATIVE) if points else None
    numbers = [
        NumberDataPoint(dict(sample.labels), began_ns, now_ns, sample.value)
        for sample in family.samples
        if not sample.name.endswith("_created")
    ]
    if not numbers:
        return None
    return Sum(numbers, _CUMULATIVE, True) if family.type == "counter" else Gauge(numbers)


@dataclass(slots=True)
class _Gathered:
    labels: dict[str, str]
    # Cumulative, as Prometheus has them.
    buckets: list[tuple[float, float]] = field(default_factory=list)
    sum: float = 0.0


def _histograms(family: Metric, began_ns: int, now_ns: int) -> list[HistogramDataPoint]:
    found: dict[tuple[tuple[str, str], ...], _Gathered] = {}
    for sample in family.samples:
        labels = {name: value for name, value in sample.labels.items() if name != "le"}
        one = found.setdefault(tuple(sorted(labels.items())), _Gathered(labels))
        if sample.name.endswith("_bucket"):
            one.buckets.append((float(sample.labels["le"]), sample.value))
        elif sample.name.endswith("_sum"):
            one.sum = sample.value
    points = []
    for one in found.values():
        one.buckets.sort()
        totals = [int(count) for _, count in one.buckets]
        counts = [total - before for before, total in zip([0, *totals[:-1]], totals, strict=True)]
        points.append(
            HistogramDataPoint(
                attributes=dict(one.labels),
                start_time_unix_nano=began_ns,
                time_unix_nano=now_ns,
                count=totals[-1] if totals else 0,
                sum=one.sum,
                bucket_counts=counts,
                explicit_bounds=[bound for bound, _ in one.buckets[:-1]],
                # Prometheus has neither, and the format does not need them.
                min=None,  # type: ignore[arg-type]
                max=None,  # type: ignore[arg-type]
            )
        )
    return points
