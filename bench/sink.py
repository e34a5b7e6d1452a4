"""A minimal receiver: TLS, one fixed response, and optionally a log of when each event arrived.

Run as its own process: `python -m bench.sink CERT KEY LOG`; it prints its port. Paths under `/hang` get no response.
"""

import asyncio
import signal
import ssl
import sys
import time
from pathlib import Path
from typing import Any, BinaryIO

import uvloop

ANSWER = b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 16\r\n\r\n{"message":"ok"}'


class Sink(asyncio.Protocol):
    def __init__(self, log: BinaryIO | None) -> None:
        self._log = log
        self._held = b""
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._held += data
        while (end := self._held.find(b"\r\n\r\n")) >= 0:
            head = self._held[:end].lower()
            at = head.index(b"content-length: ") + 16
            length = int(head[at:].split(b"\r\n", 1)[0])
            if len(self._held) < end + 4 + length:
                return
            self._held = self._held[end + 4 + length :]
            if self._log is not None:
                id = head[head.index(b"webhook-id: ") + 12 :].split(b"\r\n", 1)[0]
                path = head.split(b" ", 2)[1]
                self._log.write(b"%d %s %s\n" % (time.time_ns() // 1000, path, id))
            if not head.startswith(b"post /hang"):
                self._transport.write(ANSWER)


async def main(cert: str, key: str, log: str) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    with Path(log).open("ab", buffering=0) as file:  # noqa: ASYNC230 - before anything is served
        written = file if log != "/dev/null" else None
        server = await loop.create_server(lambda: Sink(written), "127.0.0.1", 0, ssl=context, backlog=1024)
        print(server.sockets[0].getsockname()[1], flush=True)
        await stop.wait()


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
