"""Granian, embedded in our own event loop, on a socket bound by the supervisor.

The supervisor binds and keeps the sockets. So it can report a port in use before anything starts, and connections
that arrive while a process restarts wait instead of being refused.
"""

from __future__ import annotations

import logging
import os
import socket
from typing import Any, cast

from granian import net
from granian.constants import Interfaces, SSLProtocols
from granian.server.embed import Server

from latchkey.garbage import collect_seldom
from latchkey.settings import BACKLOG, Settings


class Listener:
    def __init__(self, application: Any, listening: socket.socket, settings: Settings) -> None:
        self._server = _Server(
            listening,
            target=application,
            interface=Interfaces.ASGI,
            backlog=BACKLOG,
            backpressure=BACKLOG,
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

    def stop(self) -> None:
        """Accept no new connections, finish the requests under way, close idle connections; then `serve` returns."""
        self._server.stop()  # type: ignore[no-untyped-call]  # granian does not annotate it


class _Server(Server):
    _sfd: Any
    _shd: Any

    def __init__(self, listening: socket.socket, **options: Any) -> None:
        super().__init__(**options)
        self._listening = listening

    def _init_shared_socket(self) -> None:
        # Granian closes the descriptor it is given.
        self._sfd = os.dup(self._listening.fileno())
        self._shd = cast("Any", net).SocketHolder(self._sfd, False, BACKLOG)
