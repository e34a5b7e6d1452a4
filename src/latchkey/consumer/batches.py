"""Batching: items that arrive while others are being processed are processed together next, in one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class Batches(Generic[Item, Result]):
    """`work` gets the collected items, and returns one result, or exception, for each."""

    def __init__(
        self, work: Callable[[Sequence[Item]], Awaitable[Sequence[Result | Exception]]], *, largest: int
    ) -> None:
        self._work = work
        self._largest = largest
        self._waiting: list[tuple[Item, asyncio.Future[Result]]] = []
        self._running: asyncio.Task[None] | None = None

    async def add(self, item: Item) -> Result:
        """The item's own result. A single item does not wait for others."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._running is None:
            self._running = asyncio.create_task(self._run())
        return await future

    async def drain(self) -> None:
        if self._running is not None:
            await self._running

    async def _run(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[: self._largest], self._waiting[self._largest :]
                await self._settle(batch)
        finally:
            self._running = None

    async def _settle(self, batch: list[tuple[Item, asyncio.Future[Result]]]) -> None:
        results: Sequence[Result | Exception]
        try:
            results = await self._work([item for item, _ in batch])
        except Exception as error:
            results = [error] * len(batch)
        for (_, future), result in zip(batch, results, strict=True):
            # The caller may have gone; the work is done anyway.
            if future.done():
                continue
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)
