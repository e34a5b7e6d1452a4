"""A store emulator on the network: its API, and beside it the control API, by which people and scripts sell, act, move
the clock and make it misbehave. docs/emulators.md lists its paths and bodies.

The control API has no password, so it is served on loopback only. A page in a browser cannot use it either: the Host
has to be a loopback name, and a body has to say that it is JSON, which browsers do not send to strangers unasked.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import asdict
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from latchkey.domain.instants import DAY, Ms, add, parse_duration, to_iso
from latchkey.domain.refusal import Invalid, NotFound, Refusal, found
from latchkey.emulators.control_requests import converted, invalid_if, refuse_if
from latchkey.emulators.emulator import Emulator
from latchkey.emulators.misbehaviour import Misbehaviour
from latchkey.emulators.notification_outbox import OutgoingNotification
from latchkey.server import served
from latchkey.settings import Settings

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
_LARGEST_BODY = 256 * 1024
# A thousand renewals in one move are a typing mistake.
_FARTHEST: Ms = 20 * 366 * DAY

_STATUSES: dict[type[Refusal], int] = {NotFound: 404, Invalid: 400}

Handler = Callable[[Request], Awaitable[Any]]


class _ClockMove(msgspec.Struct, forbid_unknown_fields=True):
    by: str | None = None
    # ISO 8601, or epoch milliseconds.
    to: int | str | None = None
    # Epoch milliseconds, as a test clock of Latchkey takes them: one body moves both.
    to_ms: int | None = None


def application(store: Emulator[Any, Any]) -> Starlette:
    control = _Control(store)
    routes = [
        ("GET", "", control.overview),
        ("GET", "/products", control.products),
        ("PUT", "/products", control.add_product),
        ("GET", "/purchases", control.purchases),
        ("POST", "/purchases", control.sell),
        ("GET", "/purchases/{id}", control.purchase),
        ("POST", "/purchases/{id}/acts", control.act),
        ("GET", "/clock", control.clock),
        ("PUT", "/clock", control.move),
        ("GET", "/notifications", control.notifications),
        ("POST", "/notifications/test", control.send_test),
        ("POST", "/notifications/{id}/send", control.send_again),
        ("GET", "/misbehaviour", control.misbehaviour),
        ("PUT", "/misbehaviour", control.misbehave),
        ("DELETE", "/misbehaviour", control.behave),
        ("PUT", "/notification_url", control.set_url),
    ]
    return Starlette(
        routes=[Route(f"/control{path}", _guarded(handler), methods=[method]) for method, path, handler in routes]
    )


class _Control:
    def __init__(self, store: Emulator[Any, Any]) -> None:
        self._store = store

    async def overview(self, _: Request) -> Any:
        messages = self._store.outbox.messages
        return {
            "store": self._store.name,
            "clock": to_iso(self._store.clock.now()),
            "notification_url": self._store.outbox.url,
            "purchases": len(self._store.expected_states()),
            "notifications": {
                state: sum(message.state == state for message in messages)
                for state in ("waiting", "delivered", "lost", "given up")
            },
            "misbehaviour": self._store.dice.wanted,
        }

    async def products(self, _: Request) -> Any:
        return {"products": self._store.products()}

    async def add_product(self, request: Request) -> Any:
        self._store.add_product(await _body(request))
        return {"products": self._store.products()}

    async def purchases(self, _: Request) -> Any:
        return {"purchases": [asdict(state) for state in self._store.expected_states()]}

    async def purchase(self, request: Request) -> Any:
        return self._shown(str(request.path_params["id"]))

    async def sell(self, request: Request) -> Any:
        asked = await _body(request)
        after = asked.pop("notify_after", None)
        held_until = None if after is None else _later(self._store.clock.now(), after, "notify_after")
        id = self._store.sell(**asked)
        if held_until is not None:
            self._store.outbox.hold(id, held_until)
        await self._store.deliver()
        return self._shown(id)

    async def act(self, request: Request) -> Any:
        asked = await _body(request)
        name = asked.pop("act", None)
        invalid_if(not isinstance(name, str), "`act` says what should happen, such as cancel.", "act")
        id = self._store.act(self._store.known(str(request.path_params["id"])).purchase, name, **asked)
        await self._store.deliver()
        return self._shown(id)

    async def clock(self, _: Request) -> Any:
        now = self._store.clock.now()
        return {"now": to_iso(now), "now_ms": now}

    async def move(self, request: Request) -> Any:
        to = moment(converted(await _body(request), _ClockMove), self._store.clock.now())
        await self._store.move(to)
        return await self.clock(request)

    async def notifications(self, request: Request) -> Any:
        query = request.query_params
        limit = query.get("limit", "100")
        invalid_if(not limit.isdigit() or not 1 <= int(limit) <= 1000, "limit is 1 to 1000.", "limit")
        wanted = [sent for sent in self._store.outbox.messages if query.get("purchase") in (None, sent.subject)]
        return {"notifications": [_message(sent) for sent in reversed(wanted[-int(limit) :])]}

    async def send_test(self, _: Request) -> Any:
        id = self._store.send_test()
        await self._store.deliver()
        return _message(self._message(id))

    async def send_again(self, request: Request) -> Any:
        message = self._message(str(request.path_params["id"]))
        if self._store.outbox.url is None:
            raise Refusal("The emulator does not know where to send notifications; set notification_url first.")
        await self._store.outbox.send_again(message)
        return _message(message)

    async def misbehaviour(self, _: Request) -> Any:
        return self._store.dice.wanted

    async def misbehave(self, request: Request) -> Any:
        self._store.misbehave(converted(await _body(request), Misbehaviour))
        return self._store.dice.wanted

    async def behave(self, _: Request) -> Any:
        """Also sends what the misbehaviour held back."""
        await self._store.calm()
        return self._store.dice.wanted

    async def set_url(self, request: Request) -> Any:
        url = (await _body(request)).get("url")
        await self._store.outbox.send_to(checked_url(url) if url is not None else None)
        await self._store.deliver()
        return {"notification_url": self._store.outbox.url}

    def _message(self, id: str) -> OutgoingNotification:
        sent = next((message for message in self._store.outbox.messages if message.id == id), None)
        return found(sent, f"The store has sent no notification {id!r}.", "id")

    def _shown(self, id: str) -> dict[str, Any]:
        known = self._store.known(id)
        return {**asdict(known), "receipt": self._store.receipt(known.purchase)}


def moment(move: _ClockMove, now: Ms) -> Ms:
    """Where the clock is to stand."""
    if sum(given is not None for given in (move.by, move.to, move.to_ms)) != 1:
        raise Invalid(
            'Say one of {"by": "P1M"}, {"to": "2027-01-31T12:00:00Z"} and {"to_ms": 1801396800000}.', param="by"
        )
    if move.by is not None:
        to = _later(now, move.by, "by")
    elif move.to_ms is not None:
        to = move.to_ms
    elif isinstance(move.to, int):
        to = move.to
    else:
        try:
            given = datetime.fromisoformat(str(move.to))
        except ValueError:
            raise Invalid("to is epoch milliseconds or ISO 8601.", param="to") from None
        to = int((given if given.tzinfo else given.replace(tzinfo=UTC)).timestamp() * 1000)
    refuse_if(to < now, f"The clock only moves forward, and it is {to_iso(now)} already.", "to")
    invalid_if(to - now > _FARTHEST, "The clock moves at most 20 years at a time.", "by")
    return to


def _later(now: Ms, by: object, param: str) -> Ms:
    try:
        return add(now, parse_duration(str(by)))
    except ValueError as error:
        raise Invalid(str(error), param=param) from None


def checked_url(url: object) -> str:
    try:
        parts = urlsplit(str(url))
        host, _ = parts.hostname, parts.port
    except ValueError:
        host, parts = None, urlsplit("")
    if not host or parts.scheme not in ("http", "https"):
        raise Invalid(f"{url!r} is not an address such as https://localhost:8443/incoming/...", param="url")
    return str(url)


def _guarded(handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        if request.url.hostname not in LOOPBACK:
            return _refused(403, "The control API answers on loopback names only.")
        try:
            return _json(await handler(request))
        except Refusal as error:
            return _refused(_STATUSES.get(type(error), 422), error.message, error.param)

    return answer


async def _body(request: Request) -> dict[str, Any]:
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise Invalid("The body is JSON; say so with Content-Type: application/json.")
    raw = b""
    async for chunk in request.stream():
        raw += chunk
        if len(raw) > _LARGEST_BODY:
            raise Invalid(f"The body is larger than {_LARGEST_BODY} bytes.")
    try:
        return msgspec.json.decode(raw, type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        raise Invalid("The body is not a JSON object.") from None


def _message(message: OutgoingNotification) -> dict[str, Any]:
    return {
        "id": message.id,
        "kind": message.kind,
        "purchase": message.subject,
        "at": to_iso(message.at),
        "at_ms": message.at,
        "state": message.state,
        "next_try_ms": message.due_at if message.state == "waiting" else None,
        "attempts": [asdict(attempt) for attempt in message.attempts],
    }


def _refused(status: int, message: str, param: str | None = None) -> Response:
    return _json({"error": message, **({"param": param} if param else {})}, status)


def _json(value: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")


_LOOPBACK = "127.0.0.1"
_PLAIN = Settings(behind_proxy=True)


class ServedEmulator(msgspec.Struct, frozen=True):
    base_url: str
    control_url: str


@contextlib.asynccontextmanager
async def running(
    store: Emulator[Any, Any],
    *,
    listening: socket.socket | None = None,
    control: socket.socket | None = None,
    tls: Settings | None = None,
    before_control: Callable[[str], Awaitable[None]] | None = None,
) -> AsyncIterator[ServedEmulator]:
    """Serves until the block ends. Without sockets, on free ports of loopback. `before_control` gets the address of the
    store's API, which answers already; the control API does when it is done."""
    own, other = listening or _free_port(), control or _free_port()
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(own.close)
        stack.callback(other.close)
        stack.push_async_callback(store.close)
        await stack.enter_async_context(served(store.application(), own, tls or _PLAIN))
        base_url = f"{'https' if tls else 'http'}://{_LOOPBACK}:{own.getsockname()[1]}"
        if before_control is not None:
            await before_control(base_url)
        await stack.enter_async_context(served(application(store), other, _PLAIN))
        yield ServedEmulator(base_url, f"http://{_LOOPBACK}:{other.getsockname()[1]}/control")


async def keep_time(store: Emulator[Any, Any]) -> None:
    """Lets a clock that ticks bring what it brings, for ever."""
    while True:
        await store.move(store.clock.now())
        await asyncio.sleep(0.5)


def _free_port() -> socket.socket:
    listening = socket.create_server((_LOOPBACK, 0))
    listening.setblocking(False)
    return listening
