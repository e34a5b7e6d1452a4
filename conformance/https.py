"""A plain HTTPS client, and a small HTTPS server that keeps what it was sent."""

import functools
import http.client
import json
import ssl
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

PATIENCE = 30.0
Found = TypeVar("Found")


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def ask(
    base: str,
    method: str,
    path: str,
    value: Any = None,
    *,
    ca: str | None = None,
    authorization: str | None = None,
    headers: Mapping[str, str] | None = None,
    patience: float = PATIENCE,
) -> Reply:
    address = urlsplit(base)
    sent = {"Content-Type": "application/json", **(headers or {})}
    if authorization is not None:
        sent["Authorization"] = authorization
    body = value if isinstance(value, bytes) else None if value is None else json.dumps(value).encode()
    # Connections are used again, because most of a request's time is the handshake.
    idle, known = _idle[base, ca], None
    with suppress(IndexError):
        known = idle.pop()
    connection = known or _connection(address.scheme, address.netloc, ca)
    connection.timeout = patience
    if known is not None:
        known.sock.settimeout(patience)
    try:
        connection.request(method, address.path.rstrip("/") + path, body, sent)
        answer = connection.getresponse()
        reply = Reply(answer.status, {name.lower(): text for name, text in answer.getheaders()}, answer.read())
    except Exception as error:
        connection.close()
        if known is None or not isinstance(error, (ConnectionError, ssl.SSLError)):
            raise
        # The server had closed it meanwhile.
        return ask(base, method, path, value, ca=ca, authorization=authorization, headers=headers, patience=patience)
    if connection.sock is not None:
        idle.append(connection)
    return reply


_idle: dict[tuple[str, str | None], list[http.client.HTTPConnection]] = defaultdict(list)


def close_connections() -> None:
    for connections in _idle.values():
        while connections:
            connections.pop().close()


def _connection(scheme: str, netloc: str, ca: str | None) -> http.client.HTTPConnection:
    if scheme == "https":
        return http.client.HTTPSConnection(netloc, context=_context(ca))
    return http.client.HTTPConnection(netloc)  # the control address of a store emulator, on this machine only


@functools.cache
def _context(ca: str | None) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=ca)


def wait_for(look: Callable[[], Found | None], what: str, patience: float = PATIENCE) -> Found:
    deadline = time.monotonic() + patience
    while True:
        found = look()
        if found:
            return found
        assert time.monotonic() < deadline, f"waited {patience:.0f} s for {what}"
        time.sleep(0.03)


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    at: float = field(default_factory=time.monotonic)

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Answer = Callable[[Request], tuple[int, Any] | tuple[int, Any, Mapping[str, str]]]


@dataclass
class Server:
    """What was received, the newest last. `answer` gives the status of a reply, its JSON or its page, and
    more headers."""

    address: str = ""
    requests: list[Request] = field(default_factory=list)
    answer: Answer = lambda _: (200, {"message": "received"})

    def events(self, user: str | None = None) -> list[dict[str, Any]]:
        """The events of webhooks, without those sent as a test."""
        events = [
            request.json["event"] for request in list(self.requests) if "latchkey-test-event" not in request.headers
        ]
        return [event for event in events if user in (None, event["app_user_id"], *event["aliases"])]


@contextmanager
def serving(certificate: Path, key: Path, host: str = "127.0.0.1") -> Iterator[Server]:
    server = Server()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _reply(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = Request(self.command, self.path, headers, body)
            server.requests.append(request)
            status, value, *more = server.answer(request)
            is_page = isinstance(value, str)
            reply = (value if is_page else json.dumps(value)).encode()
            self.send_response(status)
            self.send_header("Content-Type", "text/html" if is_page else "application/json")
            self.send_header("Content-Length", str(len(reply)))
            for name, text in more[0].items() if more else ():
                self.send_header(name, text)
            self.end_headers()
            self.wfile.write(reply)

        do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = _reply  # noqa: N815  # the names that http.server calls

        def log_message(self, format: str, *args: object) -> None:
            pass

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            """A client that goes away is no error of this server."""

    listening = Quiet(("0.0.0.0" if host != "127.0.0.1" else host, 0), Handler)  # a BASE elsewhere must reach it
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    listening.socket = context.wrap_socket(listening.socket, server_side=True, do_handshake_on_connect=False)
    server.address = f"https://{host}:{listening.server_port}"
    thread = threading.Thread(target=listening.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        listening.shutdown()
        listening.server_close()
        thread.join()
