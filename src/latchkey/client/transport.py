"""One GET with retries within one total deadline, over a pool of connections."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import msgspec

from latchkey.client.client_errors import ApiError, ClientError, NotFound, RateLimited, Unreachable, Untrusted
from latchkey.http_client import HttpClient, HttpError, HttpResponse, HttpTimeoutError, causes_of, parse_retry_after

# The wait that the specification defines if the service gives none.
RETRY_AFTER = 60.0
FIRST_BACKOFF = 0.25
LONGEST_BACKOFF = 30.0
# Jitter: clients that retry in unison would hit the same limit again.
SPREAD = 0.1
_TRANSIENT = frozenset({500, 502, 503, 504})
CONNECT_TIMEOUT = 5.0
CONNECTIONS = 32
# A page of the feed has 100 events. What is longer is cut off, so it is a BadAnswer.
MOST_BYTES = 32 * 1024 * 1024
# In every error of the TLS library about a certificate that it does not accept.
_CERTIFICATE = "certificate"
_HEADERS = {"Content-Type": "application/json"}


def wait_before_retry(error: ClientError, attempt: int, fraction: float) -> float | None:
    """Seconds to wait after attempt 1, 2, … failed; None if a retry cannot help."""
    if isinstance(error, RateLimited):
        wait = error.retry_after if error.retry_after is not None else RETRY_AFTER * 2.0 ** (attempt - 1)
        return wait * (1 + SPREAD * fraction)
    if isinstance(error, Unreachable) or (isinstance(error, ApiError) and error.status in _TRANSIENT):
        backoff = min(FIRST_BACKOFF * 2.0 ** (attempt - 1), LONGEST_BACKOFF)
        # Half of the wait is fixed, so it is never 0; the other half is jitter.
        wait = backoff * (0.5 + 0.5 * fraction)
        retry_after = error.retry_after if isinstance(error, ApiError) else None
        return max(wait, retry_after) if retry_after is not None else wait
    return None


@dataclass(frozen=True, slots=True)
class Patience:
    """The client's clock, sleep and jitter. Tests replace them, so that nothing sleeps."""

    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    fraction: Callable[[], float] = random.random
    wall: Callable[[], float] = time.time


class Transport:
    def __init__(
        self,
        base_url: str,
        api_key: str,
        *,
        ca_pem: bytes | None,
        patience: Patience,
        http: HttpClient | None = None,
    ) -> None:
        self._base = checked(base_url)
        self._key = api_key
        self._patience = patience
        self._http = http or HttpClient(
            connect_timeout=CONNECT_TIMEOUT, connections=CONNECTIONS, user_agent="latchkey-client", extra_ca=ca_pem
        )

    async def get(self, path: str, deadline: float) -> HttpResponse:
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

    async def _once(self, path: str, left: float) -> HttpResponse:
        try:
            response = await self._http.ask(
                "GET",
                self._base + path,
                headers=_HEADERS,
                authorization=f"Bearer {self._key}",
                deadline=max(left, 0.001),
                most_bytes=MOST_BYTES,
            )
        except HttpTimeoutError as error:
            raise Unreachable(f"The service did not answer within {left:.1f} s.") from error
        except HttpError as error:
            cause = (causes_of(error) or [error.message])[-1]
            if _CERTIFICATE in cause.lower():
                raise Untrusted(f"The service's certificate is not trusted: {cause}.") from error
            raise Unreachable(f"The service cannot be reached: {cause}.") from error
        if 200 <= response.status < 300:
            return response
        raise _api_error(response.status, response.body, response.header("retry-after"), self._patience.wall())


def checked(base_url: str) -> str:
    """The address without its trailing slash. Keys are sent over HTTPS only, even on this machine."""
    parts = urlsplit(base_url)
    if parts.scheme != "https" or not parts.hostname:
        raise ValueError(f"{base_url!r} is not an https:// address.")
    return base_url.rstrip("/")


class _ErrorBody(msgspec.Struct):
    message: Any = None
    # V2's errors have a type, V1's a code. What a proxy says has neither.
    type: Any = None
    code: Any = None


def _api_error(status: int, body: bytes, retry_after: str | None, now: float) -> ApiError:
    try:
        error = msgspec.json.decode(body, type=_ErrorBody)
    except (ValueError, RecursionError):
        error = _ErrorBody()
    ours = isinstance(error.message, str) and (error.type or error.code)
    # A proxy's 404 says nothing about the object.
    kind = {404: NotFound if ours else ApiError, 429: RateLimited}.get(status, ApiError)
    return kind(status, error.message[:500] if ours else "", retry_after=parse_retry_after(retry_after, now))
