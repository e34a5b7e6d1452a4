"""The entry point of every request: its id, its path, the hot reads and writes, all errors, its log line.

One log line for each request. Lines that end in the same turn of the event loop are written together.

Structlog takes 13 µs for a line, a sixth of a whole read. So if the log is JSON these lines go directly to its stream,
with the same fields; otherwise (a terminal, a test) they go through structlog.

A line has the route's template and the id of the key, never a path, a key or a body: paths hold ids of users.
"""

import asyncio
import re
from datetime import UTC, datetime
from itertools import count
from time import perf_counter
from typing import Any, Protocol

import structlog
from msgspec import UNSET, Struct, UnsetType, json, structs
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from latchkey import logs, spans
from latchkey.database.transient_errors import PASSING
from latchkey.domain.refusal import Refusal
from latchkey.http import audited, vendor_shape
from latchkey.http.authentication import address_of
from latchkey.http.body import CheckedBody
from latchkey.http.errors import ApiError, BadRequest, Failure, InvalidAppUserId, Unavailable, from_refusal
from latchkey.http.exchange import (
    DRY_RUN,
    READS_KEY,
    SCOPE_KEY,
    SERVICES_KEY,
    WATCH_KEY,
    WRITES_KEY,
    Exchange,
    segments_of,
)
from latchkey.http.hot_reads import Reads, is_tagged, tagged_send
from latchkey.http.services import Metrics, Services
from latchkey.observability.watch import Watch
from latchkey.subjects.accounts.rules import roughly
from latchkey.subjects.request_log.usecases import HandledRequest, RequestLog

log = structlog.get_logger()


class AccessLogLine(Struct, gc=False):
    request_id: str
    method: str
    route: str
    status: int
    ms: float
    # Of the response's body.
    bytes: int
    key_id: str | None
    project_id: str | None
    # Of a phone: only its network.
    address: str
    trace_id: str | UnsetType = UNSET
    event: str = "request"
    level: str = "info"
    timestamp: str = ""


_encoder = json.Encoder()
# What structlog adds by itself.
_OF_THE_LOG = frozenset({"event", "level", "timestamp"})


class AccessLog:
    def __init__(self, *, on: bool = True, one_in: int = 1) -> None:
        """Of the requests that succeeded, one in so many is logged; all others always."""
        self._on = on
        self._one_in = one_in
        self._succeeded = count()
        self._lines: list[AccessLogLine] = []

    def takes(self, status: int) -> bool:
        """Whether to log a request with this status."""
        if not self._on or not logs.writes_info():
            return False
        return self._one_in == 1 or status >= 400 or not next(self._succeeded) % self._one_in

    def add(self, line: AccessLogLine) -> None:
        if not self._lines:
            asyncio.get_running_loop().call_soon(self._write)
        self._lines.append(line)

    def _write(self) -> None:
        lines, self._lines = self._lines, []
        stream = logs.json_stream()
        if stream is None:
            for line in lines:
                fields = structs.asdict(line).items()
                log.info(
                    "request",
                    **{name: value for name, value in fields if name not in _OF_THE_LOG and value is not UNSET},
                )
            return
        timestamp = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        for line in lines:
            line.timestamp = timestamp
        stream.write(_encoder.encode_lines(lines))


METHODS = b"GET, HEAD, POST, PATCH, DELETE, OPTIONS"
HEADERS = (
    b"authorization, content-type, x-client-version, x-is-sandbox, x-platform, x-platform-version,"
    b" x-request-id, x-version"
)
_HEADER_LIST = re.compile(rb"[A-Za-z0-9_-]+(?:[ \t]*,[ \t]*[A-Za-z0-9_-]+)*")
_LONGEST = 1024


async def answer_preflight(exchange: Exchange) -> None:
    asked = exchange.headers.get(b"access-control-request-headers", b"")
    # New clients use new header names: any requested list of names is allowed.
    sane = len(asked) <= _LONGEST and _HEADER_LIST.fullmatch(asked) is not None
    await exchange.reply(
        204,
        b"",
        [
            (b"access-control-allow-methods", METHODS),
            (b"access-control-allow-headers", asked if sane else HEADERS),
            (b"access-control-max-age", b"86400"),
            (b"vary", b"access-control-request-headers"),
        ],
    )


