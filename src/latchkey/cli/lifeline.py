"""A child's end of the socket pair to its supervisor."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable
from io import BufferedReader

EVERY_SECONDS = 1.0


def die_with(supervisor: socket.socket) -> None:
    """Ends this process when the supervisor is gone. A thread notices even if the event loop is busy."""
    supervisor.recv(1)
    os._exit(70)


def hear_and_die_with(supervisor: BufferedReader, heard: Callable[[bytes], None]) -> None:
    """The same, for a process that is told news: one line each."""
    try:
        for line in supervisor:
            heard(line)
    finally:
        os._exit(70)


async def live(supervisor: socket.socket) -> None:
    """Says every second that this event loop turns. A supervisor that does not listen is no reason to wait."""
    while True:
        with contextlib.suppress(OSError):
            supervisor.send(b".", socket.MSG_DONTWAIT)
        await asyncio.sleep(EVERY_SECONDS)
