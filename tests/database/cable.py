"""A cable to a PostgreSQL server: a port of this machine that passes everything on to the server's socket, until it is
held. Held, it takes connections and bytes, and says nothing: like a machine that froze."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit


class Cable:
    def __init__(self, server_url: str) -> None:
        parts = urlsplit(server_url)
        self.database = parts.path.removeprefix("/")
        self.socket = str(Path(parse_qs(parts.query)["host"][0]) / ".s.PGSQL.5432")
        self.port = 0
        self.flows = asyncio.Event()
        self.flows.set()
        self._open: set[asyncio.Task[None]] = set()

    def hold(self) -> None:
        self.flows.clear()

    def release(self) -> None:
        self.flows.set()

    def cut(self) -> None:
        """End every connection."""
        for task in self._open:
            task.cancel()

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            await self.flows.wait()
            behind, ahead = await asyncio.open_unix_connection(self.socket)
            ways = [asyncio.create_task(self._pass(reader, ahead)), asyncio.create_task(self._pass(behind, writer))]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                ahead.close()
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._open.discard(task)
            writer.close()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                await self.flows.wait()
                writer.write(data)
                await writer.drain()


@asynccontextmanager
async def cable(server_url: str) -> AsyncIterator[Cable]:
    made = Cable(server_url)
    server = await asyncio.start_server(made.take, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
        made.cut()
