"""Ctrl-C and SIGTERM: heard at any moment, also while still starting."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class StoppedError(Exception):
    """Somebody asked us to stop before we were ready."""


class StopSignal:
    """Ctrl-C or SIGTERM, once: stop in order. A second time: stop now."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.hurry: Callable[[], None] = lambda: None
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._heard)

    def _heard(self) -> None:
        if self.asked.is_set():
            self.hurry()
        self.asked.set()

    async def unless_asked(self, work: Coroutine[Any, Any, T]) -> T:
        """The work's result, unless somebody asks to stop before it is done."""
        doing = asyncio.create_task(work)
        asked = asyncio.create_task(self.asked.wait())
        await asyncio.wait({doing, asked}, return_when=asyncio.FIRST_COMPLETED)
        asked.cancel()
        if not doing.done():
            doing.cancel()
            await asyncio.gather(doing, return_exceptions=True)
            raise StoppedError
        return await doing
