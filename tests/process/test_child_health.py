"""Processes that end or hang, with real ones: new connections are answered by the others."""

import asyncio
import contextlib
import errno
import os
import signal
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import pytest

from latchkey.process.supervision import supervisor as supervising
from latchkey.process.supervision.fork_server import Forked
from latchkey.process.supervision.listeners import bind
from latchkey.process.supervision.supervisor import (
    EVERY_SECONDS,
    HEALTHY_AFTER,
    START_PATIENCE,
    STORM,
    Child,
    Supervisor,
    plan,
)
from latchkey.settings import Settings
from tests.databases import Shelf
from tests.patience import PATIENCE, until

OK = b'{"status":"ok"}'


@dataclass
class Connected:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def ask(self, path: str = "/healthz") -> bytes:
        async with asyncio.timeout(PATIENCE):
            self.writer.write(f"GET {path} HTTP/1.1\r\nHost: here\r\n\r\n".encode())
            head = await self.reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 "), head
            length = next(line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
            return await self.reader.readexactly(int(length.split()[1]))


@dataclass
class Service:
    supervisor: Supervisor
    port: int

    def child(self, name: str) -> Child:
        return next(child for child in self.supervisor.children if child.name == name)

    def pid(self, name: str) -> int:
        process = self.child(name).process
        assert process is not None
        return process.pid

    async def connect(self) -> Connected:
        return Connected(*await asyncio.open_connection("127.0.0.1", self.port))

    async def answered(self, path: str = "/healthz") -> bytes:
        """The reply to a request on a new connection."""
        connected = await self.connect()
        try:
            return await connected.ask(path)
        finally:
            connected.writer.close()

    async def says(self, path: str, words: bytes) -> bool:
        return await self.answered(path) == words


@contextlib.asynccontextmanager
async def service(database_url: str, processes: int) -> AsyncIterator[Service]:
    listening = bind("127.0.0.1", 0, processes)
    # Nobody is killed for being slow, unless a test says so.
    supervisor = Supervisor(plan(("api",), listening), hangs_after_seconds=PATIENCE)
    port = listening[0].getsockname()[1]
    try:
        await supervisor.spawn()
        settings = Settings(
            database_url=database_url, secret_key=bytes(32), port=port, behind_proxy=True, log_level="error"
        )
        supervisor.begin(settings)
        await supervisor.wait_until_ready()
        yield Service(supervisor, port)
    finally:
        await supervisor.stop()
        for child in supervisor.children:
            assert child.listening is not None
            child.listening.close()


@pytest.fixture(scope="module")
async def two(shelf: Shelf) -> AsyncIterator[Service]:
    async with shelf.lend() as database, service(database.url, 2) as running:
        yield running


@pytest.fixture
def held(two: Service, monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """No process is started again before this is set, so what is answered until then is answered by the others."""
    go_on, start = asyncio.Event(), two.supervisor._start

    async def start_later(child: Child) -> None:
        await go_on.wait()
        await start(child)

    monkeypatch.setattr(two.supervisor, "_start", start_later)
    return go_on


async def test_new_connections_go_to_the_others_until_a_killed_process_is_back(
    two: Service, held: asyncio.Event
) -> None:
    os.kill(two.pid("api-2"), signal.SIGKILL)
    await until(lambda: not two.child("api-2").ready, "nobody notices that the process has ended")
    kept = await asyncio.gather(*(two.connect() for _ in range(60)))

    async def is_back() -> bool:
        assert Counter(await asyncio.gather(*(one.ask() for one in kept))) == {OK: 60}
        return two.child("api-2").ready

    assert not await is_back()
    held.set()
    # They are used meanwhile: idle connections are closed after 30 s, and on a busy machine a start takes longer.
    await until(is_back, every=0.5)
    for one in kept:
        one.writer.close()
    # The other process is not needed any more.
    os.kill(two.pid("api-1"), signal.SIGKILL)
    await until(lambda: not two.child("api-1").ready, "nobody notices that the process has ended")
    assert Counter(await asyncio.gather(*(two.answered() for _ in range(60)))) == {OK: 60}
    await two.supervisor.wait_until_ready()


async def test_a_process_comes_back_although_its_address_was_away_when_it_ended(
    two: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_: socket.socket) -> socket.socket:
        raise OSError(errno.EADDRNOTAVAIL, "Cannot assign requested address")

    monkeypatch.setattr(supervising, "beside", away)
    # It had been well for long.
    two.child("api-1").began = 0.0
    ended = two.pid("api-1")
    os.kill(ended, signal.SIGKILL)
    await until(lambda: two.pid("api-1") != ended, "the process is not started again")
    await two.supervisor.wait_until_ready()
    assert await two.answered() == OK


async def test_a_process_that_hangs_is_replaced(two: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = two.pid("api-1")
    os.kill(stopped, signal.SIGSTOP)
    monkeypatch.setattr(two.supervisor, "_hangs_after", 10)
    await until(lambda: two.pid("api-1") != stopped, "the process that hangs is not replaced")
    monkeypatch.undo()
    await two.supervisor.wait_until_ready()
    assert await two.answered() == OK


async def test_a_process_that_crashes_again_and_again_is_named_by_readyz(two: Service, held: asyncio.Event) -> None:
    two.child("api-2").crashes, two.child("api-2").began = STORM - 1, time.monotonic()
    os.kill(two.pid("api-2"), signal.SIGKILL)
    await until(lambda: two.child("api-1").told == ("api-2",))
    await until(lambda: two.says("/readyz", b'{"status":"ok","restarting":["api-2"]}'))
    held.set()
    await until(lambda: two.child("api-2").ready)
    two.child("api-2").began -= HEALTHY_AFTER
    await until(lambda: two.says("/readyz", OK))


# Without processes: what is decided in a turn.


class Fake(Forked):
    """A process as the supervisor sees it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def send_signal(self, number: int, /) -> None:
        self.returncode = -number


@pytest.fixture
def four() -> Iterator[list[Child]]:
    sockets = bind("127.0.0.1", 0, 4)
    children = plan(("api", "clock"), sockets)
    lines = [socket.socketpair() for _ in children]
    for number, (child, (line, _)) in enumerate(zip(children, lines, strict=True)):
        child.process, child.line, child.ready = Fake(number), line, True
    yield children
    for one in (*sockets, *(end for pair in lines for end in pair)):
        one.close()


def test_a_silent_process_is_killed_and_one_that_still_starts_gets_longer(four: list[Child]) -> None:
    supervisor = Supervisor(four, hangs_after_seconds=10 * EVERY_SECONDS)
    four[1].ready = False
    for _ in range(10):
        four[0].silent = 0
        supervisor.turn()
    assert [child.process and child.process.returncode for child in four] == [None] * 5
    four[0].silent = 0
    supervisor.turn()
    assert [child.process and child.process.returncode for child in four] == [None, None, -9, -9, -9]
    four[1].silent = round(START_PATIENCE / EVERY_SECONDS)
    four[0].silent = 0
    supervisor.turn()
    assert [child.process and child.process.returncode for child in four] == [None, -9, -9, -9, -9]


def test_processes_of_other_programs_say_nothing_and_are_left_alone() -> None:
    other = Child("consumer", ("consumer",), module="latchkey.process.up.consumer_server", process=Fake(1), ready=True)
    supervisor = Supervisor([other], hangs_after_seconds=0)
    for _ in range(3):
        supervisor.turn()
    assert other.process is not None
    assert other.process.returncode is None


def test_a_process_that_does_not_read_what_it_is_told_delays_nobody(four: list[Child]) -> None:
    supervisor = Supervisor(four)
    assert four[0].line is not None
    four[0].line.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            four[0].line.send(b"x" * 4096)
    four[2].ready, four[2].crashes = False, STORM
    supervisor.turn()
    # It is told when it reads again; the others have been told.
    assert [child.told for child in four] == [(), ("api-3",), (), ("api-3",), ()]
