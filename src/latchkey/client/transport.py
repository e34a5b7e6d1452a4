"""One GET with retries within one total deadline, over a pool of connections."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import msgspec
from pyreqwest.client import Client as HttpClient
from pyreqwest.client import ClientBuilder
from pyreqwest.exceptions import DetailedPyreqwestError, PyreqwestError, RequestTimeoutError
from pyreqwest.middleware.types import Middleware

from latchkey.client.errors import ApiError, ClientError, NotFound, RateLimited, Unreachable, Untrusted
from latchkey.client.retry import parse_retry_after, wait_before_retry

CONNECT_TIMEOUT = timedelta(seconds=5)
CONNECTIONS = 32
# In every error of the TLS library about a certificate that it does not accept.
_CERTIFICATE = "certificate"
SEQUENCE_HEADER = "latchkey-sequence"


@dataclass(frozen=True, slots=True)
class Patience:
    """The client's clock and sleep; tests replace them, so that nothing sleeps."""

    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    fraction: Callable[[], float] = random.random
    wall: Callable[[], float] = time.time


@dataclass(frozen=True, slots=True)
class Answer:
    body: bytes
    # The sequence of the customer's last event in the response, if the service says so.
    sequence: str | None


class Transport:
    def __init__(
        self,
        base_url: str,
        api_key: str,
        *,
        ca_pem: bytes | None,
        patience: Patience,
        middleware: Middleware | None,
    ) -> None:
        self._base = checked(base_url)
        self._key = api_key
        self._patience = patience
        self._http = _build(ca_pem, middleware)

    async def get(self, path: str, deadline: float) -> Answer:
        """The response, if it is a 2xx. `deadline` is in seconds and covers all attempts and the waits between them."""
        patience = self._patience
        ends = patience.monotonic() + deadline
        attempt = 0
        while True:
            attempt += 1
            try:
                return await self._once(path, ends - patience.monotonic())
            except ClientError as error:
                wait = wait_before_retry(error, attempt, patience.fraction())
                # Waiting past the deadline is useless.
                if wait is None or patience.monotonic() + wait >= ends:
                    raise
            await patience.sleep(wait)

    async def close(self) -> None:
        await self._http.close()

    async def _once(self, path: str, left: float) -> Answer:
        request = (
            self._http.get(self._base + path)
            .header("Authorization", f"Bearer {self._key}", is_sensitive=True)
            .header("Content-Type", "application/json")
            .timeout(timedelta(seconds=max(left, 0.001)))
        )
        try:
            response = await request.build().send()
            body = bytes(await response.bytes())
        except RequestTimeoutError as error:
            raise Unreachable(f"The service did not answer within {left:.1f} s.") from error
        except PyreqwestError as error:
            cause = _cause(error)
            if _CERTIFICATE in cause.lower():
                raise Untrusted(f"The service's certificate is not trusted: {cause}.") from error
            raise Unreachable(f"The service cannot be reached: {cause}.") from error
        if 200 <= response.status < 300:
            return Answer(body, response.get_header(SEQUENCE_HEADER))
        raise _refused(response.status, body, response.get_header("retry-after"), self._patience.wall())


def checked(base_url: str) -> str:
    """The address without its trailing slash. Keys are sent over HTTPS only, even on this machine."""
    parts = urlsplit(base_url)
    if parts.scheme != "https" or not parts.hostname:
        raise ValueError(f"{base_url!r} is not an https:// address.")
    return base_url.rstrip("/")


def _build(ca_pem: bytes | None, middleware: Middleware | None) -> HttpClient:
    builder = (
        ClientBuilder()
        .connect_timeout(CONNECT_TIMEOUT)
        .max_connections(CONNECTIONS)
        .follow_redirects(False)
        .https_only(True)
        .user_agent("latchkey-client")
    )
    if ca_pem is not None:
        builder = builder.add_root_certificate_pem(ca_pem)
    if middleware is not None:
        builder = builder.with_middleware(middleware)
    return builder.build()


class _Told(msgspec.Struct):
    message: Any = None


def _refused(status: int, body: bytes, retry_after: str | None, now: float) -> ApiError:
    try:
        told = msgspec.json.decode(body, type=_Told).message
    except msgspec.DecodeError:
        told = None
    kind = {404: NotFound, 429: RateLimited}.get(status, ApiError)
    message = told if isinstance(told, str) else ""
    return kind(status, message[:500], retry_after=parse_retry_after(retry_after, now))


def _cause(error: PyreqwestError) -> str:
    causes = (error.details.get("causes") or []) if isinstance(error, DetailedPyreqwestError) else []
    return causes[-1]["message"] if causes else error.message
