"""Combines concurrent questions into one query.

A question joins the batch that has not been sent yet. The batch is sent in the next turn of the event loop, or as soon
as the one under way returns. So a single question does not wait, many concurrent ones share one query, and
every answer was fetched after its question came: nothing is cached.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from math import inf
from typing import Generic, TypeVar

Question = TypeVar("Question")
Answer = TypeVar("Answer")


class Batch(Generic[Question, Answer]):
    def __init__(
        self,
        ask: Callable[[list[Question]], Awaitable[Sequence[Answer]]],
        *,
        largest: int = 256,
        stuck_after: float = inf,
        apart: float = 0.0,
        splits_on: tuple[type[Exception], ...] = (),
        measure: Callable[[int], None] = lambda _: None,
    ) -> None:
        """`stuck_after`: seconds after which the batch under way does not hold up the next one; a third one waits.
        `apart`: seconds between two batches, for questions whose answer nobody waits for."""
        self._ask = ask
        self._largest = largest
        self._stuck_after = stuck_after
        self._free = 1 if stuck_after == inf else 2
        self._apart = apart
        # In the loop's time.
        self._next_at = -inf
        # Errors that one question may have caused: the others of its batch are then asked again without it.
        self._splits_on = splits_on
        self._measure = measure
        self._waiting: deque[tuple[Question, asyncio.Future[Answer]]] = deque()
        self._leaving = False
        self._timer: asyncio.TimerHandle | None = None
        # With the time at which each left.
        self._tasks: dict[asyncio.Task[None], float] = {}

    def ask(self, question: Question) -> asyncio.Future[Answer]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Answer] = loop.create_future()
        self._waiting.append((question, future))
        if self._free and not self._leaving:
            self._leaving = True
            loop.call_soon(self._leave)
        return future

    @property
    def is_busy(self) -> bool:
        return bool(self._tasks or self._waiting)

    async def drain(self) -> None:
        """Wait until every question has its answer."""
        self._apart, self._next_at = 0.0, -inf
        self._leave()
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _leave(self) -> None:
        self._leaving = False
        if self._timer is not None:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        while self._free and self._waiting:
            now = loop.time()
            leaves_at = max(self._tasks.values()) + self._stuck_after if self._tasks else self._next_at
            if now < leaves_at:
                self._leaving = True
                self._timer = loop.call_at(leaves_at, self._leave)
                return
            size = min(len(self._waiting), self._largest)
            batch = [self._waiting.popleft() for _ in range(size)]
            self._free -= 1
            task = loop.create_task(self._go(batch))
            self._tasks[task] = now
            task.add_done_callback(self._returned)

    def _returned(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        self._free += 1
        self._next_at = asyncio.get_running_loop().time() + self._apart
        self._leave()

    async def _go(self, batch: list[tuple[Question, asyncio.Future[Answer]]]) -> None:
        # Callers may have disconnected meanwhile.
        batch = [entry for entry in batch if not entry[1].done()]
        if not batch:
            return
        self._measure(len(batch))
        try:
            answers = await self._ask([question for question, _ in batch])
            for (_, future), answer in zip(batch, answers, strict=True):
                if not future.done():
                    future.set_result(answer)
        except self._splits_on as error:
            if len(batch) == 1:
                _fail(batch, error)
                return
            middle = len(batch) // 2
            await self._go(batch[:middle])
            await self._go(batch[middle:])
        except BaseException as error:
            # Every waiting caller gets the error; none of them may hang.
            _fail(batch, error)
            if not isinstance(error, Exception):
                raise


def _fail(batch: Sequence[tuple[object, asyncio.Future[Answer]]], error: BaseException) -> None:
    for _, future in batch:
        if not future.done():
            if isinstance(error, asyncio.CancelledError):
                future.cancel()
            else:
                future.set_exception(error)
