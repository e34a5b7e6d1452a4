"""A service process, started by the supervisor with one end of a socket pair: it receives its settings, then the names
of processes that crash again and again; it sends "ready", then a sign of life every second. When the socket closes, the
supervisor is gone.
"""

import asyncio
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from io import BufferedReader

import msgspec
import uvloop

from latchkey import logs
from latchkey.observability.peer_metrics import ProcessIdentity
from latchkey.process.service import load_api, run_process
from latchkey.process.supervision.supervisor_channel import (
    ChildOrders,
    decode,
    hear_and_die_with,
    live,
    settings_from_wire,
)
from latchkey.settings import Settings


def load(roles: Sequence[str]) -> None:
    if "api" in roles:
        load_api()


def main() -> None:
    supervisor = socket.socket(fileno=int(sys.argv[1]))
    # The supervisor may still be starting the database.
    lines = supervisor.makefile("rb")
    line = lines.readline()
    if not line:
        return
    orders = decode(line)
    settings = settings_from_wire(orders.settings)
    logs.configure(settings.log_level, settings.log_format, lasting=True)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_run(settings, orders, supervisor, lines))


async def _run(settings: Settings, orders: ChildOrders, supervisor: socket.socket, lines: BufferedReader) -> None:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    restarting: tuple[str, ...] = ()

    def heard(line: bytes) -> None:
        nonlocal restarting
        restarting = msgspec.json.decode(line, type=tuple[str, ...])

    threading.Thread(target=hear_and_die_with, args=(lines, heard), daemon=True).start()
    listening = socket.socket(fileno=orders.listening) if orders.listening is not None else None
    metrics = socket.socket(fileno=orders.metrics) if orders.metrics is not None else None
    identity = ProcessIdentity(orders.process, orders.family, orders.processes)
    living: list[asyncio.Task[None]] = []

    def ready() -> None:
        supervisor.sendall(b"ready\n")
        living.append(asyncio.create_task(live(supervisor)))

    try:
        await run_process(
            settings,
            orders.roles,
            listening,
            stop,
            ready,
            identity=identity,
            metrics=metrics,
            restarting=lambda: restarting,
        )
    finally:
        for task in living:
            task.cancel()