_READS = frozenset({"GET", "HEAD"})
_NONE: frozenset[bytes] = frozenset()
_API = frozenset({"v1", "v2", "rcbilling", "mcp"})
# V1 paths whose bodies must not be lost for one character: a purchase, and attributes that an app sends only once.
_MENDED = frozenset({"receipts", "attributes"})
# Prefix of the dashboard, which is its own application with its own error pages.
PAGES = "dashboard"
_BELOW_PAGES = f"/{PAGES}/".encode()
# A browser at the bare address gets the dashboard. On a page that names no icon it asks for this one.
_REDIRECTS = {b"/": _BELOW_PAGES[:-1], b"/favicon.ico": _BELOW_PAGES + b"static/icon.svg"}
# That application also has the pages for the buyers of purchase links.
_PAGES = frozenset({PAGES, "buy"})


class ReceiptRoutes(Protocol):
    """Receipts of apps and notifications of stores, which are answered before the framework sees them
    (`subjects/purchase_intake/api/receipts.py`)."""

    route: str

    async def answer(self, exchange: Exchange, segments: list[str], body: CheckedBody) -> bytes | None: ...

    async def spared(self, exchange: Exchange, error: ApiError) -> ApiError: ...


class Front(Struct, eq=False):
    app: ASGIApp
    lifespan: ASGIApp
    services: Services
    reads: Reads
    writes: ReceiptRoutes
    metrics: Metrics
    watch: Watch
    requests: RequestLog
    access_log: AccessLog
    pages: ASGIApp | None = None
    _receipts: list[str] = []
    # What routes find in their scope.
    _state: dict[str, Any] = {}

    def __post_init__(self) -> None:
        self._receipts = self.writes.route[1:].split("/")
        state = {SERVICES_KEY: self.services, READS_KEY: self.reads, WRITES_KEY: self.writes, WATCH_KEY: self.watch}
        self._state = state
        self.services.application = self

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.lifespan(scope, receive, send)
            return
        exchange = Exchange(scope, send)
        if spans.tracer is not None:
            exchange.trace = spans.tracer.request(exchange.headers, exchange.method)
            spans.current.set(exchange.trace)
        try:
            try:
                segments = segments_of(exchange.raw_path)
            except InvalidAppUserId:
                if self.pages is None or not exchange.raw_path.startswith(_BELOW_PAGES):
                    raise
                # A browser gets a page too: the dashboard has none at this path.
                segments = [PAGES, ""]
            if vendor_shape.HEADER in exchange.headers:
                vendor_shape.check_header(exchange)
            # The framework refuses a dry run of a read.
            hot = exchange.method in _READS and DRY_RUN not in exchange.headers
            answer = self.reads.answer(exchange, segments) if hot else None
            if answer is not None:
                status, found = await answer
                start, content = exchange.whole(status, vendor_shape.shaped(exchange, found))
                await send(start)
                await send(content)
            else:
                await self._pass_on(exchange, scope, receive, segments)
        except Exception as error:
            await self._fail(exchange, error)
        finally:
            seconds = perf_counter() - exchange.started
            status = exchange.status
            self.metrics.answered(exchange.route, status, seconds)
            caller = exchange.caller
            if caller is not None and caller.email is None and self.requests.takes(caller, status):
                self.requests.keep(
                    HandledRequest(
                        caller,
                        exchange.started + seconds,
                        exchange.method,
                        exchange.route,
                        status,
                        seconds,
                        exchange.sent,
                        exchange.request_id,
                        exchange.client,
                        exchange.headers,
                    )
                )
            if self.access_log.takes(status):
                self._write(exchange, seconds)
            if exchange.trace is not None:
                _end_trace(exchange, exchange.trace)

    async def _pass_on(self, exchange: Exchange, scope: Scope, receive: Receive, segments: list[str]) -> None:
        method = exchange.method
        if method == "OPTIONS" and exchange.is_cross_origin and b"access-control-request-method" in exchange.headers:
            exchange.route = "preflight"
            await answer_preflight(exchange)
            return
        if method in _READS and self.pages is not None and (place := _REDIRECTS.get(exchange.raw_path)) is not None:
            exchange.route = exchange.raw_path.decode()
            await exchange.reply(307, b"", [(b"location", place)])
            return
        if exchange.version == "v1":
            # Where the reply shows a customer, that customer's time replaces it.
            exchange.request_time = self.services.now()
        if method == "POST" and segments == self._receipts:
            exchange.route = self.writes.route
        mended = segments[0] == "v1" and segments[-1] in _MENDED
        body = CheckedBody(receive, exchange.headers, is_json=segments[0] in _API, is_mended=mended)
        once = method == "POST" and not audited.ONCE.get(segments[0], _NONE).isdisjoint(exchange.headers)
        # Of a dry run nothing is kept: the request itself may come with the same key.
        once = once and DRY_RUN not in exchange.headers
        if once and await audited.is_answered(exchange, self.services, scope, body):
            return
        # If a header is sent twice, the framework takes the first and we take the last: leave those to the framework.
        plain = len(exchange.headers) == len(scope["headers"]) and DRY_RUN not in exchange.headers
        if method == "POST" and plain:
            answer = await self.writes.answer(exchange, segments, body)
            if answer is not None:
                await exchange.reply(200, answer)
                return
        # HEAD works like GET, without the body.
        inner = {
            **scope,
            **self._state,
            "method": "GET" if exchange.is_head else method,
            "path": "/" + "/".join(segments),
            SCOPE_KEY: exchange,
        }
        send = tagged_send(exchange) if is_tagged(exchange) else exchange.send
        if segments[0] == "v2":
            send = vendor_shape.shaped_send(exchange)
        inside = self.pages if self.pages is not None and segments[0] in _PAGES else self.app
        try:
            await inside(inner, body, send)
        finally:
            route = inner.get("route")
            if route is not None and exchange.route == "unmatched":
                exchange.route = getattr(route, "path", "unmatched")

    async def _fail(self, exchange: Exchange, error: Exception) -> None:
        reply = await self.writes.spared(exchange, as_api_error(error))
        try:
            # Reply first: whatever happens to the log, the caller gets the documented body.
            if not exchange.status:
                await exchange.fail(reply)
        finally:
            if reply.status >= 500 and not isinstance(error, ApiError):
                about = {"request_id": exchange.request_id.decode(), "route": exchange.route, "key_id": exchange.key_id}
                # In an outage every request fails in the same way, at a place that says nothing.
                if reply.status == 503:
                    log.warning("request refused", **about, error=f"{type(error).__name__}: {error}")
                else:
                    log.error("request failed", **about, exc_info=error)

    def _write(self, exchange: Exchange, seconds: float) -> None:
        caller, client = exchange.caller, exchange.client
        # As the server says it, where that is enough: to parse it takes as long as the rest of the line.
        near = client is not None and not self.services.behind_proxy
        address = client[0] if client is not None and near else address_of(exchange, self.services)
        self.access_log.add(
            AccessLogLine(
                exchange.request_id.decode(),
                exchange.method,
                exchange.route,
                exchange.status,
                round(seconds * 1000, 2),
                exchange.sent,
                exchange.key_id,
                caller.project_id if caller is not None else None,
                address if caller is not None and not caller.is_public else roughly(address),
                exchange.trace.trace_id if exchange.trace is not None else UNSET,
            )
        )


def _end_trace(exchange: Exchange, span: spans.Span) -> None:
    spans.current.set(None)
    if spans.tracer is not None:
        spans.tracer.rename(span, f"{exchange.method} {exchange.route}")
    about: dict[str, spans.Value] = {
        "http.route": exchange.route,
        "http.response.status_code": exchange.status,
        "latchkey.request_id": exchange.request_id.decode(),
    }
    if exchange.caller is not None:
        about |= {"latchkey.project_id": exchange.caller.project_id, "latchkey.key_id": exchange.caller.key_id}
    span.end(about, error=f"status {exchange.status}" if exchange.status >= 500 else None)


def as_api_error(error: Exception) -> ApiError:
    if isinstance(error, ApiError):
        return error
    if isinstance(error, Refusal):
        return from_refusal(error)
    if isinstance(error, ClientDisconnect):
        # A phone that leaves the network in the middle of its request is no fault of ours.
        return BadRequest("The connection ended before the whole body had arrived.")
    return Unavailable() if isinstance(error, PASSING) else Failure()
