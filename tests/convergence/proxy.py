"""A hostile network between delivery and a receiver: a TLS proxy that loses, repeats, delays and reorders.

Only the seed, the user, the event's sequence and the attempt decide what happens, so a run can be repeated.
"""

import asyncio
import contextlib
import ssl
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from random import Random
from typing import Self

from msgspec import DecodeError, Struct, json
from pyreqwest.client import Client, ClientBuilder
from pyreqwest.exceptions import PyreqwestError

# After this many faults an event is let through, or it would block its customer's lane for the whole run.
LAST_FAULTY_ATTEMPT = 3
PATIENCE = timedelta(seconds=5)
_HOP_BY_HOP = {"host", "connection", "content-length", "transfer-encoding"}


class Fault(StrEnum):
    NONE = "none"
    # The sender gets an error and retries.
    REFUSE = "refused"
    CUT = "cut"
    # It arrives, but the answer is lost and the sender retries.
    MUTE = "answer lost"
    # It never arrives, but the sender gets a 200.
    LOSE = "lost"
    REPEAT = "repeated"
    SLOW = "slow"
    # The sender gets a 200 at once and sends the next event; this one arrives later, out of order.
    LATE = "late"


WEIGHTS = {
    Fault.NONE: 60,
    Fault.REFUSE: 5,
    Fault.CUT: 5,
    Fault.MUTE: 5,
    Fault.LOSE: 5,
    Fault.REPEAT: 7,
    Fault.SLOW: 5,
    Fault.LATE: 8,
}


@dataclass(frozen=True, slots=True)
class Fate:
    fault: Fault
    seconds: float = 0.0
    copies: int = 1


def fate(seed: int, user: str, sequence: int, attempt: int) -> Fate:
    """What happens to one attempt to deliver one event."""
    if attempt > LAST_FAULTY_ATTEMPT:
        return Fate(Fault.NONE)
    chances = Random(f"{seed} {user} {sequence} {attempt}")
    [fault] = chances.choices(list(WEIGHTS), list(WEIGHTS.values()))
    match fault:
        case Fault.SLOW:
            return Fate(fault, chances.uniform(0.02, 0.4))
        case Fault.LATE:
            return Fate(fault, chances.uniform(0.05, 3.0))
        case Fault.REPEAT:
            return Fate(fault, copies=chances.randint(2, 4))
        case _:
            return Fate(fault)


class _Told(Struct):
    app_user_id: str = ""
    original_app_user_id: str = ""
    aliases: list[str] = []
    sequence: int = 0
    transferred_from: list[str] | None = None


class _Envelope(Struct):
    event: _Told


@dataclass(frozen=True, slots=True)
class _Request:
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def event(self) -> _Told:
        try:
            return json.decode(self.body, type=_Envelope).event
        except DecodeError:
            return _Told()


class HostileProxy:
    """`async with HostileProxy(...) as proxy`: forwards requests from `proxy.url` to `upstream`, with faults."""

    def __init__(self, seed: int, upstream: str, certificate: tuple[Path, Path], authority: Path) -> None:
        self.did: Counter[Fault] = Counter()
        # Users of events that were acknowledged and never arrived.
        self.bereft: set[str] = set()
        self._seed = seed
        self._upstream = upstream
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(*certificate)
        builder = ClientBuilder().add_root_certificate_pem(authority.read_bytes()).http1_only()
        self._http: Client = builder.timeout(PATIENCE).build()
        self._attempts: Counter[tuple[str, int]] = Counter()
        self._travelling: set[asyncio.Task[None]] = set()
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=self._context, backlog=1024)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in (*self._connections, *self._travelling):
            task.cancel()
        await asyncio.gather(*self._connections, *self._travelling, return_exceptions=True)
        await self._http.close()

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"https://localhost:{self._server.sockets[0].getsockname()[1]}"

    @property
    def travelling(self) -> int:
        """Deliveries that were acknowledged and have not arrived yet."""
        return len(self._travelling)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            # Either side may be killed at any moment.
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while (answer := await self._answer(await _read(reader))) is not None:
                    writer.write(answer)
                    await writer.drain()
        finally:
            self._connections.discard(task)
            writer.transport.abort()

    async def _answer(self, request: _Request) -> bytes | None:
        """The reply to the sender; None closes the connection."""
        event = request.event
        self._attempts[event.app_user_id, event.sequence] += 1
        decided = fate(self._seed, event.app_user_id, event.sequence, self._attempts[event.app_user_id, event.sequence])
        self.did[decided.fault] += 1
        match decided.fault:
            case Fault.REFUSE:
                return _written(503, b"")
            case Fault.CUT:
                return None
            case Fault.LOSE:
                self._lost(event)
                return _written(200, b'{"message":"lost"}')
            case Fault.LATE:
                task = asyncio.create_task(self._later(request, decided.seconds))
                self._travelling.add(task)
                task.add_done_callback(self._travelling.discard)
                return _written(200, b'{"message":"on its way"}')
            case Fault.MUTE:
                await self._forward(request)
                return None
            case _:
                await asyncio.sleep(decided.seconds)
                answers = await asyncio.gather(*(self._forward(request) for _ in range(decided.copies)))
                return answers[0]

    async def _later(self, request: _Request, seconds: float) -> None:
        await asyncio.sleep(seconds)
        if not (await self._forward(request)).startswith(b"HTTP/1.1 200 "):
            self._lost(request.event)

    def _lost(self, event: _Told) -> None:
        told = {event.app_user_id, event.original_app_user_id, *event.aliases, *(event.transferred_from or ())}
        self.bereft |= told - {""}

    async def _forward(self, request: _Request) -> bytes:
        sent = self._http.post(self._upstream + request.path).headers(request.headers).body_bytes(request.body)
        try:
            response = await sent.build().send()
            return _written(response.status, bytes(await response.bytes()))
        except PyreqwestError:
            return _written(502, b"")


async def _read(reader: asyncio.StreamReader) -> _Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    named = (line.partition(":") for line in head[1:] if line)
    headers = {name.strip().lower(): value.strip() for name, _, value in named}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    kept = {name: value for name, value in headers.items() if name not in _HOP_BY_HOP}
    return _Request(head[0].split(" ")[1], kept, body)


def _written(status: int, body: bytes) -> bytes:
    return b"HTTP/1.1 %d -\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (
        status,
        len(body),
        body,
    )
