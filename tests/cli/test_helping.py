"""Accepting at another process's socket, and leaving it again: no connection is lost, and none hears of it."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from latchkey.cli.authority import Certificates, ensure_certificates
from latchkey.cli.listeners import bind
from latchkey.helping import Helping
from latchkey.now import real_now
from latchkey.server import Listener, _deaf
from latchkey.settings import Settings
from tests.patience import PATIENCE, until

Connected = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def hello(scope: Any, receive: Any, send: Any) -> None:
    assert scope["type"] == "http", "a helper starts and stops no application"
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"hi"})


class Door:
    """A listening socket at which nobody accepts, until somebody helps."""

    def __init__(self, certificates: Certificates | None) -> None:
        (self.socket,) = bind("127.0.0.1", 0, 1)
        self._trusted = ssl.create_default_context(cafile=str(certificates.authority)) if certificates else None
        self.settings = Settings()
        if certificates:
            self.settings = Settings(tls_cert=certificates.cert, tls_key=certificates.key)

    async def connect(self) -> Connected:
        async with asyncio.timeout(PATIENCE):
            return await asyncio.open_connection(*self.socket.getsockname(), ssl=self._trusted)


async def answer(connected: Connected) -> bytes:
    reader, writer = connected
    writer.write(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
    async with asyncio.timeout(PATIENCE):
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        return await reader.readexactly(2)


@pytest.fixture(params=["plain", "tls"])
async def door(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Door]:
    address = [ipaddress.ip_address("127.0.0.1")]
    door = Door(ensure_certificates(tmp_path, address, real_now()) if request.param == "tls" else None)
    yield door
    door.socket.close()


@contextlib.asynccontextmanager
async def helper(door: Door) -> AsyncIterator[Helping]:
    helping = Helping(hello, door.settings)
    yield helping
    await helping.stop(PATIENCE)


async def test_who_leaves_accepts_no_more_and_keeps_what_it_has(door: Door) -> None:
    async with helper(door) as first, helper(door) as second:
        waiting = asyncio.create_task(door.connect())
        first.at([door.socket.fileno()])
        kept = await waiting
        assert await answer(kept) == b"hi"

        first.at([])
        nobody = asyncio.create_task(door.connect())
        raw = socket.create_connection(door.socket.getsockname())
        assert await answer(kept) == b"hi"
        # Both wait in the kernel's queue until somebody accepts them.
        second.at([door.socket.fileno()])
        assert await answer(await nobody) == b"hi"
        assert await answer(kept) == b"hi"
        raw.close()
        for _, writer in (kept, await nobody):
            writer.close()


async def test_idle_connections_are_closed_some_time_after_leaving(door: Door) -> None:
    helping = Helping(hello, door.settings, leaving_seconds=0)
    helping.at([door.socket.fileno()])
    kept = await door.connect()
    assert await answer(kept) == b"hi"
    helping.at([])
    async with asyncio.timeout(PATIENCE):
        assert await kept[0].read() == b""
    kept[1].close()

    async def nothing_is_left() -> bool:
        return not helping._serving

    await until(nothing_is_left)
    await helping.stop(PATIENCE)


async def test_leaving_at_once_is_harmless(door: Door) -> None:
    """The server may not have looked at the socket yet when it must leave it."""
    async with helper(door) as helping, helper(door) as other:
        for _ in range(20):
            helping.at([door.socket.fileno()])
            helping.at([])
            helping.at([door.socket.fileno()])
            await asyncio.sleep(0)
            helping.at([])
        other.at([door.socket.fileno()])
        connected = await door.connect()
        assert await answer(connected) == b"hi"
        connected[1].close()


def test_nobody_can_connect_to_the_socket_that_takes_the_place() -> None:
    with _deaf() as deaf, socket.socket() as client:
        client.settimeout(0.2)
        with pytest.raises(TimeoutError):
            client.connect(deaf.getsockname())


async def test_help_can_come_again(door: Door) -> None:
    async with helper(door) as helping:
        for _ in range(3):
            helping.at([door.socket.fileno()])
            connected = await door.connect()
            assert await answer(connected) == b"hi"
            connected[1].close()
            helping.at([])


async def test_nothing_is_left_open_after_stopping(door: Door) -> None:
    async with helper(door) as helping:
        helping.at([door.socket.fileno()])
        first = await door.connect()
        assert await answer(first) == b"hi"
        helping.at([])
        first[1].close()
    # After the end of the application, news may still arrive.
    helping.at([door.socket.fileno()])

    own = os.readlink(f"/proc/self/fd/{door.socket.fileno()}")

    def copies() -> Iterator[str]:
        for number in os.listdir("/proc/self/fd"):
            with contextlib.suppress(FileNotFoundError):
                yield os.readlink(f"/proc/self/fd/{number}")

    async def closed() -> bool:
        return list(copies()).count(own) == 1

    await until(closed)


async def test_a_listener_of_its_own_socket_retires_too(door: Door) -> None:
    """The number of the socket is all that the server knows of it; a new version of it must not copy it."""
    listener = Listener(hello, door.socket, door.settings, lifespan=False)
    serving = asyncio.create_task(listener.serve())
    connected = await door.connect()
    assert await answer(connected) == b"hi"
    listener.retire()
    late = socket.create_connection(door.socket.getsockname())
    assert await answer(connected) == b"hi"
    async with asyncio.timeout(PATIENCE):
        accepted, _ = await asyncio.get_running_loop().sock_accept(door.socket)
    accepted.close()
    listener.stop()
    await serving
    late.close()
    connected[1].close()
