"""The parent of the service's processes: starts them, restarts those that crash, drains and stops them.

The processes end with it, even if it is killed (`supervisor_channel.py`), so that none is left without a supervisor.
One that runs but does not work is killed and started again: it says every second that its event loop turns. Time is
counted in turns of the supervisor's own loop, not by a clock: after the whole machine was suspended or starved, no
process is blamed for it. Those that crash again and again are reported.
"""

import asyncio
import contextlib
import os
import secrets
import signal
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import IO

import msgspec
import structlog

from latchkey.process.supervision import start
from latchkey.process.supervision.fork_server import Process, forget_settings, fork, may_fork
from latchkey.process.supervision.listeners import NotReadyError, beside
from latchkey.process.supervision.supervisor_channel import ChildOrders, settings_to_wire
from latchkey.settings import Settings

log = structlog.get_logger()

_FIRST_DELAY = 0.1
_LONGEST_DELAY = 10.0
SERVICE = "latchkey.process.service"
EVERY_SECONDS = 0.2
# Far longer than an event loop is ever busy with one thing.
HANGS_AFTER_SECONDS = 30.0
# Long: on a busy machine a start can take a minute instead of a second.
START_PATIENCE = 15 * 60.0
# A process that ran this long was healthy: its crash count starts again.
HEALTHY_AFTER = 30.0
# So many crashes in a row are reported by /readyz.
STORM = 3
# Ended processes that their successor is told of: more cannot have leases that have not run out.
_MOST_ENDED = 32


@dataclass(slots=True)
class Child:
    name: str
    roles: tuple[str, ...]
    listening: socket.socket | None = None
    # More sockets for it. Its settings say by number which is which.
    also: tuple[socket.socket, ...] = ()
    # The program, and its settings if they differ from the service's.
    module: str = SERVICE
    settings: dict[str, object] | None = field(default=None, repr=False)
    # It loads its code and gets its settings when everything else is up: the others need the CPU first.
    reserve: bool = False
    process: Process | None = None
    line: socket.socket | None = None
    ready: bool = False
    crashes: int = 0
    began: float = 0.0
    # Turns since it said something.
    silent: int = 0
    # Which processes crash again and again, as it was told last.
    told: tuple[str, ...] = ()
    # Of the process, and of those before it, the newest last.
    number: int = 0
    ended: tuple[int, ...] = ()

    @property
    def answers(self) -> bool:
        """Whether it is one of several that answer requests."""
        return self.module == SERVICE and self.listening is not None

    def starts(self) -> None:
        """A new process is being started for it."""
        self.ready, self.silent, self.told = False, 0, ()
        self.began = time.monotonic()


def plan(roles: Sequence[str], listening: Sequence[socket.socket]) -> list[Child]:
    """One process for each socket, which also sends the webhooks of what it commits, and one for what is left."""
    answering = tuple(role for role in ("api", "delivery") if role in roles) if "api" in roles else ()
    children = [Child(f"api-{number}", answering, one) for number, one in enumerate(listening if answering else (), 1)]
    background = tuple(role for role in roles if role not in answering)
    return [*children, *([Child("background", background)] if background else [])]


