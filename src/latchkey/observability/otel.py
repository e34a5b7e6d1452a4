"""Traces and metrics to a collector, with OpenTelemetry's SDK. Imported only if they are on (`otel = true`); needs the
extra `latchkey[otel]`. The standard variables (`OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_TRACES_SAMPLER`, ...) apply."""

import asyncio
import os
import socket
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from importlib.metadata import version

import structlog
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
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
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from prometheus_client.core import Metric
from prometheus_client.samples import Sample

from latchkey import spans
from latchkey.spans import Span, Value

_CUMULATIVE = AggregationTemporality.CUMULATIVE


def converted(families: Iterable[Metric], resource: Resource, began_ns: int, now_ns: int) -> MetricsData:
    """The metrics of a process, as Prometheus' library has them, in OpenTelemetry's form."""
    metrics = [
        OtelMetric(family.name, family.documentation, "", data)
        for family in families
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


def _histograms(family: Metric, began_ns: int, now_ns: int) -> list[HistogramDataPoint]:
    found: dict[tuple[tuple[str, str], ...], list[Sample]] = defaultdict(list)
    for sample in family.samples:
        found[tuple((name, value) for name, value in sample.labels.items() if name != "le")].append(sample)
    points = []
    for labels, samples in found.items():
        # Cumulative, as Prometheus has them.
        buckets = sorted((float(one.labels["le"]), int(one.value)) for one in samples if one.name.endswith("_bucket"))
        totals = [count for _, count in buckets]
        counts = [total - before for before, total in zip([0, *totals[:-1]], totals, strict=True)]
        points.append(
            HistogramDataPoint(
                attributes=dict(labels),
                start_time_unix_nano=began_ns,
                time_unix_nano=now_ns,
                count=totals[-1] if totals else 0,
                sum=sum(sample.value for sample in samples if sample.name.endswith("_sum")),
                bucket_counts=counts,
                explicit_bounds=[bound for bound, _ in buckets[:-1]],
                # Prometheus has neither, and the format does not need them.
                min=None,  # type: ignore[arg-type]
                max=None,  # type: ignore[arg-type]
            )
        )
    return points


log = structlog.get_logger()

_propagator = TraceContextTextMapPropagator()
_CLOSING_SECONDS = 5.0
_EVERY_MS = 60_000


class OtelSpan:
    __slots__ = ("context", "span")

    def __init__(self, span: trace.Span) -> None:
        self.span = span
        self.context = span.get_span_context()

    @property
    def trace_id(self) -> str:
        return f"{self.context.trace_id:032x}"

    @property
    def traceparent(self) -> str:
        return f"00-{self.context.trace_id:032x}-{self.context.span_id:016x}-{self.context.trace_flags:02x}"

    @property
    def is_recorded(self) -> bool:
        return self.span.is_recording()

    def end(self, attributes: Mapping[str, Value], *, error: str | None = None) -> None:
        self.span.set_attributes(dict(attributes))
        if error is not None:
            self.span.set_status(Status(StatusCode.ERROR, error))
        self.span.end()


class OtelTracer:
    def __init__(self, tracer: trace.Tracer) -> None:
        self._tracer = tracer

    def request(self, headers: Mapping[bytes, bytes], method: str) -> Span:
        sent = headers.get(b"traceparent")
        carrier = {"traceparent": sent.decode("latin-1")} if sent is not None else {}
        if sent is not None and (state := headers.get(b"tracestate")) is not None:
            carrier["tracestate"] = state.decode("latin-1")
        # An explicit context: this must not become a child of whatever else the process does.
        context = _propagator.extract(carrier, context=Context())
        return OtelSpan(
            self._tracer.start_span(method, context, kind=SpanKind.SERVER, attributes={"http.request.method": method})
        )

    def rename(self, span: Span, name: str) -> None:
        _own(span).span.update_name(name)

    def child(self, name: str, parent: Span | str, attributes: Mapping[str, Value], *, to_others: bool = False) -> Span:
        kind = SpanKind.CLIENT if to_others else SpanKind.INTERNAL
        return OtelSpan(self._tracer.start_span(name, _within(parent), kind=kind, attributes=dict(attributes)))

    def shared(
        self, name: str, parents: Sequence[Span], began_ns: int, ended_ns: int, attributes: Mapping[str, Value]
    ) -> None:
        links = [Link(_own(one).context) for one in parents]
        for place, parent in enumerate(parents):
            others = links[:place] + links[place + 1 :]
            span = self._tracer.start_span(
                name, _within(parent), attributes=dict(attributes), links=others, start_time=began_ns
            )
            span.end(ended_ns)

    def past(self, name: str, parent: str, began_ns: int, ended_ns: int, attributes: Mapping[str, Value]) -> Span:
        span = self._tracer.start_span(name, _within(parent), attributes=dict(attributes), start_time=began_ns)
        span.end(ended_ns)
        return OtelSpan(span)


def _own(span: Span) -> OtelSpan:
    assert isinstance(span, OtelSpan)
    return span


def _within(parent: Span | str) -> Context:
    if isinstance(parent, str):
        return _propagator.extract({"traceparent": parent}, context=Context())
    within = _own(parent).context
    alike = SpanContext(within.trace_id, within.span_id, False, TraceFlags(within.trace_flags), within.trace_state)
    return trace.set_span_in_context(trace.NonRecordingSpan(alike), Context())


def resource_of(process: str, roles: Sequence[str]) -> Resource:
    """What is sent with everything. `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` win."""
    own = {
        "service.name": "latchkey",
        "service.version": version("latchkey"),
        "service.instance.id": f"{socket.gethostname()}/{process}",
        "latchkey.roles": ",".join(roles),
    }
    found = dict(Resource.create({}).attributes)
    if str(found.get("service.name", "")).startswith("unknown_service"):
        found.pop("service.name")
    return Resource({**own, **found})


class Otel:
    def __init__(self, process: str, roles: Sequence[str], families: Callable[[], Awaitable[list[Metric]]]) -> None:
        self._resource = resource_of(process, roles)
        self._families = families
        self._provider: TracerProvider | None = None
        self._metrics: OTLPMetricExporter | None = None
        self._task: asyncio.Task[None] | None = None
        self._began_ns = time.time_ns()

    def start(self) -> None:
        if _is_on("OTEL_TRACES_EXPORTER"):
            # `shutdown_on_exit` would wait again at the end of the process, without a limit of ours.
            self._provider = TracerProvider(resource=self._resource, shutdown_on_exit=False)
            self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
            spans.tracer = OtelTracer(self._provider.get_tracer("latchkey"))
        if _is_on("OTEL_METRICS_EXPORTER"):
            self._metrics = OTLPMetricExporter()
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Send what is left, for a few seconds at most."""
        spans.tracer = None
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            await self._in_time(self._send())
        if self._provider is not None:
            await self._in_time(asyncio.to_thread(self._provider.shutdown))

    async def _in_time(self, work: Awaitable[object]) -> None:
        try:
            await asyncio.wait_for(work, _CLOSING_SECONDS)
        except Exception as error:
            log.warning("the collector did not take the rest", reason=str(error) or type(error).__name__)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(_interval_seconds())
            try:
                await self._send()
            except Exception as error:
                log.warning("metrics not sent to the collector", reason=str(error))

    async def _send(self) -> None:
        assert self._metrics is not None
        found = converted(await self._families(), self._resource, self._began_ns, time.time_ns())
        await asyncio.to_thread(self._metrics.export, found)


def _is_on(variable: str) -> bool:
    return os.environ.get(variable, "otlp").strip().lower() != "none"


def _interval_seconds() -> float:
    text = os.environ.get("OTEL_METRIC_EXPORT_INTERVAL", "")
    return max(100, int(text) if text.isdigit() else _EVERY_MS) / 1000
