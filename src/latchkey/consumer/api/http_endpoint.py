"""Replies, and endpoints that handle their own errors, so that they are independent of the surrounding app."""

import asyncio
import contextlib
import hmac
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, TypeVar

import msgspec
import structlog
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

log = structlog.get_logger()

T = TypeVar("T")
Handler = Callable[[Request], Awaitable[Response]]
# The methods of a class by path and HTTP method. Django and Flask read the paths before there is a consumer.
Endpoints = Mapping[str, Mapping[str, Callable[[T, Request], Awaitable[Response]]]]

_BEARER = b"Bearer "
# How much of a body that is too large is read, and for how long when nothing arrives.
LARGEST_DISCARDED = 16 * 1024 * 1024
CHUNK_TIMEOUT = 1


class RequestRefused(Exception):
    def __init__(self, status: int, error: str, **more: Any) -> None:
        super().__init__(error)
        self.status = status
        self.body = {"error": error, **more}


class TooLargeError(RequestRefused):
    def __init__(self) -> None:
        super().__init__(413, "Payload too large")


def reply(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(body), status, headers, media_type="application/json")


class Endpoint:
    """One path. A plain ASGI application, so that it works the same in every app."""

    def __init__(self, **methods: Handler) -> None:
        self._methods = methods
        self._allow = ", ".join(sorted(methods))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        handler = self._methods.get("GET" if request.method == "HEAD" else request.method)
        try:
            if handler is None:
                response = reply({"error": "Method not allowed"}, 405, {"Allow": self._allow})
            else:
                response = await handler(request)
        except RequestRefused as refused:
            response = reply(refused.body, refused.status)
        except ClientDisconnect:
            return
        except Exception:
            log.exception("request failed", method=request.method, path=scope["path"])
            response = reply({"error": "Internal server error"}, 500)
        await response(scope, receive, send)


def routes_of(owner: T, endpoints: Endpoints[T]) -> list[BaseRoute]:
    return [
        Route(path, Endpoint(**{method: partial(handler, owner) for method, handler in methods.items()}))
        for path, methods in endpoints.items()
    ]


def headers_of(request: Request) -> dict[bytes, bytes]:
    """The first value of each name, by the name in lower case. Starlette's own mapping searches a list every time."""
    return dict(reversed(request.scope["headers"]))


def bearer(headers: Mapping[bytes, bytes]) -> bytes | None:
    """The Authorization value without its optional leading `Bearer `."""
    value = headers.get(b"authorization")
    return value.removeprefix(_BEARER) if value is not None else None


def matches(given: bytes | None, secret: str) -> bool:
    """Whether the two are equal, in constant time. An empty secret matches nothing."""
    return given is not None and secret != "" and hmac.compare_digest(given, secret.encode())


async def body_of(request: Request, limit: int) -> bytes:
    """The body. One that is too large is still read and discarded, up to LARGEST_DISCARDED and while it keeps arriving:
    most clients read the response only after sending everything, and see none if the connection closes."""
    declared = headers_of(request).get(b"content-length", b"")
    # Servers send no more and no less than what is declared: the message that only says so need not be waited for.
    expected = int(declared) if declared.isdigit() else -1
    if expected > max(limit, LARGEST_DISCARDED):
        raise TooLargeError
    first, more = await _chunk(request)
    if len(first) <= limit and (not more or len(first) == expected):
        return first
    read = bytearray(first)
    while more and len(read) != expected and len(read) <= limit:
        chunk, more = await _chunk(request)
        read += chunk
    if len(read) > limit:
        size = len(read)
        with contextlib.suppress(TimeoutError):
            while more and size <= LARGEST_DISCARDED:
                async with asyncio.timeout(CHUNK_TIMEOUT):
                    chunk, more = await _chunk(request)
                size += len(chunk)
        raise TooLargeError
    return bytes(read)


async def _chunk(request: Request) -> tuple[bytes, bool]:
    """The next part of the body, and whether there is more."""
    message = await request.receive()
    if message["type"] == "http.disconnect":
        raise ClientDisconnect
    return message.get("body", b""), message.get("more_body", False)