class Supervisor:
    def __init__(
        self,
        children: list[Child],
        *,
        output: IO[bytes] | None = None,
        metrics: socket.socket | None = None,
        hangs_after_seconds: float = HANGS_AFTER_SECONDS,
    ) -> None:
        """`metrics`: where every process of the service answers for the metrics of all."""
        self.children = children
        self._metrics = metrics
        self._family = secrets.token_hex(8)
        if metrics is not None:
            for child in children:
                if child.module == SERVICE:
                    child.also = (*child.also, metrics)
        self._output = output
        self._hangs_after = hangs_after_seconds / EVERY_SECONDS
        self._changed = asyncio.Event()
        self._settings: Settings | None = None
        self._watching: list[asyncio.Task[None]] = []
        self._stopping = False

    def fork(self, roles: Sequence[str] = ()) -> None:
        """Start the processes as copies of this one, where that is safe: with the code of the service loaded, and what
        these roles need besides. To be called before an event loop runs."""
        if may_fork() and forget_settings():
            start.load(SERVICE, roles)
            for child in self.children:
                self._fork(child)

    async def spawn(self) -> None:
        """Start the processes that `fork` has not started; they load their code and wait for `begin`."""
        for child in self.children:
            if child.process is None and not child.reserve:
                await self._start(child)

    def begin(self, settings: Settings) -> None:
        self._settings = settings
        for child in self.children:
            if not child.reserve:
                self._begin(child)
        self._watching.append(asyncio.create_task(self._tend()))

    async def begin_reserve(self) -> None:
        """Begin the processes that wait until everything else is up."""
        for child in self.children:
            if child.reserve:
                if child.process is None:
                    await self._start(child)
                self._begin(child)

    def _begin(self, child: Child) -> None:
        child.began = time.monotonic()
        self._instruct(child)
        self._watching.append(asyncio.create_task(self._watch(child)))

    async def wait_until_ready(self, patience: float = START_PATIENCE) -> None:
        """All but the reserve."""
        deadline = time.monotonic() + patience
        while not all(child.ready or child.reserve for child in self.children):
            worst = max(self.children, key=lambda child: child.crashes)
            if worst.crashes >= 3 or time.monotonic() > deadline:
                raise NotReadyError(
                    f"The process {worst.name} {'crashed again and again' if worst.crashes else 'did not answer'}."
                )
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), 1.0)

    async def stop(self) -> None:
        """Ask every process to shut down; kill those that take too long."""
        self._stopping = True
        for child in self.children:
            if child.listening is not None:
                child.listening.close()
        alive = [child.process for child in self.children if child.process and child.process.returncode is None]
        for process in alive:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
        patience = (self._settings.stop_seconds if self._settings else 0) + 7
        done = asyncio.gather(*(process.wait() for process in alive))
        try:
            await asyncio.wait_for(done, patience)
        except TimeoutError:
            self.kill()
        for task in self._watching:
            task.cancel()
        await asyncio.gather(*self._watching, return_exceptions=True)
        for child in self.children:
            if child.line is not None:
                child.line.close()

    def kill(self) -> None:
        self._stopping = True
        for child in self.children:
            if child.process and child.process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    child.process.kill()

    def _fork(self, child: Child) -> None:
        theirs, sockets = _connected(child)

        def live() -> None:
            # Nothing comes if the supervisor ends before.
            if not child.reserve or theirs.recv(1, socket.MSG_PEEK):
                start.run(child.module, theirs.fileno(), child.roles)

        child.process = fork(live, keep=sockets, output=self._output)
        theirs.close()

    async def _start(self, child: Child) -> None:
        theirs, sockets = _connected(child)
        child.process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", start.__name__, child.module, str(theirs.fileno()), *child.roles,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=self._output,
            stderr=self._output,
            pass_fds=[one.fileno() for one in sockets],
            env={name: value for name, value in os.environ.items() if not name.startswith("LATCHKEY_")},
        )  # fmt: skip
        theirs.close()

    def _instruct(self, child: Child) -> None:
        assert self._settings is not None
        assert child.line is not None
        listening = child.listening.fileno() if child.listening is not None else None
        if child.number:
            child.ended = (*child.ended, child.number)[-_MOST_ENDED:]
        child.number = secrets.randbits(31)
        with contextlib.suppress(OSError):
            settings = child.settings if child.settings is not None else settings_to_wire(self._settings)
            service = tuple(one.name for one in self.children if one.module == SERVICE)
            metrics = self._metrics.fileno() if self._metrics is not None else None
            about = child.name, service, self._family, metrics, child.number, child.ended
            orders = ChildOrders(settings, child.roles, listening, *about)
            child.line.send(msgspec.json.encode(orders) + b"\n")

    async def _watch(self, child: Child) -> None:
        while True:
            assert child.process is not None
            hearing = asyncio.create_task(self._hear(child))
            code = await child.process.wait()
            hearing.cancel()
            child.ready = False
            if child.line is not None:
                child.line.close()
                child.line = None
            if self._stopping:
                return
            child.crashes = 1 if time.monotonic() - child.began > HEALTHY_AFTER else child.crashes + 1
            self._changed.set()
            log.error(
                "process ended",
                process=child.name,
                code=code,
                crashes_in_a_row=child.crashes,
                restart_in_seconds=restart_delay(child.crashes),
            )
            self._replace_socket(child)
            self._report_crashes()
            await self._start_again(child)

    def _replace_socket(self, child: Child) -> None:
        """So that connections go to the other processes until the new one accepts. If there is no other, they wait."""
        if child.answers and any(one.answers and one.ready for one in self.children):
            assert child.listening is not None
            # The address may be away just now. Then connections to the ended process wait for the new one.
            with contextlib.suppress(OSError):
                child.listening, ended = beside(child.listening), child.listening
                ended.close()

    async def _start_again(self, child: Child) -> None:
        while True:
            await asyncio.sleep(restart_delay(child.crashes))
            try:
                await self._start(child)
            except OSError as error:
                # No memory, or too many processes. Retry: the service needs this child.
                child.crashes += 1
                again = restart_delay(child.crashes)
                log.error("process not started", process=child.name, reason=str(error), again_in_seconds=again)
            else:
                self._instruct(child)
                return

    async def _hear(self, child: Child) -> None:
        """`ready` once, then a sign of life every second."""
        assert child.line is not None
        line, loop = child.line, asyncio.get_running_loop()
        with contextlib.suppress(OSError):
            while said := await loop.sock_recv(line, 64):
                child.silent = 0
                if not child.ready and b"ready" in said:
                    child.ready = True
                    self._changed.set()
                    self._report_crashes()

    async def _tend(self) -> None:
        while not self._stopping:
            await asyncio.sleep(EVERY_SECONDS)
            self.turn()

    def turn(self) -> None:
        for child in self.children:
            self._check(child)
        self._report_crashes()

    def _report_crashes(self) -> None:
        """Tell every process that answers requests which ones crash again and again."""
        restarting = tuple(child.name for child in self.children if child.crashes >= STORM)
        for child in self.children:
            if child.answers and child.ready and restarting != child.told and child.line is not None:
                # It has ended, or it hangs and its buffer is full. The next turn tries again.
                with contextlib.suppress(OSError):
                    child.line.send(msgspec.json.encode(restarting) + b"\n")
                    child.told = restarting

    def _check(self, child: Child) -> None:
        if child.process is None or child.process.returncode is not None:
            return
        if child.crashes and child.ready and time.monotonic() - child.began > HEALTHY_AFTER:
            child.crashes = 0
        child.silent += 1
        patience = self._hangs_after if child.ready else START_PATIENCE / EVERY_SECONDS
        if child.module == SERVICE and child.silent > patience:
            log.error("process hangs", process=child.name, pid=child.process.pid, action="killed")
            child.silent = 0
            child.process.kill()


def _connected(child: Child) -> tuple[socket.socket, tuple[socket.socket, ...]]:
    """The process's end of a new line to it, and all its sockets."""
    child.line, theirs = socket.socketpair()
    child.line.setblocking(False)
    child.starts()
    return theirs, (theirs, *((child.listening,) if child.listening is not None else ()), *child.also)


def restart_delay(crashes: int) -> float:
    return min(_FIRST_DELAY * 2.0 ** min(crashes - 1, 10), _LONGEST_DELAY)
