"""The provider's protocol: the format of requests, and the exact texts of refusals; and faults on request.

PUT /sandbox/fault {"kind": "down"}                        503 with an HTML page, like a provider's load balancer
                   {"kind": "busy", "seconds": 2}          429 with Retry-After: 2
                   {"kind": "slow", "seconds": 5}          the right response, late
                   {"kind": "lost"}                        processed, but the response is a 502
                   {"kind": "nonsense"}                    200 and a different invalid body each time
with "times": 3 only for the next three calls. DELETE ends the fault, GET shows it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

NONSENSE = (
    b"",
    b"<html><body>Welcome to nginx!</body></html>",
    b'{"id": "8458',
    b"[]",
    b"null",
    b'{"id": 7}',
    b'{"id": "", "errors": "?"}',
    b'{"success": true}',
    b"\xff\xfe\x00",
    b"[" * 100_000,
)


class Fault(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    kind: Literal["down", "busy", "slow", "lost", "nonsense"]
    seconds: float = 1.0
    times: int | None = None


class Faults:
    def __init__(self) -> None:
        self.now: Fault | None = None
        self._left: int | None = None
        self._count = 0

    def begin(self, fault: Fault) -> None:
        self.now, self._left, self._count = fault, fault.times, 0

    async def around(self, handler: Callable[[Request], Awaitable[Response]], request: Request) -> Response:
        fault = self.now
        if fault is None:
            return await handler(request)
        self._count += 1
        if self._left is not None:
            self._left -= 1
            if self._left <= 0:
                self.now = None
        match fault.kind:
            case "down":
                return Response("<html><body><h1>503 Service Unavailable</h1></body></html>", 503, None, "text/html")
            case "busy":
                wait = {"Retry-After": f"{fault.seconds:.0f}"}
                return Response('{"errors": ["API rate limit exceeded"]}', 429, wait, "application/json")
            case "slow":
                await asyncio.sleep(fault.seconds)
                return await handler(request)
            case "lost":
                await handler(request)
                return Response("upstream connect error", 502, None, "text/plain")
            case "nonsense":
                body = NONSENSE[(self._count - 1) % len(NONSENSE)]
                return Response(body, 200, None, "application/json")


MOST_IDS = 2_000
SUBSCRIBED = 1
NOBODY = "All included players are not subscribed"
NO_APP = "app_id not found. You may be missing a Content-Type: application/json header."
NO_TARGET = "You must include which players, segments, or tags you wish to send this notification to."
NO_ENGLISH = "Message Notifications must have English language content"
NO_KEY = (
    "Please include a case-sensitive header of Authorization: Basic <YOUR-REST-API-KEY-HERE> "
    "or Authorization: Key <YOUR-REST-API-KEY-HERE> with a valid REST API key."
)

Body = TypeVar("Body", bound=msgspec.Struct)


class SandboxRefusal(Exception):
    """A response other than 2xx, with the provider's texts."""

    def __init__(self, status: int, *reasons: str) -> None:
        super().__init__(*reasons)
        self.status = status
        self.reasons = reasons


class NewNotification(msgspec.Struct, frozen=True):
    app_id: str = ""
    # Older clients use the first field, newer ones the second.
    include_player_ids: list[str] | None = None
    include_subscription_ids: list[str] | None = None
    headings: dict[str, str] = {}
    contents: dict[str, str] = {}
    data: dict[str, Any] | None = None
    url: str | None = None
    external_id: str | None = None
    idempotency_key: str | None = None

    @property
    def player_ids(self) -> list[str]:
        return list(dict.fromkeys([*(self.include_player_ids or ()), *(self.include_subscription_ids or ())]))

    @property
    def same_as(self) -> str | None:
        """Two calls with the same value are the same notification."""
        return self.idempotency_key or self.external_id


class NewPlayer(msgspec.Struct, frozen=True):
    """A device that registers, perhaps again: the same `identifier` is the same device."""

    app_id: str = ""
    device_type: int = 0
    identifier: str | None = None
    language: str = "en"
    notification_types: int = SUBSCRIBED


class PlayerChange(msgspec.Struct, frozen=True):
    app_id: str = ""
    language: str | None = None
    # 1 and above: subscribed; 0 and below: the user has turned notifications off.
    notification_types: int | None = None


def in_language(texts: dict[str, str], language: str) -> str:
    """Like a provider: the device's language, else without its region, else English."""
    for known in (language, language.split("-")[0], "en"):
        if known in texts:
            return texts[known]
    return ""
