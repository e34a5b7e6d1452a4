"""A collector of our own at the edge: takes traces and metrics over HTTP as a real one does, and remembers them."""

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True)
class Span:
    name: str
    trace_id: str
    id: str
    parent: str
    kind: int
    about: dict[str, Any]
    # The ids of linked spans.
    links: tuple[str, ...]
    process: str
    failed: bool
    began: int
    ended: int


@dataclass
class Collector:
    address: str = ""
    spans: list[Span] = field(default_factory=list)
    # Names of metrics, and the attributes with which each came.
    metrics: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, path: str, body: bytes) -> None:
        with self.lock:
            if path == "/v1/traces":
                self._traces(ExportTraceServiceRequest.FromString(body))
            elif path == "/v1/metrics":
                self._metrics(ExportMetricsServiceRequest.FromString(body))

    def of(self, trace_id: str) -> list[Span]:
        with self.lock:
            return sorted((one for one in self.spans if one.trace_id == trace_id), key=lambda one: one.began)

    def _traces(self, request: Any) -> None:
        for resource in request.resource_spans:
            process = _attributes(resource.resource.attributes)["service.instance.id"]
            for scope in resource.scope_spans:
                self.spans += [
                    Span(
                        one.name,
                        one.trace_id.hex(),
                        one.span_id.hex(),
                        one.parent_span_id.hex(),
                        one.kind,
                        _attributes(one.attributes),
                        tuple(link.span_id.hex() for link in one.links),
                        process,
                        one.status.code == 2,
                        one.start_time_unix_nano,
                        one.end_time_unix_nano,
                    )
                    for one in scope.spans
                ]

    def _metrics(self, request: Any) -> None:
        for resource in request.resource_metrics:
            for scope in resource.scope_metrics:
                for one in scope.metrics:
                    data = getattr(one, one.WhichOneof("data"))
                    points = self.metrics.setdefault(one.name, [])
                    points += [_attributes(point.attributes) for point in data.data_points]


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}


@contextmanager
def collecting() -> Iterator[Collector]:
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            collector.take(self.path, body)
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
