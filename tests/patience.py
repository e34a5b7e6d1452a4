"""Wait for a condition. The limit is long: a busy machine is slow, and that is no failure of the code.

A test that waits for a condition ends as soon as it is met, so a long limit costs nothing where the code works.
"""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, TypeVar, overload

T = TypeVar("T")
What: TypeAlias = str | Callable[[], object]

# Seconds. Starting everything takes 3 s on a quiet machine and 40 s at a load of 20 on two cores.
PATIENCE = 300.0


def wait_until(met: Callable[[], T], what: What = "", every: float = 0.02) -> T:
    """The first true answer of `met`. `what` says in the failure what was waited for, or how far it came."""
    deadline = time.monotonic() + PATIENCE
    while not (answer := met()):
        assert time.monotonic() < deadline, what() if callable(what) else what
        time.sleep(every)
    return answer


@overload
async def until(met: Callable[[], Awaitable[T]], what: What = "", every: float = 0.02) -> T: ...


@overload
async def until(met: Callable[[], T], what: What = "", every: float = 0.02) -> T: ...


async def until(met: Callable[[], Any], what: What = "", every: float = 0.02) -> Any:
    """As `wait_until`, while the event loop runs. The condition may be async."""
    deadline = time.monotonic() + PATIENCE
    while True:
        answer = met()
        if inspect.isawaitable(answer):
            answer = await answer
        if answer:
            return answer
        assert time.monotonic() < deadline, what() if callable(what) else what
        await asyncio.sleep(every)
