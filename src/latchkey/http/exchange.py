"""One request and its response: its id, the API version of its error bodies, the data for the access log, and its
path. Every segment of a path is percent-decoded exactly once, here and nowhere else."""

import os
import re
import secrets
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from time import perf_counter
from typing import TypeAlias
from urllib.parse import unquote_to_bytes

from starlette.types import Message, Scope, Send

from latchkey.engine.admission import Caller
from latchkey.http.errors import ApiError, InvalidAppUserId, Version
from latchkey.spans import Span
from latchkey.subjects.accounts.rules import client_address

_MALFORMED = re.compile(rb"%(?![0-9A-Fa-f]{2})")


def segments_of(raw_path: bytes) -> list[str]:
    """The decoded segments of a path. One with an encoded `/` or NUL, or invalid UTF-8, is refused."""
    if b"%" not in raw_path:
        try:
            return raw_path[1:].decode("ascii").split("/")
        except UnicodeDecodeError:
            pass
    if _MALFORMED.search(raw_path):
        raise InvalidAppUserId("The path has a '%' that is not followed by two hexadecimal digits.", param="path")
    return [_segment(segment) for segment in raw_path[1:].split(b"/")]


def _segment(raw: bytes) -> str:
    try:
        segment = unquote_to_bytes(raw).decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidAppUserId("An id in the path is not valid UTF-8.", param="path") from None
    if "/" in segment:
        raise InvalidAppUserId("An id in the path contains an encoded '/'; ids cannot contain one.", param="path")
    if "\0" in segment:
        raise InvalidAppUserId("An id in the path contains a NUL character.", param="path")
    return segment


def version_of(raw_path: bytes) -> Version:
    """Whose error bodies a path gets. `/rcbilling/` belongs to V1, because apps call it; all other paths are V2."""
    return "v1" if raw_path[:4] == b"/v1/" or raw_path == b"/v1" or raw_path[:11] == b"/rcbilling/" else "v2"


Header: TypeAlias = tuple[bytes, bytes]

SCOPE_KEY = "latchkey.exchange"
# The services that routes need. The routes are built once per process (130 ms of CPU) and shared by all applications,
# so the front adds the services to each request.
SERVICES_KEY = "latchkey.services"
READS_KEY = "latchkey.reads"
WRITES_KEY = "latchkey.writes"
WATCH_KEY = "latchkey.watch"
# The caller of a request that the service makes itself for somebody whom it knows already. No client can set it.
CALLER_KEY = "latchkey.caller"

# Random per process: request ids have to be unique, not secret.
_PROCESS = secrets.token_hex(8).encode()


def _draw_again() -> None:
    global _PROCESS
    _PROCESS = secrets.token_hex(8).encode()


# A copy of a process that has loaded this module is another process.
os.register_at_fork(after_in_child=_draw_again)
_count = count(1)
_SANE_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")

# A webhook and a read can overtake each other; with this header a receiver knows which of the two is newer.
SEQUENCE_HEADER = b"latchkey-sequence"
# Operations in the audit log say what they would do (`audited.py`); others refuse the header (`body.py`).
DRY_RUN = b"latchkey-dry-run"
# Names that the vendor's SDKs know.
ETAG = b"x-revenuecat-etag"
REQUEST_TIME = b"x-revenuecat-request-time"
JSON_TYPE = (b"content-type", b"application/json")
SECURITY_HEADERS = [
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
]
_WITHOUT_BODY = frozenset({204, 304})
_OF_A_BODY = frozenset({b"content-type", b"content-length"})
_NAMES = frozenset(name for name, _ in SECURITY_HEADERS)
# Apps call V1, also from web pages. It uses keys and never cookies, so any origin may read it.
CORS_HEADERS = [
    (b"access-control-allow-origin", b"*"),
    (b"access-control-expose-headers", b"retry-after, x-request-id, x-revenuecat-etag, x-revenuecat-request-time"),
]
# The headers that every JSON response has.
_LINES = (*SECURITY_HEADERS, JSON_TYPE)
_LINES_FOR_BROWSERS = (*_LINES, *CORS_HEADERS)


