"""A reply begins when the request's body has been read, whatever the application read of it."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from itertools import repeat
from typing import Any

import pytest

from latchkey import server
from latchkey.server import HEARD_OUT, Listener, hearing_out
from latchkey.settings import Settings
from tests.patience import PATIENCE

CHUNK = b"x" * 65_536


class Request:
    """Of a client that sends these chunks, to an application that replies after it has read `reads` of them."""

    def __init__(self, chunks: Iterator[bytes], reads: int = 0, method: str = "POST", length: bytes = b"") -> None:
        self.chunks, self.reads = chunks, reads
        headers = [(b"host", b"localhost"), *([(b"content-length", length)] if length else [])]
        self.scope = {"type": "http", "method": method, "headers": headers}
        self.seen: list[str] = []

    async def receive(self) -> Any:
        chunk = next(self.chunks, None)
        self.seen.append("body" if chunk else "end")
        return {"type": "http.request", "body": chunk or b"", "more_body": bool(chunk)}

    async def send(self, message: Any) -> None:
        self.seen.append(message["type"].removeprefix("http.response."))

    async def application(self, _: Any, receive: Any, send: Any) -> None:
        for _ in range(self.reads):
            await receive()
        for kind in ("start", "body"):
            await send({"type": f"http.response.{kind}"})

    async def answered(self) -> list[str]:
        await hearing_out(self.application)(self.scope, self.receive, self.send)
        return self.seen


@pytest.mark.parametrize("reads", [0, 2, 4])
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
async def test_a_reply_begins_after_the_end_of_the_body(method: str, reads: int) -> None:
    request = Request(iter([CHUNK] * 3), reads, method)
    assert await request.answered() == ["body", "body", "body", "end", "start", "body"]


async def test_the_body_of_a_get_is_read_where_there_is_one() -> None:
    assert await Request(iter([CHUNK]), method="GET", length=b"65536").answered() == ["body", "end", "start", "body"]
    assert await Request(iter(()), method="GET").answered() == ["start", "body"]


@pytest.mark.parametrize(("length", "chunks"), [(b"", 257), (b"10", 257), (b"%d" % (HEARD_OUT + 1), 0)])
async def test_a_body_without_an_end_is_read_only_so_far(length: bytes, chunks: int) -> None:
    request = Request(repeat(CHUNK), length=length)
    assert await request.answered() == ["body"] * chunks + ["start", "body"]


async def test_a_body_that_does_not_arrive_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "PATIENCE_SECONDS", 0.0)
    request = Request(iter(()))
    monkeypatch.setattr(request, "receive", asyncio.Event().wait)
    assert await request.answered() == ["start", "body"]


async def say_ok(scope: Any, _: Any, send: Any) -> None:
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"ok"})


async def asked(listening: socket.socket) -> bytes:
    """The first line of the reply to a request on a connection of its own."""
    reader, writer = await asyncio.open_connection(*listening.getsockname())
    writer.write(b"GET / HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")
    reply = await asyncio.wait_for(reader.read(), PATIENCE)
    writer.close()
    return reply.partition(b"\r\n")[0]


@contextlib.asynccontextmanager
async def served_here() -> AsyncIterator[socket.socket]:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        async with server.served(say_ok, listening.dup(), Settings(behind_proxy=True), drain_seconds=0.1):
            yield listening


async def test_more_than_a_thousand_idle_connections_keep_nobody_out() -> None:
    async with served_here() as listening, contextlib.AsyncExitStack() as open_ones:
        for _ in range(1100):
            _, writer = await asyncio.open_connection(*listening.getsockname())
            open_ones.callback(writer.close)
        assert await asked(listening) == b"HTTP/1.1 200 OK"


REQUEST = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"
# The preface, and a frame of settings without any.
HTTP_2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])


@pytest.mark.parametrize("begins", [REQUEST, HTTP_2], ids=["HTTP/1.1", "HTTP/2"])
async def test_a_connection_whose_client_is_gone_is_closed(monkeypatch: pytest.MonkeyPatch, begins: bytes) -> None:
    monkeypatch.setattr(server, "IDLE_SECONDS", 2)
    monkeypatch.setattr(server, "_PING_ANSWERED_SECONDS", 1)
    async with served_here() as listening:
        reader, writer = await asyncio.open_connection(*listening.getsockname())
        writer.write(begins)
        assert await asyncio.wait_for(reader.read(), PATIENCE)
        writer.close()


async def test_a_socket_that_a_process_has_left_is_taken_over_by_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "LAST_REQUESTS_SECONDS", 0.0)

    with socket.socket() as kept:
        kept.bind(("127.0.0.1", 0))
        for delay in (0.01, 0.0):
            listener = Listener(say_ok, kept.dup(), Settings(behind_proxy=True))
            serving = asyncio.create_task(listener.serve())
            assert await asked(kept) == b"HTTP/1.1 200 OK"
            await listener.leave(delay)
            listener.stop()
            await asyncio.wait_for(serving, PATIENCE)
