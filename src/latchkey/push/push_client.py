"""The consumer's side of the push provider: `POST {push_api_url}/api/v1/notifications`.

    async with PushClient(url, app_id, key) as push:
        sent = await push.send(Notification(contents={"en": "Your payment failed"}, headings={"en": "Demo"}), ids)

Every call has an `external_id`, by which the provider recognises a call it has already processed. So a call can be
retried after a lost response without notifying anyone twice. Pass `key` to get this across restarts too: the n-th call
with the same key is the same call, even if some of its ids have gone meanwhile.
"""

import asyncio
import random
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from importlib.metadata import version

import msgspec
import structlog

from latchkey.http_client import Closing, HttpClient, HttpError, causes_of, parse_retry_after
from latchkey.push.push_notification import (
    BusyError,
    PushError,
    PushNotification,
    PushNotSentError,
    PushResult,
    RefusedError,
    RetryPolicy,
    interpret,
)

log = structlog.get_logger()

MOST_IDS = 2_000
# 2,000 invalid ids are about 80 kB; a larger response is not from a push provider.
MOST_BYTES = 1024 * 1024
USER_AGENT = f"latchkey/{version('latchkey')}"
_HEADERS = {"Content-Type": "application/json; charset=utf-8"}
_NAMESPACE = uuid.UUID("5b7d1f0e-6f0a-4b43-9d55-3c0f7f0f8f11")


class PushClient(Closing):
    def __init__(
        self,
        api_url: str,
        app_id: str,
        rest_api_key: str,
        *,
        extra_ca: bytes | None = None,
        policy: RetryPolicy | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        if not api_url.startswith("https://"):
            raise ValueError("push_api_url must begin with https://: the REST API key travels in every call")
        if not rest_api_key or not rest_api_key.isascii() or not rest_api_key.isprintable():
            raise ValueError("the REST API key must be printable ASCII")
        self._url = f"{api_url.rstrip('/')}/api/v1/notifications"
        self._app_id = app_id
        self._key = rest_api_key
        self._policy = policy or RetryPolicy()
        self._sleep = sleep
        self._http = HttpClient(
            connect_timeout=min(10.0, self._policy.timeout),
            user_agent=USER_AGENT,
            extra_ca=extra_ca,
            http2=True,
            decompress=False,
        )

    async def send(
        self, notification: PushNotification, player_ids: Sequence[str], *, key: str | None = None
    ) -> PushResult:
        """Send to all these ids. `so_far` of a `PushError` says which calls had succeeded."""
        key = key or str(uuid.uuid4())
        wanted = list(dict.fromkeys(player_ids))
        done: list[PushResult] = []
        for first in range(0, len(wanted), MOST_IDS):
            body = self._body(notification, wanted[first : first + MOST_IDS], f"{key} {first}")
            try:
                done.append(await self._call(body, wanted[first : first + MOST_IDS]))
            except PushError as error:
                error.so_far = PushResult.combined(done)
                raise
        return PushResult.combined(done)

    async def close(self) -> None:
        await self._http.close()

    async def _call(self, body: bytes, ids: Sequence[str]) -> PushResult:
        began = time.monotonic()
        tried = 0
        while True:
            tried += 1
            answer = await self._attempt(body, ids)
            if isinstance(answer, PushResult):
                return answer
            if not isinstance(answer, PushNotSentError):
                raise answer
            asked = answer.retry_after
            if asked is None and isinstance(answer, BusyError):
                asked = answer.retry_after = self._policy.rate_limit_wait
            spent = time.monotonic() - began
            chance = random.random()  # noqa: S311 - jitter, not a secret
            wait = self._policy.wait(tried=tried, spent=spent, chance=chance, asked=asked)
            if wait is None:
                raise answer
            log.warning("push not sent yet", reason=str(answer), tried=tried, again_in_seconds=round(wait, 2))
            await self._sleep(wait)

    def _body(self, notification: PushNotification, ids: Sequence[str], key: str) -> bytes:
        return msgspec.json.encode(
            {
                "app_id": self._app_id,
                "include_player_ids": ids,
                "headings": dict(notification.headings),
                "contents": dict(notification.contents),
                "external_id": str(uuid.uuid5(_NAMESPACE, f"{self._app_id} {key}")),
            }
        )

    async def _attempt(self, body: bytes, ids: Sequence[str]) -> PushResult | PushError:
        try:
            # One timeout for everything: a provider that sends a byte a second is as good as none.
            async with asyncio.timeout(self._policy.timeout):
                response = await self._http.ask(
                    "POST",
                    self._url,
                    headers=_HEADERS,
                    authorization=f"Basic {self._key}",
                    body=body,
                    most_bytes=MOST_BYTES,
                )
        except TimeoutError:
            return PushNotSentError(f"The push provider did not answer within {self._policy.timeout:g} s.")
        except HttpError as error:
            cause = (causes_of(error) or [type(error).__name__])[-1]
            return PushNotSentError(f"The push provider cannot be reached ({self._redacted(cause)}).")
        result = interpret(response.status, response.body if len(response.body) <= MOST_BYTES else b"", ids)
        if isinstance(result, PushError):
            result.args = (self._redacted(str(result)),)
        if isinstance(result, RefusedError):
            result.reasons = tuple(self._redacted(reason) for reason in result.reasons)
        if isinstance(result, PushNotSentError):
            result.retry_after = parse_retry_after(response.header("retry-after"), time.time())
        return result

    def _redacted(self, words: str) -> str:
        return words.replace(self._key, "[key]")