class Exchange:
    __slots__ = (
        "_send", "caller", "client", "etag", "headers", "key_id", "method", "operation_id", "raw_path",
        "request_id", "request_time", "route", "sent", "sequence", "started", "status", "store", "trace", "usage",
        "version",
    )  # fmt: skip

    def __init__(self, scope: Scope, send: Send) -> None:
        self.started = perf_counter()
        self.method: str = scope["method"]
        self.raw_path: bytes = scope.get("raw_path") or scope["path"].encode()
        self.version = version_of(self.raw_path)
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        sent = self.headers.get(b"x-request-id")
        self.request_id = b"%s%08x" % (_PROCESS, next(_count)) if sent is None or not _SANE_ID.fullmatch(sent) else sent
        # Of the key, once it is known; `store` is that of the key's app.
        self.caller: Caller | None = scope.get(CALLER_KEY)
        self.key_id: str | None = self.caller.key_id if self.caller is not None else None
        self.store: str | None = None
        # Of a secret key: the requests of the last 60 seconds, and the allowed number.
        self.usage: tuple[int, int] | None = None
        # The address and port of the connection, as the server gives them.
        self.client: tuple[str, int] | None = scope.get("client")
        self.route = "unmatched"
        # The sequence of the customer's last event that the response includes.
        self.sequence: int | None = None
        # For apps on V1: the time of the response, which is that of the customer's test clock if it is on one.
        self.request_time: int | None = None
        # For apps on V1: the tag of the response.
        self.etag: bytes | None = None
        # 0 until the response has begun.
        self.status = 0
        # How many bytes of the response's body.
        self.sent = 0
        # The same each time the request is repeated with its Idempotency-Key.
        self.operation_id: str | None = None
        # If traces are on.
        self.trace: Span | None = None
        self._send = send

    @property
    def is_cross_origin(self) -> bool:
        """Whether a browser sends a cross-origin request to V1. Only then the CORS headers are needed."""
        return b"origin" in self.headers and self.version == "v1"

    def address(self, *, behind_proxy: bool) -> str:
        """Of the client. Some proxies add a header of their own after one that the client sent: the last one counts."""
        peer, forwarded = self.client[0] if self.client else None, self.headers.get(b"x-forwarded-for", b"")
        return client_address(peer, forwarded.decode("latin-1"), behind_proxy=behind_proxy)

    def wrap_send(self, wrapped: Callable[[Send], Send]) -> None:
        self._send = wrapped(self._send)

    @property
    def is_head(self) -> bool:
        return self.method == "HEAD"

    def whole(self, status: int, body: bytes, headers: Sequence[Header] = ()) -> tuple[Message, Message]:
        """The two messages of a complete JSON response."""
        self.status = status
        self.sent = len(body)
        lines = [
            (b"x-request-id", self.request_id), (b"content-length", b"%d" % len(body)),
            *(_LINES_FOR_BROWSERS if self.is_cross_origin else _LINES), *headers,
        ]  # fmt: skip
        if status in _WITHOUT_BODY:
            lines = [line for line in lines if line[0] not in _OF_A_BODY]
        lines += self._own_headers()
        return (
            {"type": "http.response.start", "status": status, "headers": lines},
            {"type": "http.response.body", "body": b"" if self.is_head else body, "more_body": False},
        )

    async def reply(self, status: int, body: bytes, headers: Sequence[Header] = ()) -> None:
        for message in self.whole(status, body, headers):
            await self._send(message)

    async def fail(self, error: ApiError) -> None:
        headers = [(name.encode(), value.encode("latin-1")) for name, value in (error.headers or {}).items()]
        await self.reply(error.status, error.body(self.version, self.request_id.decode()), headers)

    def _own_headers(self) -> list[Header]:
        """Headers that only some requests get."""
        lines: list[Header] = []
        if self.sequence is not None:
            lines.append((SEQUENCE_HEADER, b"%d" % self.sequence))
        if self.version == "v2":
            if self.usage is not None and self.status < 300:
                # As the vendor's clients expect them.
                lines.append((b"revenuecat-rate-limit-current-usage", b"%d" % self.usage[0]))
                lines.append((b"revenuecat-rate-limit-current-limit", b"%d" % self.usage[1]))
        elif self.request_time is not None:
            lines.append((REQUEST_TIME, b"%d" % self.request_time))
            if self.etag is not None:
                lines.append((ETAG, self.etag))
        return lines

    async def send(self, message: Message) -> None:
        """The ASGI `send` for inner applications: adds our headers, and removes the body for HEAD."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = list(message.get("headers", ()))
            present = {name for name, _ in headers} & _NAMES
            headers += [header for header in SECURITY_HEADERS if header[0] not in present]
            headers.append((b"x-request-id", self.request_id))
            headers += self._own_headers()
            if self.is_cross_origin:
                headers += CORS_HEADERS
            message = {**message, "headers": headers}
        elif message["type"] == "http.response.body":
            self.sent += len(message.get("body", b""))
            if self.is_head:
                message = {**message, "body": b""}
        await self._send(message)


Finish: TypeAlias = Callable[[Message, bytes], Awaitable[tuple[Message, bytes] | None]]


class HeldReply:
    """An ASGI `send` that holds a reply back until it is complete, and sends what `finish` makes of it; None: that has
    been sent. Replies whose start `holds` does not want are passed on."""

    def __init__(self, send: Send, finish: Finish, holds: Callable[[Message], bool]) -> None:
        self._send, self._finish, self._holds = send, finish, holds
        self._start: Message | None = None
        self._body = b""

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start" and self._holds(message):
            self._start = message
        elif self._start is None:
            await self._send(message)
        else:
            self._body += message.get("body", b"")
            if not message.get("more_body", False):
                finished = await self._finish(self._start, self._body)
                if finished is not None:
                    await self._send(finished[0])
                    await self._send({"type": "http.response.body", "body": finished[1]})
