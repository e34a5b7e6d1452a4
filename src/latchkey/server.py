"""Granian, embedded in our own event loop, on a socket bound by the supervisor.

The supervisor binds the sockets, so it can report a port in use before anything starts. A socket
listens at the latest when its process accepts connections.
"""

import asyncio
import contextlib
import logging
import os
import resource
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any, cast

from granian import net
from granian.constants import Interfaces, SSLProtocols
from granian.http import HTTP1Settings, HTTP2Settings
from granian.server.embed import Server

from latchkey.garbage import collect_seldom
from latchkey.settings import BACKLOG, STOPPING, Settings

# An unread body is read and discarded up to this size, as long as it keeps arriving.
HEARD_OUT = 16 * 1024 * 1024
PATIENCE_SECONDS = 5.0
# Connections at once, most of them idle. One more waits until another closes.
MOST_CONNECTIONS = 10_000
# A connection of HTTP/1.1 closes after this time without a request, one of HTTP/2 when its client is gone for so long.
# Proxies close theirs after 60 s: were it longer than ours, they would send requests into a closed connection.
IDLE_SECONDS = 75
# A client that does not answer a ping of HTTP/2 for so long is gone.
_PING_ANSWERED_SECONDS = 15

# For connections that were made before new ones are ignored: until their requests have arrived.
LAST_REQUESTS_SECONDS = 0.5
# Options of Linux that Python has no names for: packets with fewer hops left than this are dropped. No usual system
# sends its own with 255.
_IP_MINTTL, _IPV6_MINHOPCOUNT = 21, 73
_ALL_PACKETS, _NO_PACKETS = 0, 255


class Listener:
    def __init__(self, application: Any, listening: socket.socket, settings: Settings) -> None:
        # A process that had this socket before may have left it ignoring connections.
        _take(listening, _ALL_PACKETS)
        listening.listen(BACKLOG)
        self._listening = listening
        self._leaving = False
        self._server = _Server(
            listening,
            target=hearing_out(self._announcing(application)),
            interface=Interfaces.ASGI,
            backlog=BACKLOG,
            backpressure=_connections(),
            http1_settings=HTTP1Settings(header_read_timeout=IDLE_SECONDS * 1000),
            http2_settings=HTTP2Settings(
                keep_alive_interval=(IDLE_SECONDS - _PING_ANSWERED_SECONDS) * 1000,
                keep_alive_timeout=_PING_ANSWERED_SECONDS,
            ),
            websockets=False,
            ssl_cert=settings.tls_cert,
            ssl_key=settings.tls_key,
            # Some stores' notification senders and older runtimes support only TLS 1.2.
            ssl_protocol_min=SSLProtocols.tls12,
        )
        # Only its errors are useful; the rest ("experimental", "spawning worker") is noise on every start.
        logging.getLogger("_granian").setLevel(logging.ERROR)

    async def serve(self) -> None:
        collect_seldom()
        await self._server.serve()

    async def leave(self, seconds: float) -> None:
        """Before `stop`, so that a proxy loses no request. For some seconds requests are answered, with the word that
        this process is stopping. Then no connection is made any more, and those that are waiting are accepted: they
        would be reset when the socket closes."""
        self._leaving = True
        await asyncio.sleep(seconds)
        if seconds:
            _take(self._listening, _NO_PACKETS)
            await asyncio.sleep(LAST_REQUESTS_SECONDS)

    def stop(self) -> None:
        """Accept no new connections, finish the requests under way, close idle connections; then `serve` returns."""
        self._server.stop()  # type: ignore[no-untyped-call]  # granian does not annotate it
        # The kernel refuses connections when the last copy is closed. The supervisor closes its own.
        self._listening.close()

    def _announcing(self, application: Any) -> Callable[..., Awaitable[None]]:
        """The application. While this process is stopping, each reply closes its connection; one of HTTP/2 is ended by
        Granian, with GOAWAY, when it stops."""

        def answer(scope: Any, receive: Any, send: Any) -> Awaitable[None]:
            if self._leaving and scope["type"] == "http":
                scope[STOPPING] = True
                send = send if scope["http_version"].startswith("2") else partial(_send_last, send)
            answering: Awaitable[None] = application(scope, receive, send)
            return answering

        return answer


@contextlib.asynccontextmanager
async def served(
    application: Any, listening: socket.socket, settings: Settings, drain_seconds: float = 5.0
) -> AsyncIterator[asyncio.Task[None]]:
    """Serves until the block ends; then the requests under way have this long."""
    listener = Listener(application, listening, settings)
    serving = asyncio.create_task(listener.serve())
    try:
        yield serving
    finally:
        listener.stop()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(serving, drain_seconds)


def _connections() -> int:
    """With a file for each of them, and as many for everything else."""
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = 2 * MOST_CONNECTIONS if most == resource.RLIM_INFINITY else min(most, 2 * MOST_CONNECTIONS)
    if allowed != resource.RLIM_INFINITY and allowed < files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, most))
    return files // 2


def _take(listening: socket.socket, hops: int) -> None:
    """Which packets make a new connection; those of connections that exist are not concerned. A client whose first
    packet was dropped sends it again after a second, and is refused then."""
    # A sandbox may not know these.
    with contextlib.suppress(OSError):
        listening.setsockopt(socket.IPPROTO_IP, _IP_MINTTL, hops)
        if listening.family is socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, _IPV6_MINHOPCOUNT, hops)


async def _send_last(send: Any, message: Any) -> None:
    if message["type"] == "http.response.start":
        message = {**message, "headers": [*message.get("headers", ()), (b"connection", b"close")]}
    await send(message)


def hearing_out(application: Any) -> Callable[..., Awaitable[None]]:
    """The ASGI application, with every reply held back until the request's body has been read.

    Most clients read the reply only after they have sent everything. If a reply ends before that, Granian resets the
    stream of HTTP/2, or closes the connection of HTTP/1.1, and the client sees that instead of the reply."""

    def answer(scope: Any, receive: Any, send: Any) -> Awaitable[None]:
        announced = b""
        if scope["type"] == "http":
            announced = next((value for name, value in scope["headers"] if name == b"content-length"), b"")
        # A read without a body is passed on as it is.
        if scope["type"] == "http" and (announced or scope["method"] not in ("GET", "HEAD")):
            rest = _Rest(receive, send, is_hopeless=announced.isdigit() and int(announced) > HEARD_OUT)
            receive, send = rest.receive, rest.send
        answering: Awaitable[None] = application(scope, receive, send)
        return answering

    return answer


class _Rest:
    """What is left of a request's body."""

    def __init__(self, receive: Any, send: Any, *, is_hopeless: bool) -> None:
        self._receive, self._send = receive, send
        self._more, self._size = not is_hopeless, 0

    async def receive(self) -> Any:
        message = await self._receive()
        self._more = self._more and message.get("more_body", False)
        self._size += len(message.get("body", b""))
        return message

    async def send(self, message: Any) -> None:
        with contextlib.suppress(TimeoutError):
            while self._more and self._size <= HEARD_OUT:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    await self.receive()
        self._more = False
        await self._send(message)


class _Server(Server):
    _sfd: Any
    _shd: Any

    def __init__(self, listening: socket.socket, **options: Any) -> None:
        super().__init__(**options)
        # Granian closes the descriptor it is given.
        self._given = os.dup(listening.fileno())

    def _init_shared_socket(self) -> None:
        self._sfd = self._given
        self._shd = cast("Any", net).SocketHolder(self._sfd, False, BACKLOG)
