"""The HTTP client. This is the only module that imports pyreqwest, which is young.

    async with HttpClient(extra_ca=pem, timeout=10) as http:
        response = await http.ask("POST", url, authorization=f"Bearer {key}", body=b"{}")

- `ask` returns the whole response.
- `stream` is for whoever needs the status before the body: webhook delivery, and a response that never ends.

A client costs one object more than the library's own, a streamed request none.
"""

import atexit
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, timedelta
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Any, Self

import msgspec
from pyreqwest.bytes import Bytes as Chunk
from pyreqwest.client import ClientBuilder
from pyreqwest.exceptions import ConnectTimeoutError as HttpConnectTimeoutError
from pyreqwest.exceptions import DetailedPyreqwestError
from pyreqwest.exceptions import PyreqwestError as HttpError
from pyreqwest.exceptions import RequestTimeoutError as HttpTimeoutError
from pyreqwest.http import HeaderMap, Url
from pyreqwest.middleware.types import Middleware
from pyreqwest.request import RequestBuilder
from pyreqwest.request import StreamRequest as StreamedRequest
from pyreqwest.response import Response as StreamedResponse

__all__ = [
    "Chunk",
    "HeaderMap",
    "HttpConnectTimeoutError",
    "HttpError",
    "HttpTimeoutError",
    "StreamedRequest",
    "StreamedResponse",
    "Url",
]


# The library's thread may hold Python's lock for a moment after the last response. If the interpreter ends in that
# moment, Python before 3.14 aborts the process: 5 of 60 times after one request, 0 of 300 with this pause at the end.
EXIT_PAUSE = 0.05
# Seconds. Whoever asks for a longer wait is asked again after this one.
LONGEST_RETRY_AFTER = 86_400.0


@cache
def _pause_at_exit() -> None:
    if sys.version_info < (3, 14):
        atexit.register(time.sleep, EXIT_PAUSE)


class HttpResponse:
    """A whole response."""

    __slots__ = ("_response", "body")

    def __init__(self, response: StreamedResponse, body: bytes) -> None:
        self._response = response
        self.body = body

    @property
    def status(self) -> int:
        return self._response.status

    def header(self, name: str) -> str | None:
        """The first value of this header; upper and lower case are the same."""
        return header_of(self._response, name)

    def headers(self) -> list[tuple[str, str]]:
        return header_pairs(self._response)


