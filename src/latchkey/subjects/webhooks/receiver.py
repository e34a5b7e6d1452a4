"""A receiver for trying webhooks out: accepts them over TLS, reports what arrived, and misbehaves on request.

The path of the URL chooses the behaviour: `/` answers 200; `/status/503` that status; `/flaky/2` fails every event
twice with 500 and then takes it; `/slow/250` answers after so many milliseconds; `/hang` never answers; `/half` closes
in the middle of its headers; `/cut` in the middle of its body; `/endless` answers 200 and an endless body, `/trickle`
the same a byte at a time; `/garbage` is not HTTP; `/redirect` points elsewhere; `/down` closes at once. `/later/5/...`
behaves for 5 seconds from its first request as the rest of the path says, and well afterwards.
"""

import asyncio
import ssl
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec import Struct, json

_OK = b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 16\r\n\r\n{"message":"ok"}'
_FAILED = b"HTTP/1.1 %d x\r\ncontent-length: 4\r\n\r\noops"
_BEGINS = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n"
_WRITTEN = {
    "half": b"HTTP/1.1 200 OK\r\ncontent-le",
    "cut": b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nthe beginning",
    "garbage": b"\x00\x01 this is not HTTP \xff" * 20,
    "redirect": b"HTTP/1.1 307 x\r\nlocation: https://169.254.169.254/latest\r\ncontent-length: 0\r\n\r\n",
    "endless": _BEGINS,
    "trickle": _BEGINS,
}
_POURED = {"endless": b"and so on " * 1000, "trickle": b"."}
_MAX = 16 * 1024 * 1024


class _Seen(Struct):
    id: str = ""
    app_user_id: str = ""
    sequence: int = 0
    type: str = ""


class _Envelope(Struct):
    event: _Seen


_ENVELOPE = json.Decoder(_Envelope)


class ReceivedWebhook(Struct, frozen=True):
    at_us: int
    path: str
    headers: dict[str, str]
    body: bytes
    event: _Seen


@dataclass(slots=True)
class Receiver:
    told: Callable[[ReceivedWebhook, str], None]
    # If given, it returns the whole HTTP response, and the path is ignored.
    answering: Callable[[ReceivedWebhook], Awaitable[bytes]] | None = None
    _began: dict[str, float] = field(default_factory=dict)
    _tries: Counter[tuple[str, str]] = field(default_factory=Counter)

    _connections: set[asyncio.Transport] = field(default_factory=set)

    def protocol(self) -> asyncio.Protocol:
        return _Connection(self, self._connections)

    def hang_up(self) -> None:
        """Close all connections."""
        for connection in list(self._connections):
            connection.abort()

    def behaviour(self, arrival: ReceivedWebhook) -> tuple[str, int]:
        """The behaviour for this arrival, as a word and a number."""
        word, _, rest = arrival.path.lstrip("/").partition("/")
        if word == "later":
            seconds, _, rest = rest.partition("/")
            now = time.monotonic()
            if now - self._began.setdefault(arrival.path, now) >= float(seconds):
                return "status", 200
            word, _, rest = rest.partition("/")
        number = int(rest) if rest.isdigit() else 0
        if word == "flaky":
            self._tries[arrival.path, arrival.event.id] += 1
            return "status", 500 if self._tries[arrival.path, arrival.event.id] <= number else 200
        if word in {"status", "slow", "hang", "down", *_WRITTEN}:
            return word, number
        return "status", 200


class _Connection(asyncio.Protocol):
    """Just enough of HTTP/1.1 for one well-behaved client."""

    def __init__(self, receiver: Receiver, connections: set[asyncio.Transport]) -> None:
        self._receiver = receiver
        self._connections = connections
        self._buffer = bytearray()
        self._transport: Any = None
        self._answers: set[asyncio.Task[None]] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._connections.add(self._transport)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio calls it so
        self._connections.discard(self._transport)
        self._transport = None

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head = bytes(self._buffer[:end]).decode("latin-1").split("\r\n")
            headers = {
                name.strip().lower(): value.strip() for name, _, value in (one.partition(":") for one in head[1:])
            }
            length = int(headers.get("content-length", "0"))
            if length > _MAX or len(self._buffer) < end + 4 + length:
                return
            body = bytes(self._buffer[end + 4 : end + 4 + length])
            del self._buffer[: end + 4 + length]
            self._arrived(head[0].split(" ")[1], headers, body)

    def _arrived(self, path: str, headers: dict[str, str], body: bytes) -> None:
        try:
            event = _ENVELOPE.decode(body).event
        except Exception:  # show whatever arrives
            event = _Seen()
        arrival = ReceivedWebhook(time.time_ns() // 1000, path, headers, body, event)
        if self._receiver.answering is not None:
            # The event loop keeps only a weak reference to a task.
            task = asyncio.create_task(self._write(self._receiver.answering(arrival)))
            self._answers.add(task)
            task.add_done_callback(self._answers.discard)
            return
        word, number = self._receiver.behaviour(arrival)
        self._receiver.told(arrival, f"{word} {number}".removesuffix(" 0"))
        self._answer(word, number)

    async def _write(self, answer: Awaitable[bytes]) -> None:
        reply = await answer
        if self._transport is not None:
            self._transport.write(reply)

    def _answer(self, word: str, number: int) -> None:
        if self._transport is None:
            return
        if word == "slow":
            asyncio.get_running_loop().call_later(number / 1000, self._answer, "status", 200)
        elif word == "status":
            self._transport.write(_OK if number == 200 else _FAILED % number)
        elif word in _WRITTEN:
            self._transport.write(_WRITTEN[word])
        if word in {"half", "cut", "garbage"}:
            self._transport.close()
        elif word in _POURED:
            self._pour(_POURED[word])
        elif word == "down":
            self._transport.abort()

    def _pour(self, drop: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            if self._transport.get_write_buffer_size() < 65536:
                self._transport.write(drop)
            asyncio.get_running_loop().call_later(0.01, self._pour, drop)


def tls(cert: Path, key: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return context


async def listen(
    receiver: Receiver, context: ssl.SSLContext, host: str = "127.0.0.1", port: int = 0
) -> asyncio.AbstractServer:
    return await asyncio.get_running_loop().create_server(
        receiver.protocol, host, port, ssl=context, backlog=1024, reuse_address=True
    )


@asynccontextmanager
async def listening(receiver: Receiver, context: ssl.SSLContext) -> AsyncIterator[int]:
    """Runs the receiver on a free port of this machine, and closes it afterwards."""
    server = await listen(receiver, context)
    try:
        yield server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]  # asyncio's own Server has it
    finally:
        server.close()
        receiver.hang_up()
        # The transports close in the next iterations of the loop.
        await asyncio.sleep(0.01)
