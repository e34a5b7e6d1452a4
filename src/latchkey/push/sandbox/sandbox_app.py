"""The sandbox as an ASGI application.

Servers:  POST /api/v1/notifications (or /notifications) with Authorization: Basic KEY (or Key KEY)
          GET  /api/v1/notifications, /api/v1/notifications/{id}           what was sent
          GET  /api/v1/players, /api/v1/players/{id}                       to whom
Devices:  POST /api/v1/players                    register; answers {success, id}
          PUT  /api/v1/players/{id}               language, notifications on or off
          GET  /api/v1/players/{id}/arrivals      a stream of server-sent events
Testers:  PUT, GET, DELETE /sandbox/fault         see protocol.py
"""

import asyncio
import hmac
import time
from collections.abc import AsyncIterator, Callable, Iterable
from functools import partial
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from latchkey.push.sandbox import protocol
from latchkey.push.sandbox.protocol import Fault, Faults, NewNotification, NewPlayer, PlayerChange, SandboxRefusal
from latchkey.push.sandbox.sandbox_database import SandboxDatabase

MOST_BYTES = 1024 * 1024
NO_PLAYER = "No user with this id found"

# Often enough for a device to notice a dead stream within a minute, and for every proxy on the way to keep it open.
HEARTBEAT = 15.0


class DeviceStreams:
    def __init__(self, database: SandboxDatabase, now: Callable[[], int]) -> None:
        self._database = database
        self._now = now
        self._wakers: dict[str, asyncio.Event] = {}
        self._closed = False

    def connected(self, player_id: str) -> bool:
        return player_id in self._wakers

    def wake(self, player_ids: Iterable[str]) -> None:
        for player_id in player_ids:
            if (waker := self._wakers.get(player_id)) is not None:
                waker.set()

    def close(self) -> None:
        self._closed = True
        self.wake(list(self._wakers))

    async def arrivals(self, player_id: str) -> AsyncIterator[bytes]:
        """All pending notifications of a device, now and as they come. A newer stream of the same device ends this
        one."""
        waker = asyncio.Event()
        if (older := self._wakers.get(player_id)) is not None:
            older.set()
        self._wakers[player_id] = waker
        try:
            yield b": connected\n\n"
            while self._wakers.get(player_id) is waker and not self._closed:
                for number, shown in self._database.pending(player_id, self._now()):
                    yield b"id: %d\nevent: notification\ndata: %b\n\n" % (number, msgspec.json.encode(shown))
                    # Marked after it was sent: if the stream breaks just then, it is sent again, and the device, which
                    # knows its id, shows it once.
                    self._database.mark_arrived(player_id, number, self._now())
                try:
                    await asyncio.wait_for(waker.wait(), HEARTBEAT)
                except TimeoutError:
                    yield b": still here\n\n"
                waker.clear()
        finally:
            if self._wakers.get(player_id) is waker:
                del self._wakers[player_id]


