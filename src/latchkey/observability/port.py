"""`/metrics` on a port of its own. All processes of a machine accept connections there, and any of them answers for
all: it is there as long as one of them is."""

import asyncio
import socket
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from latchkey.observability.peer_metrics import CONTENT_TYPE
from latchkey.observability.watch import Watch

_PATIENCE_SECONDS = 15.0
# For a client that connects and sends nothing.
_READING_SECONDS = 10.0


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    timeout = 0

    def __init__(self, listening: socket.socket) -> None:
        super().__init__(listening.getsockname()[:2], _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listening.dup()
        # Another process may be quicker to accept.
        self.socket.setblocking(False)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
        self.setup_environ()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no error of ours."""


class _Handler(WSGIRequestHandler):
    timeout = _READING_SECONDS

    def log_message(self, format: str, *args: Any) -> None:
        """Scrapes are not logged."""


def listen(host: str, port: int) -> socket.socket:
    """For a process that was given no socket."""
    return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)


def serve(watch: Watch, listening: socket.socket) -> Callable[[], None]:
    """Answer on this socket until the function that is returned is called."""
    loop = asyncio.get_running_loop()

    def application(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        def say(status: str, body: bytes, *headers: tuple[str, str]) -> Iterable[bytes]:
            start(status, [("Content-Length", str(len(body))), ("Cache-Control", "no-store"), *headers])
            return [body] if environ["REQUEST_METHOD"] != "HEAD" else []

        plain = ("Content-Type", "text/plain; charset=utf-8")
        if environ["PATH_INFO"] not in {"/metrics", "/"}:
            return say("404 Not Found", b"Only /metrics is here.\n", plain)
        if environ["REQUEST_METHOD"] not in {"GET", "HEAD"}:
            return say("405 Method Not Allowed", b"Only GET is possible here.\n", plain, ("Allow", "GET, HEAD"))
        if watch.has_key and not watch.admits(environ.get("HTTP_AUTHORIZATION", "").encode("latin-1")):
            refused = ("WWW-Authenticate", "Bearer")
            return say("401 Unauthorized", b"Send 'Authorization: Bearer <metrics_key>'.\n", plain, refused)
        found: Future[bytes] = asyncio.run_coroutine_threadsafe(watch.text(), loop)
        try:
            text = found.result(_PATIENCE_SECONDS)
        except TimeoutError:
            found.cancel()
            return say("503 Service Unavailable", b"The process is too busy.\n", plain)
        return say("200 OK", text, ("Content-Type", CONTENT_TYPE))

    server = _Server(listening)
    server.set_app(application)
    # The event loop waits for connections, and each gets a thread: nothing wakes up while nobody asks.
    loop.add_reader(server.socket, server.handle_request)

    def end() -> None:
        loop.remove_reader(server.socket)
        server.server_close()

    return end
