"""Combines concurrent questions into one query.

A question joins the batch that has not been sent yet. The batch is sent in the next turn of the event loop, or as soon
as one of the batches under way returns. So a single question does not wait, many concurrent ones share one query, and
every answer was fetched after its question came: nothing is cached.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

from latchkey import spans
from latchkey.database.pool import Connection
from latchkey.domain.instants import Ms
from latchkey.engine.storage import event_feed
from latchkey.spans import Span
from latchkey.wire.event import Event

Question = TypeVar("Question")
Answer = TypeVar("Answer")


class Batch(Generic[Question, Answer]):
    def __init__(
        self,
        ask: Callable[[list[Question]], Awaitable[Sequence[Answer]]],
        *,
        largest: int = 256,
        under_way: int = 1,
        splits_on: tuple[type[Exception], ...] = (),
        measure: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._ask = ask
        self._largest = largest
        self._free = under_way
        # Errors that one question may have caused: the others of its batch are then asked again without it.
        self._splits_on = splits_on
        self._measure = measure
        self._waiting: deque[tuple[Question, asyncio.Future[Answer]]] = deque()
        self._leaving = False
        self._tasks: set[asyncio.Task[None]] = set()

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
        """Wait until every batch under way has returned."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _leave(self) -> None:
        self._leaving = False
        while self._free and self._waiting:
            size = min(len(self._waiting), self._largest)
            batch = [self._waiting.popleft() for _ in range(size)]
            self._free -= 1
            task = asyncio.get_running_loop().create_task(self._go(batch))
            self._tasks.add(task)
            task.add_done_callback(self._returned)

    def _returned(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._free += 1
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


# The spans of a batch of changes, while traces are on. Each request of the batch whose trace is kept gets its own,
# linked with the requests of the others.


class Traced(Protocol):
    @property
    def project_id(self) -> str: ...

    @property
    def trace(self) -> Span | None: ...


class Steps:
    def __init__(self, batch: Sequence[Traced]) -> None:
        self._batch = batch
        self._spans = [one.trace for one in batch if one.trace is not None]
        self._since = time.time_ns()

    def done(self, name: str) -> None:
        """What was done since the step before."""
        began, self._since = self._since, time.time_ns()
        if self._spans and spans.tracer is not None:
            about = {"latchkey.batch.size": len(self._batch)}
            spans.tracer.shared(f"changes {name}", self._spans, began, self._since, about)

    async def keep(self, connection: Connection, told: Mapping[int, Sequence[Event]], now: Ms) -> None:
        """Remember the trace of each new event, for the process that delivers it. To be called before the change is
        committed: the event may be delivered at once. `told` has the events by place in the batch."""
        found: dict[str, str] = {}
        for place, events in told.items():
            span = self._batch[place].trace if 0 <= place < len(self._batch) else None
            if span is not None:
                found.update((event.id, span.traceparent) for event in events)
        if found:
            await event_feed.keep(connection, self._batch[0].project_id, found, now)
