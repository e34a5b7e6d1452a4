"""The processes of one machine ask each other for their metrics, so that any of them can answer for all.

Each process listens on a local socket. Its name is in Linux' abstract namespace: it needs no folder and ends with the
process. Only processes of the same user are answered, and only those are believed. Where there is no such namespace,
a process answers for itself alone.
"""

import asyncio
import os
import socket
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import structlog
from msgspec import Struct, msgpack

from latchkey.observability.exposition import Block

log = structlog.get_logger()

# A process that is busy for longer than this is left out of one scrape.
_PATIENCE_SECONDS = 5.0
_LARGEST = 64 << 20
_decoder = msgpack.Decoder(list[Block])


class ProcessIdentity(Struct, frozen=True):
    """Which process this is, and who the others are."""

    # As the supervisor calls it: `api-1`, `background`.
    name: str
    # The same for all processes of one supervisor, and no other. Empty: there are no others.
    family: str = ""
    # The names of all of them, this one included.
    names: tuple[str, ...] = ()


class Siblings:
    def __init__(self, identity: ProcessIdentity, own: Callable[[], list[Block]]) -> None:
        self._identity = identity
        self._own = own
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        if not self._identity.family or not _is_possible():
            return
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listening.bind(_address(self._identity.family, self._identity.name))
            listening.listen()
            listening.setblocking(False)
            self._server = await asyncio.start_unix_server(self._answer, sock=listening)
        except OSError as error:
            listening.close()
            log.warning("metrics of this process cannot be gathered", process=self._identity.name, reason=str(error))

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    async def ask(self) -> dict[str, list[Block] | None]:
        """What each of the other processes says, by name; None from those that did not answer."""
        identity = self._identity
        others = (
            [name for name in identity.names if name != identity.name] if identity.family and _is_possible() else []
        )
        answers = await asyncio.gather(*(self._ask(name) for name in others))
        return dict(zip(others, answers, strict=True))

    async def _ask(self, name: str) -> list[Block] | None:
        writer: asyncio.StreamWriter | None = None
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                asking = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                asking.setblocking(False)
                try:
                    # A local connect never waits: it is done, or refused.
                    asking.connect(_address(self._identity.family, name))
                except OSError:
                    asking.close()
                    raise
                reader, writer = await asyncio.open_unix_connection(sock=asking, limit=_LARGEST)
                if not _is_ours(writer):
                    return None
                return _decoder.decode(await reader.read(-1))
        except (OSError, TimeoutError, ValueError):
            return None
        finally:
            if writer is not None:
                writer.close()

    async def _answer(self, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if _is_ours(writer):
                writer.write(msgpack.encode(self._own()))
                async with asyncio.timeout(_PATIENCE_SECONDS):
                    await writer.drain()
        except (OSError, TimeoutError):
            pass
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


def _is_possible() -> bool:
    return sys.platform == "linux"


def _address(family: str, name: str) -> str:
    return f"\0latchkey-{family}-{name}"


def _is_ours(writer: asyncio.StreamWriter) -> bool:
    """Whether the process at the other end runs as the same user. Anybody can connect to an abstract name."""
    connected: Any = writer.get_extra_info("socket")
    size = struct.calcsize("3i")
    credentials = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    _, user, _ = struct.unpack("3i", credentials)
    return bool(user == os.geteuid())
