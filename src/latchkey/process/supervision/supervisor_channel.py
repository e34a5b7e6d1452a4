"""Between the supervisor and a child: a socket pair. The child receives its orders as one line of JSON, then the names
of processes that crash again and again; it sends "ready", then a sign of life every second. When the socket closes, the
supervisor is gone."""

import asyncio
import contextlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Coroutine
from io import BufferedReader
from typing import Any

import msgspec
import uvloop

from latchkey.settings import KINDS, Settings

EVERY_SECONDS = 1.0


class ChildOrders(msgspec.Struct, frozen=True):
    """Sent through the socket, so that secrets are not in arguments or the environment."""

    settings: dict[str, Any]
    roles: tuple[str, ...]
    listening: int | None
    # For the metrics: which process this is, the names of all of them, what they have in common, and their socket.
    process: str = ""
    processes: tuple[str, ...] = ()
    family: str = ""
    metrics: int | None = None
    # Of this process, and of those before it in its place, which have ended: what they had leased nobody works on.
    number: int = 0
    ended: tuple[int, ...] = ()


def settings_to_wire(settings: Settings) -> dict[str, Any]:
    # Paths and networks as text.
    values: dict[str, Any] = msgspec.to_builtins(settings, enc_hook=str)
    return values


def settings_from_wire(values: dict[str, Any]) -> Settings:
    return Settings(
        **{
            name: kind.make(values[name]) if kind.make is not None else msgspec.convert(values[name], kind.written)
            for name, kind in KINDS.items()
            # No path, key or network is the default.
            if values[name] or kind.make is None
        }
    )


class SupervisorChannel:
    def __init__(self, supervisor: socket.socket, lines: BufferedReader, orders: ChildOrders) -> None:
        self.orders = orders
        self.stop = asyncio.Event()
        # Processes that crash again and again.
        self.restarting: tuple[str, ...] = ()
        self._supervisor = supervisor
        self._living: asyncio.Task[None] | None = None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.stop.set)
        # A thread notices that the supervisor is gone even if the event loop is busy.
        threading.Thread(target=self._read, args=(lines,), daemon=True).start()

    def ready(self) -> None:
        self._supervisor.sendall(b"ready\n")
        self._living = asyncio.create_task(self._live())

    def _read(self, lines: BufferedReader) -> None:
        try:
            for line in lines:
                self.restarting = msgspec.json.decode(line, type=tuple[str, ...])
        finally:
            os._exit(70)

    async def _live(self) -> None:
        """Says every second that this event loop turns. A supervisor that does not listen is no reason to wait."""
        while True:
            with contextlib.suppress(OSError):
                self._supervisor.send(b".", socket.MSG_DONTWAIT)
            await asyncio.sleep(EVERY_SECONDS)


def run_child(work: Callable[[SupervisorChannel], Coroutine[Any, Any, None]]) -> None:
    """The life of a process of the supervisor, which ends with its work or with the supervisor."""
    supervisor = socket.socket(fileno=int(sys.argv[1]))
    lines = supervisor.makefile("rb")

    async def run(orders: ChildOrders) -> None:
        await work(SupervisorChannel(supervisor, lines, orders))

    # The supervisor may still be starting the database.
    if line := lines.readline():
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(run(msgspec.json.decode(line, type=ChildOrders)))
