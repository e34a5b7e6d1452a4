"""What the page shows of a user: the events that arrived by webhook, kept in memory, and the rest only from the
consumer's local copy, as an app's own server would. The page has nothing inline and nothing from other hosts, so that
the policy can be strict."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import files
from typing import Literal

import msgspec
from msgspec import Struct
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from latchkey.consumer.rules.record import LocalCopy
from latchkey.consumer.rules.timestamps import Ms
from latchkey.runtime.bridge_script import web_module

MOST_SHOWN = 12
MOST_BYTES = 256 * 1024


class ArrivedEvent(Struct, frozen=True):
    """The fields of an event that the timeline shows."""

    id: str
    type: str
    app_user_id: str
    event_timestamp_ms: int


class _Envelope(Struct):
    event: ArrivedEvent


class Arrivals:
    """Wraps the consumer: notifies subscribers when a webhook was answered, and keeps its event."""

    def __init__(self, consumer: ASGIApp, path: str, users: Iterable[str]) -> None:
        self._consumer = consumer
        self._path = path
        # Only for the demo's users: there may be thousands of others.
        self._kept: dict[str, deque[ArrivedEvent]] = {user: deque(maxlen=MOST_SHOWN) for user in users}
        self._bells: set[asyncio.Event] = set()

    def of(self, app_user_id: str) -> list[ArrivedEvent]:
        """Newest first."""
        return list(reversed(self._kept[app_user_id]))

    def ring(self) -> None:
        for bell in self._bells:
            bell.set()

    @contextlib.contextmanager
    def bell(self) -> Iterator[asyncio.Event]:
        bell = asyncio.Event()
        self._bells.add(bell)
        try:
            yield bell
        finally:
            self._bells.discard(bell)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != self._path:
            await self._consumer(scope, receive, send)
            return
        body, status = bytearray(), 0

        async def read() -> Message:
            message = await receive()
            if len(body) <= MOST_BYTES:
                body.extend(message.get("body", b""))
            return message

        async def answer(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        await self._consumer(scope, read, answer)
        # Only accepted webhooks: the receiver has verified the sender, and the local copy has been written.
        if status == 200:
            self._keep(bytes(body))
            self.ring()

    def _keep(self, body: bytes) -> None:
        with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):
            arrival = msgspec.json.decode(body, type=_Envelope).event
            kept = self._kept.get(arrival.app_user_id)
            if kept is not None and arrival.id not in {one.id for one in kept}:
                kept.append(arrival)


ENTITLEMENT = "pro"

State = Literal["free", "pro", "trouble", "cancelled", "ended"]

_STATES: dict[str | None, State] = {
    "active": "pro",
    "trial": "pro",
    "paused": "cancelled",
    "billing_issue": "trouble",
    "cancelled": "cancelled",
    "expired": "ended",
}


class Story(Struct, frozen=True, kw_only=True):
    user: str
    state: State
    # The time of the user's test clock.
    now: Ms
    until: Ms | None
    # Newest first.
    events: Sequence[ArrivedEvent]


def tell(user: str, copy: LocalCopy | None, now: Ms, events: Sequence[ArrivedEvent]) -> Story:
    known = copy.subscription if copy is not None else None
    held = copy.entitlements.get(ENTITLEMENT) if copy is not None else None
    return Story(
        user=user,
        state=_STATES.get(known.subscription_status, "free") if known is not None and known.exists else "free",
        now=now,
        until=held.expires_at if held is not None else None,
        events=events,
    )


_KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_OWN = ("style.css", "scene.css", "app.js", "server.js", "words.js", "icon.svg")
_CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
POLICY = {
    "Content-Security-Policy": _CONTENT_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


def _read(name: str) -> tuple[str, str]:
    content = files("latchkey.cli.demo_app").joinpath("web", name).read_text(encoding="utf-8")
    return content, _KINDS[name.rsplit(".")[-1]]


# Content and type by path.
PAGES = {
    "/": _read("index.html"),
    **{f"/demo/{name}": _read(name) for name in _OWN},
    # The same module that an app uses in its own web content.
    "/demo/push.js": (web_module(), _KINDS["js"]),
}
