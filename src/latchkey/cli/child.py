"""A service process, started by the supervisor with one end of a socket pair: it receives its settings and sends
"ready". When the socket closes, the supervisor is gone."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
import threading
from collections.abc import Sequence

import uvloop

from latchkey import logs
from latchkey.app import load_api, run_process
from latchkey.cli.lifeline import die_with
from latchkey.cli.orders import Orders, decode, settings_from_wire
from latchkey.settings import Settings
from latchkey.watching.siblings import Place


def load(roles: Sequence[str]) -> None:
    if "api" in roles:
        load_api()


def main() -> None:
    supervisor = socket.socket(fileno=int(sys.argv[1]))
    # The supervisor may still be starting the database.
    line = supervisor.makefile("rb").readline()
    if not line:
        return
    orders = decode(line)
    threading.Thread(target=die_with, args=(supervisor,), daemon=True).start()
    settings = settings_from_wire(orders.settings)
    logs.configure(settings.log_level, settings.log_format, lasting=True)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_run(settings, orders, supervisor))


async def _run(settings: Settings, orders: Orders, supervisor: socket.socket) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    listening = socket.socket(fileno=orders.listening) if orders.listening is not None else None
    metrics = socket.socket(fileno=orders.metrics) if orders.metrics is not None else None
    place = Place(orders.process, orders.family, orders.processes)
    await run_process(
        settings,
        orders.roles,
        listening,
        stop,
        ready=lambda: supervisor.sendall(b"ready\n"),
        place=place,
        metrics=metrics,
    )
