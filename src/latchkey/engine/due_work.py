"""One look at the database for all background work of the clock role.

Each kind of work waits here until it is due. While nothing is, one statement every 0.9 s asks for all of them together:
a process of any machine may have written something that is due sooner than what was known.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import TypeVar

import structlog

from latchkey.database.pool import Database
from latchkey.database.transient_errors import PASSING
from latchkey.domain.instants import SECOND, Ms
from latchkey.engine.storage.scans import Outlook, look_out

# Seconds between two looks. With its batch, charts are then at most a second late.
EVERY = 0.9
# Customers in one turn: about two milliseconds.
AT_ONCE = 8

T = TypeVar("T")

log = structlog.get_logger()


class Lookout:
    def __init__(self, database: Database, now: Callable[[], Ms]) -> None:
        self._database = database
        self._now = now
        self._every = EVERY
        # The last look that has ended, and its number. The number of the last one that has begun.
        self._seen: Outlook | None = None
        self._seen_in = 0
        self._begun = 0
        # When the next look begins, by the loop's clock.
        self._next = 0.0
        self._sooner = asyncio.Event()
        # Replaced with every look.
        self._looked = asyncio.Event()
        self._ended = False

    async def run(self, stop: asyncio.Event) -> None:
        """Looks until `stop` is set. Then everybody who waits is told."""
        stopping = asyncio.create_task(stop.wait())
        stopping.add_done_callback(lambda _: self._sooner.set())
        try:
            while not stop.is_set():
                await self._look()
                await self._pause(stop)
        finally:
            stopping.cancel()
            self._ended = True
            self._looked.set()

    async def until(self, due: Callable[[Outlook], Ms | None], *, within: float | None = None) -> Outlook | None:
        """Waits until a look says that it is due. Only looks that begin from now on count: whoever asks has just done
        what an earlier one told. `within`: seconds to the next look, if it should be sooner than usual. None: the end.
        """
        asked = self._begun if self._seen is not None else 0
        if within is not None:
            self._hurry(within)
        while not self._ended:
            left: float | None = None
            if self._seen is not None and self._seen_in > asked and (at := due(self._seen)) is not None:
                left = (at - self._now()) / SECOND
                if left <= 0:
                    return self._seen
            looked = self._looked
            with suppress(TimeoutError):
                async with asyncio.timeout(left if left is not None and left < self._every else None):
                    await looked.wait()
        return None

    async def _look(self) -> None:
        self._next = asyncio.get_running_loop().time() + self._every
        self._begun += 1
        number = self._begun
        try:
            self._seen = await look_out(self._database)
            self._seen_in = number
        except PASSING as error:
            log.warning("what is due is not known", reason=str(error))
        except Exception:
            log.exception("what is due is not known")
        looked, self._looked = self._looked, asyncio.Event()
        looked.set()

    async def _pause(self, stop: asyncio.Event) -> None:
        while not stop.is_set() and (left := self._next - asyncio.get_running_loop().time()) > 0:
            self._sooner.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._sooner.wait()

    def _hurry(self, seconds: float) -> None:
        at = asyncio.get_running_loop().time() + seconds
        if at < self._next:
            self._next = at
            self._sooner.set()


async def in_turns(items: Iterable[T], at_once: int = AT_ONCE) -> AsyncIterator[T]:
    """The items. After every few of them whatever else is ready to run in this process does so."""
    for number, item in enumerate(items, 1):
        yield item
        if number % at_once == 0:
            await asyncio.sleep(0)


async def attempt(what: str, work: Callable[[], Awaitable[object]]) -> None:
    """Background work that must not end because one run fails: it comes again."""
    try:
        await work()
    except PASSING as error:
        log.warning(what, reason=str(error))
    except Exception:
        log.exception(what)


async def every(seconds: float, what: str, work: Callable[[], Awaitable[object]]) -> None:
    while True:
        await attempt(what, work)
        await asyncio.sleep(seconds)


async def cancel_all(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
