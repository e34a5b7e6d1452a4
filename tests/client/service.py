"""A fake service that answers from a script, and a client with a fake clock."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec import json
from pyreqwest.exceptions import ConnectError, RequestTimeoutError
from pyreqwest.middleware import Next
from pyreqwest.request import Request
from pyreqwest.response import Response, ResponseBuilder

from latchkey.client.client import Client
from latchkey.client.transport import Patience
from latchkey.http_client import HttpClient

DOWN = "down"
SLOW = "slow"


@dataclass(frozen=True)
class Says:
    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Script:
    """Gives the answers in order, and repeats the last one."""

    answers: list[Says | str]
    asked: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    async def __call__(self, request: Request, _: Next) -> Response:
        self.asked.append(str(request.url).removeprefix("https://service.test"))
        self.headers.append(dict(request.headers.items()))
        says = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if says == DOWN:
            raise ConnectError("refused", {"causes": [{"message": "Connection refused"}]})
        if says == SLOW:
            raise RequestTimeoutError("timed out", {"causes": None})
        assert isinstance(says, Says)
        body = says.body if isinstance(says.body, bytes) else json.encode(says.body)
        return await ResponseBuilder().status(says.status).headers(says.headers).body_bytes(body).build()


async def endless(_request: Request, _: Next) -> Response:
    async def body() -> AsyncIterator[bytes]:
        while True:
            yield b" " * 1_000_000

    return await ResponseBuilder().status(200).body_stream(body()).build()


@dataclass
class Time:
    """A clock that moves only when somebody sleeps."""

    now: float = 1_800_000_000.0
    waits: list[float] = field(default_factory=list)
    fraction: float = 0.0

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds

    @property
    def patience(self) -> Patience:
        return Patience(lambda: self.now, self.sleep, lambda: self.fraction, lambda: self.now)


def client(script: Script, time: Time | None = None, **options: Any) -> Client:
    patience = (time or Time()).patience
    http = HttpClient(middleware=script)
    return Client("https://service.test/", "sk_key", project_id="p 1", patience=patience, _http=http, **options)


def page(*items: Any, next_page: str | None = None) -> dict[str, Any]:
    return {"object": "list", "items": list(items), "next_page": next_page, "url": "/v2"}


# V2's end for access that never ends: 200 years ahead.
FOR_EVER = 1_800_000_000_000 + 200 * 365 * 86_400_000


def active(entitlement_id: str, expires_at: int | None = None) -> dict[str, Any]:
    ends = FOR_EVER if expires_at is None else expires_at
    return {"object": "customer.active_entitlement", "entitlement_id": entitlement_id, "expires_at": ends}


def customer(*entitlements: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "object": "customer", "id": "ada", "project_id": "p 1", "first_seen_at": 1, "last_seen_at": 2,
        "last_seen_app_version": None, "last_seen_country": None, "last_seen_platform": None,
        "last_seen_platform_version": None, "active_entitlements": page(*entitlements), "attributes": page(), **more,
    }  # fmt: skip