class Closing:
    """What is closed at the end of its `async with`."""

    __slots__ = ()

    async def close(self) -> None:
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class HttpClient(Closing):
    """Keeps connections open until it is closed. Never follows a redirect.

    Times are in seconds. `headers` are sent with every request. `extra_ca` is PEM, trusted in addition to the system's
    authorities. `address` is the host, IP address and port to connect to, in place of a name lookup for this host.
    """

    __slots__ = ("_client",)

    def __init__(
        self,
        *,
        timeout: float | None = None,
        connect_timeout: float | None = None,
        idle_timeout: float | None = None,
        connections: int | None = None,
        user_agent: str | None = None,
        headers: Mapping[str, str] | None = None,
        extra_ca: bytes | None = None,
        address: tuple[str, str, int] | None = None,
        https_only: bool = True,
        http2: bool = False,
        use_proxy: bool = True,
        decompress: bool = True,
        middleware: Middleware | None = None,
    ) -> None:
        builder = ClientBuilder().follow_redirects(False).https_only(https_only).http2(http2)
        if timeout is not None:
            builder = builder.timeout(timedelta(seconds=timeout))
        if connect_timeout is not None:
            builder = builder.connect_timeout(timedelta(seconds=connect_timeout))
        if idle_timeout is not None:
            builder = builder.pool_idle_timeout(timedelta(seconds=idle_timeout))
        if connections is not None:
            builder = builder.max_connections(connections)
        if user_agent is not None:
            builder = builder.user_agent(user_agent)
        if headers is not None:
            builder = builder.default_headers(headers)
        if extra_ca is not None:
            builder = builder.add_root_certificate_pem(extra_ca)
        if address is not None:
            builder = builder.resolve(*address)
        if not use_proxy:
            builder = builder.no_proxy()
        if not decompress:
            builder = builder.gzip(False).brotli(False).deflate(False).zstd(False)
        if middleware is not None:
            builder = builder.with_middleware(middleware)
        _pause_at_exit()
        self._client = builder.build()

    async def ask(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        authorization: str | None = None,
        body: bytes | None = None,
        json: Any = None,
        deadline: float | None = None,
        most_bytes: int | None = None,
    ) -> HttpResponse:
        """Send a request and read the whole response.

        `json` is encoded as the body. `authorization` is hidden when the library prints the request. `deadline`
        replaces the client's timeout. Reading stops once more than `most_bytes` have come. Raises HttpError if there is
        no whole response; HttpTimeoutError is one of its kinds.
        """
        if json is not None:
            headers, body = {"Content-Type": "application/json", **(headers or {})}, msgspec.json.encode(json)
        request = self._request(method, url, headers, authorization, body, deadline)
        if most_bytes is None:
            whole = await request.build().send()
            return HttpResponse(whole, bytes(await whole.bytes()))
        async with request.build_streamed() as response:
            kept = bytearray()
            while len(kept) <= most_bytes and (chunk := await response.body_reader.read_chunk()) is not None:
                kept += bytes(chunk)
            return HttpResponse(response, bytes(kept))

    def stream(
        self,
        method: str,
        url: str | Url,
        *,
        headers: Mapping[str, str] | Sequence[tuple[str, str]] | None = None,
        authorization: str | None = None,
        body: bytes | None = None,
        deadline: float | None = None,
    ) -> StreamedRequest:
        """A request whose response is there as soon as its headers have come, before any of its body."""
        request = self._request(method, url, headers, authorization, body, deadline)
        return request.streamed_read_buffer_limit(0).build_streamed()

    async def close(self) -> None:
        await self._client.close()

    def _request(
        self,
        method: str,
        url: str | Url,
        headers: Mapping[str, str] | Sequence[tuple[str, str]] | None,
        authorization: str | None,
        body: bytes | None,
        deadline: float | None,
    ) -> RequestBuilder:
        request = self._client.request(method, url)
        if headers is not None:
            request = request.headers(headers)
        if authorization is not None:
            request = request.header("Authorization", authorization, is_sensitive=True)
        if body is not None:
            request = request.body_bytes(body)
        if deadline is not None:
            request = request.timeout(timedelta(seconds=deadline))
        return request


def header_pairs(response: StreamedResponse) -> list[tuple[str, str]]:
    """Each header with each of its values: one that comes several times has several pairs. Names are in lower case. A
    header that is not ASCII is left out: the library raises ValueError for its values."""
    pairs: list[tuple[str, str]] = []
    for name in dict.fromkeys(response.headers):
        with suppress(ValueError):
            pairs += [(name, value) for value in response.headers.getall(name)]
    return pairs


def header_of(response: StreamedResponse, name: str) -> str | None:
    with suppress(ValueError):
        return response.get_header(name)
    return None


def causes_of(error: Exception) -> list[str]:
    """What the client says about a failure, from the outermost cause to the innermost."""
    if isinstance(error, DetailedPyreqwestError):
        return [cause["message"] for cause in error.details.get("causes") or ()]
    return [str(error)] if str(error) else []


def parse_retry_after(value: str | None, now: float) -> float | None:
    """Seconds to wait according to a Retry-After header, a number or a date; None if it is neither. A day at most.
    `now` is in epoch seconds."""
    text = (value or "").strip()
    if text.isascii() and text.isdigit():
        return min(float(text[:9]), LONGEST_RETRY_AFTER)
    try:
        moment = parsedate_to_datetime(text)
        wait = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() - now
        return min(max(0.0, wait), LONGEST_RETRY_AFTER)
    except (ValueError, OverflowError):
        return None
