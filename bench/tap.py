"""A proxy in front of PostgreSQL that counts round trips: how often a client asked and then waited for the answer.

A client waits after each Sync, Flush and simple Query message; BEGIN and COMMIT are such queries too. The name of the
client is the `application_name` it sent when it connected.
"""

import asyncio
import contextlib
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import parse_qs, urlsplit

from latchkey.database.embedded.data_files import SOCKET_NAME, socket_url

# In the place of a protocol version: the client asks for encryption first, or cancels the query of another connection.
_NOT_A_START = {80877102, 80877103, 80877104}


@dataclass(frozen=True, slots=True)
class Trip:
    """One round trip. `statement` is what it was about; a preparation is a trip of its own and begins with PREPARE."""

    client: str
    statement: str
    at: float


class Tap:
    """Connect to `url` instead of to the server. Only for servers that are reached through a Unix socket."""

    def __init__(self, server_url: str) -> None:
        parts = urlsplit(server_url)
        self._server = Path(parse_qs(parts.query)["host"][0]) / SOCKET_NAME
        self._folder = Path(tempfile.mkdtemp(prefix="latchkey-tap-"))
        self.url = socket_url(self._folder, parts.path.removeprefix("/"))
        self.trips: list[Trip] = []
        self._listening: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    def count(self, since: int = 0) -> Counter[str]:
        """Round trips by client, from the trip with this number on."""
        return Counter(trip.client for trip in self.trips[since:])

    async def __aenter__(self) -> Self:
        self._listening = await asyncio.start_unix_server(self._connected, self._folder / SOCKET_NAME)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._listening is not None
        self._listening.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)
        await self._listening.wait_closed()
        shutil.rmtree(self._folder, ignore_errors=True)

    async def _connected(self, asking: asyncio.StreamReader, answering: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        task.add_done_callback(self._open.discard)
        reader = Reader(self.trips.append)
        answers, questions = await asyncio.open_unix_connection(self._server)
        try:
            await _first_of(_pass(asking, questions, reader.feed), _pass(answers, answering, lambda _: None))
        finally:
            for writer in (questions, answering):
                writer.close()
                with contextlib.suppress(ConnectionError):
                    await writer.wait_closed()


class Reader:
    """Reads what one client sends and reports each round trip."""

    def __init__(self, report: Callable[[Trip], None]) -> None:
        self._report = report
        self._held = b""
        self._client: str | None = None
        self._prepared: dict[bytes, str] = {}
        self._asked = ""

    def feed(self, data: bytes) -> None:
        self._held += data
        while message := self._next():
            kind, body = message
            match kind:
                case b"":
                    self._start(body)
                case b"P":
                    name, text, _ = body.split(b"\0", 2)
                    self._prepared[name] = one_line(text)
                    self._asked = f"PREPARE {self._prepared[name]}"
                case b"B":
                    _, name, _ = body.split(b"\0", 2)
                    self._asked = self._prepared.get(name, "")
                case b"Q":
                    self._tell(one_line(body[:-1]))
                case b"S" | b"H":
                    self._tell(self._asked)

    def _next(self) -> tuple[bytes, bytes] | None:
        # Only the first message has no letter before its length.
        letter = 0 if self._client is None else 1
        if len(self._held) < letter + 4:
            return None
        end = letter + int.from_bytes(self._held[letter : letter + 4])
        if len(self._held) < end:
            return None
        kind, body = self._held[:letter], self._held[letter + 4 : end]
        self._held = self._held[end:]
        return kind, body

    def _start(self, body: bytes) -> None:
        if int.from_bytes(body[:4]) not in _NOT_A_START:
            words = body[4:].split(b"\0")
            given = dict(zip(words[::2], words[1::2], strict=False))
            self._client = given.get(b"application_name", b"").decode()

    def _tell(self, statement: str) -> None:
        self._report(Trip(self._client or "", statement, time.perf_counter()))


def one_line(text: bytes) -> str:
    lines = text.decode(errors="replace").splitlines()
    return " ".join(" ".join(line for line in lines if not line.lstrip().startswith("--")).split())


async def _pass(source: asyncio.StreamReader, target: asyncio.StreamWriter, seen: Callable[[bytes], None]) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await source.read(65_536):
            seen(data)
            target.write(data)
            await target.drain()


async def _first_of(*both: Awaitable[None]) -> None:
    """Until one ends; the other is ended too."""
    tasks = [asyncio.ensure_future(one) for one in both]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
