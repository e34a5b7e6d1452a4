"""Accepting connections at the sockets of other processes, while these do not (decision 0093)."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Collection
from typing import Any

import structlog

from latchkey.server import Listener
from latchkey.settings import Settings

log = structlog.get_logger()

# After this time no accepted connection is without its first request, so idle ones can be closed.
LEAVING_SECONDS = 60.0


class Helping:
    """Must be used in the event loop."""

    def __init__(self, application: Any, settings: Settings, leaving_seconds: float = LEAVING_SECONDS) -> None:
        self._application = application
        self._settings = settings
        self._leaving_seconds = leaving_seconds
        self._helped: dict[int, Listener] = {}
        # Of all listeners that still have connections, also of those that accept no more.
        self._serving: dict[asyncio.Task[None], Listener] = {}
        self._stopping = False

    def at(self, sockets: Collection[int]) -> None:
        """Accept at exactly these sockets from now on, beside our own. The numbers are inherited descriptors."""
        if self._stopping:
            return
        for number in [one for one in self._helped if one not in sockets]:
            listener = self._helped.pop(number)
            listener.retire()
            asyncio.get_running_loop().call_later(self._leaving_seconds, listener.stop)
            log.info("no longer accepting for another process")
        for number in sockets:
            if number not in self._helped:
                with socket.socket(fileno=socket.dup(number)) as theirs:
                    listener = Listener(self._application, theirs, self._settings, lifespan=False)
                self._helped[number] = listener
                task = asyncio.create_task(listener.serve())
                self._serving[task] = listener
                task.add_done_callback(self._ended)
                log.warning("accepting for another process")

    def _ended(self, task: asyncio.Task[None]) -> None:
        listener = self._serving.pop(task)
        for number, one in list(self._helped.items()):
            if one is listener:
                del self._helped[number]
        if not task.cancelled() and task.exception() is not None:
            log.error("cannot accept for another process", reason=str(task.exception()))

    async def stop(self, seconds: float) -> None:
        """Accept no new connections, finish the requests under way."""
        self._stopping = True
        serving = dict(self._serving)
        for listener in serving.values():
            listener.stop()
        if serving:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await asyncio.gather(*serving, return_exceptions=True)
