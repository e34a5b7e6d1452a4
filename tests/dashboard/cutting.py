"""A TCP proxy between browser and site that a test can cut and mend."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit


@dataclass
class Wire:
    url: str = ""
    whole: bool = True
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)

    def cut(self) -> None:
        """Break every connection, and refuse new ones until `mend`."""
        self.whole = False
        for writer in self._writers:
            writer.transport.abort()

    def mend(self) -> None:
        self.whole = True


@asynccontextmanager
async def wired(url: str) -> AsyncIterator[Wire]:
    """A proxy in front of the site, with an address of its own."""
    port = urlsplit(url).port
    wire = Wire()
    tasks: set[asyncio.Task[None]] = set()

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.transport.abort()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not wire.whole:
            writer.transport.abort()
            return
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
        wire._writers |= {writer, far_writer}
        for pair in ((reader, far_writer), (far_reader, writer)):
            tasks.add(task := asyncio.create_task(carry(*pair)))
            task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    wire.url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield wire
    finally:
        wire.cut()
        server.close()
        for task in set(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