class Sandbox:
    """One provider with one app. `streams.close` ends the open streams, so that a server can stop."""

    def __init__(
        self,
        app_id: str,
        rest_api_key: str,
        database: SandboxDatabase,
        now: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self.app_id = app_id
        self._key = rest_api_key
        self._now = now
        self.database = database
        self.faults = Faults()
        self.streams = DeviceStreams(database, now)
        self.application = Starlette(routes=self._routes(), exception_handlers=_HANDLERS)

    def _routes(self) -> list[Route]:
        return [
            *(
                route
                for base in ("/api/v1", "")
                for route in (
                    Route(f"{base}/notifications", partial(self.faults.around, self._accept), methods=["POST"]),
                    Route(f"{base}/notifications", self._sent, methods=["GET"]),
                    Route(f"{base}/notifications/{{id}}", self._one_sent, methods=["GET"]),
                    Route(f"{base}/players", partial(self.faults.around, self._register), methods=["POST"]),
                    Route(f"{base}/players", self._players, methods=["GET"]),
                    Route(f"{base}/players/{{id}}", self._player, methods=["GET"]),
                    Route(f"{base}/players/{{id}}", self._change, methods=["PUT"]),
                    Route(f"{base}/players/{{id}}", self._forget, methods=["DELETE"]),
                    Route(f"{base}/players/{{id}}/arrivals", self._arrivals, methods=["GET"]),
                )
            ),
            Route("/sandbox/fault", self._fault, methods=["PUT", "GET", "DELETE"]),
            Route("/healthz", _healthy, methods=["GET"]),
        ]

    async def _accept(self, request: Request) -> Response:
        self._authenticate(request)
        new = await self._body(request, NewNotification)
        if len(new.player_ids) > protocol.MOST_IDS:
            raise SandboxRefusal(400, f"include_player_ids may have at most {protocol.MOST_IDS} entries")
        if not new.player_ids:
            raise SandboxRefusal(400, protocol.NO_TARGET)
        if not new.contents.get("en"):
            raise SandboxRefusal(400, protocol.NO_ENGLISH)
        accepted = self.database.accept(new, self._now())
        older = request.url.path.startswith("/api/v1/")
        if accepted is None:
            reply: dict[str, Any] = {"id": "", **({"recipients": 0} if older else {}), "external_id": None}
            return _json({**reply, "errors": [protocol.NOBODY]})
        self.streams.wake(accepted.reached)
        reply = {"id": accepted.id, "external_id": accepted.external_id}
        if older:
            reply["recipients"] = accepted.recipients
        if accepted.invalid:
            reply["errors"] = {"invalid_player_ids": accepted.invalid}
        return _json(reply)

    async def _sent(self, request: Request) -> Response:
        self._authenticate(request)
        limit, offset = _page(request)
        count, found = self.database.notifications(limit, offset)
        return _json({"total_count": count, "offset": offset, "limit": limit, "notifications": found})

    async def _one_sent(self, request: Request) -> Response:
        self._authenticate(request)
        found = self.database.notification(request.path_params["id"])
        if found is None:
            raise SandboxRefusal(404, "Notification not found")
        return _json(found)

    async def _players(self, request: Request) -> Response:
        self._authenticate(request)
        limit, offset = _page(request)
        count, found = self.database.players(limit, offset)
        shown = [self._with_connection(player) for player in found]
        return _json({"total_count": count, "offset": offset, "limit": limit, "players": shown})

    async def _player(self, request: Request) -> Response:
        self._authenticate(request)
        player = self.database.player(request.path_params["id"])
        if player is None:
            raise SandboxRefusal(404, NO_PLAYER)
        return _json(self._with_connection(player))

    def _with_connection(self, player: dict[str, Any]) -> dict[str, Any]:
        return {**player, "connected": self.streams.connected(player["id"])}

    async def _register(self, request: Request) -> Response:
        new = await self._body(request, NewPlayer)
        return _json({"success": True, "id": self.database.register(new, self._now())})

    async def _change(self, request: Request) -> Response:
        id = self._own_device(request)
        change = await self._body(request, PlayerChange)
        self.database.change(id, change, self._now())
        return _json({"success": True, "id": id})

    async def _forget(self, request: Request) -> Response:
        self._authenticate(request)
        self.database.forget(request.path_params["id"])
        return _json({"success": True})

    async def _arrivals(self, request: Request) -> Response:
        id = self._own_device(request)
        return StreamingResponse(
            self.streams.arrivals(id), headers={"Cache-Control": "no-store"}, media_type="text/event-stream"
        )

    async def _fault(self, request: Request) -> Response:
        self._authenticate(request)
        if request.method == "PUT":
            self.faults.begin(await self._body(request, Fault))
        elif request.method == "DELETE":
            self.faults.now = None
        return _json(self.faults.now)

    async def _body(self, request: Request, form: type[protocol.Body]) -> protocol.Body:
        raw = b""
        async for chunk in request.stream():
            raw += chunk
            if len(raw) > MOST_BYTES:
                raise SandboxRefusal(413, "The body is too large")
        if request.headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
            raise SandboxRefusal(400, protocol.NO_APP)
        try:
            body = msgspec.json.decode(raw, type=form)
        except (ValueError, RecursionError) as error:
            raise SandboxRefusal(400, f"The body cannot be read: {error}") from None
        if getattr(body, "app_id", self.app_id) != self.app_id:
            raise SandboxRefusal(400, protocol.NO_APP)
        return body

    def _authenticate(self, request: Request) -> None:
        scheme, _, given = request.headers.get("authorization", "").strip().partition(" ")
        if scheme.lower() not in {"basic", "key"} or not given:
            raise SandboxRefusal(401, protocol.NO_KEY)
        if not hmac.compare_digest(given.strip().encode(), self._key.encode()):
            raise SandboxRefusal(403, protocol.NO_KEY)

    def _own_device(self, request: Request) -> str:
        """Player ids pass through web pages and servers, so a device proves itself with its secret identifier."""
        id: str = request.path_params["id"]
        exists, identifier = self.database.identifier_of(id)
        given = request.headers.get("authorization", "").removeprefix("Device ")
        if not exists or (identifier is not None and not hmac.compare_digest(given.encode(), identifier.encode())):
            raise SandboxRefusal(404, NO_PLAYER)
        return id


async def _healthy(_: Request) -> Response:
    return _json({"status": "ok"})


def _page(request: Request) -> tuple[int, int]:
    try:
        limit, offset = (
            int(request.query_params.get(name, ordinary)) for name, ordinary in (("limit", 50), ("offset", 0))
        )
    except ValueError:
        raise SandboxRefusal(400, "limit and offset are numbers") from None
    if not (1 <= limit <= 300 and 0 <= offset < 2**31):
        raise SandboxRefusal(400, "limit is 1 to 300, offset 0 or more")
    return limit, offset


def _json(value: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, None, "application/json")


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, SandboxRefusal)
    return _json({"errors": error.reasons}, error.status)


async def _not_routed(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    reply = _json({"errors": [error.detail]}, error.status_code)
    reply.headers.update(error.headers or {})
    return reply


_HANDLERS = {SandboxRefusal: _refused, HTTPException: _not_routed}
