"""Long work in short turns.

Rollers, the clock and deliveries share a process. A batch of 200 customers takes a tenth of a second of CPU: a delivery
that had to wait for the whole of it would be that much later.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

T = TypeVar("T")

# Customers in one turn: about two milliseconds.
AT_ONCE = 8


async def in_turns(items: Iterable[T], at_once: int = AT_ONCE) -> AsyncIterator[T]:
    """The items. After every few of them whatever else is ready to run in this process does so."""
    for number, item in enumerate(items, 1):
        yield item
        if number % at_once == 0:
            await asyncio.sleep(0)
