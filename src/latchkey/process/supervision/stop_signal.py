"""Handles Ctrl-C and SIGTERM, also during start-up."""

import asyncio
import contextlib
import signal
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, NoReturn, TypeVar

from latchkey.first_of import first_of

T = TypeVar("T")
_NUMBERS = (signal.SIGINT, signal.SIGTERM)


class StoppedError(Exception):
    """Stopped before everything was ready."""


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """Both signals raise StoppedError until a StopSignal handles them, which needs an event loop."""

    def stop(*_: object) -> None:
        raise StoppedError

    before = {number: signal.signal(number, stop) for number in _NUMBERS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class StopSignal:
    """The first Ctrl-C or SIGTERM: stop in order. The second: stop now."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.hurry: Callable[[], None] = lambda: None
        loop = asyncio.get_running_loop()
        for number in _NUMBERS:
            loop.add_signal_handler(number, self._heard)

    def _heard(self) -> None:
        if self.asked.is_set():
            self.hurry()
        self.asked.set()

    async def unless_asked(self, work: Coroutine[Any, Any, T]) -> T:
        """The work's result; raises StoppedError if a stop is requested before it is done."""

        async def stopped() -> NoReturn:
            await self.asked.wait()
            raise StoppedError

        return await first_of(work, stopped())
