"""Push providers that misbehave, over real TLS."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from latchkey.process.local_ca.authority import LocalCertificates

_OK = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
# What it sends after a request, and what it does then: keep silent, flood, drip or close.
BEHAVIOURS = {
    "hangs": (b"", "silence"),
    "closes at once": (b"", "close"),
    "stops in its headers": (_OK[:30], "close"),
    "stops in its body": (_OK + b'content-length: 1000\r\n\r\n{"id": "n1"}', "close"),
    "never ends": (_OK + b"\r\n", "flood"),
    "trickles": (_OK + b"\r\n", "drip"),
    "is not HTTP": (b"\x00\x01 this is not HTTP \xff" * 20, "close"),
    "sends one elsewhere": (
        b"HTTP/1.1 307 x\r\nlocation: https://169.254.169.254/latest\r\ncontent-length: 0\r\n\r\n",
        "close",
    ),
}


@asynccontextmanager
async def misbehaving(certificates: LocalCertificates, behaviour: str) -> AsyncIterator[str]:
    said, then = BEHAVIOURS[behaviour]
    conversations: set[asyncio.Task[None]] = set()

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        conversations.add(task)
        with contextlib.suppress(ConnectionError, asyncio.CancelledError, ssl.SSLError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(said)
            await writer.drain()
            while then != "close":
                await asyncio.sleep(0.01)
                writer.write({"silence": b"", "flood": b" " * 65_536, "drip": b" "}[then])
                await writer.drain()
        writer.transport.abort()

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.cert, certificates.key)
    server = await asyncio.start_server(converse, "127.0.0.1", 0, ssl=context)
    async with server:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        for conversation in conversations:
            conversation.cancel()
        await asyncio.gather(*conversations)
    # Let the event loop close the connections.
    await asyncio.sleep(0.01)
