"""Load generators: connections that each send the next request after their response, and requests at fixed
instants."""

import asyncio
import gc
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyreqwest.client import Client, ClientBuilder
from pyreqwest.response import Response


@dataclass(frozen=True, slots=True)
class Measured:
    per_second: float
    p50_ms: float
    p99_ms: float


def client(authority: Path, key: str = "", address: str = "127.0.0.1") -> Client:
    builder = ClientBuilder().add_root_certificate_pem(authority.read_bytes()).http1_only().local_address(address)
    if key:
        builder = builder.default_headers({"authorization": f"Bearer {key}"})
    return builder.build()


async def measure(
    ask: Callable[[int], asyncio.Future[Response]] | Callable[[int], object], connections: int, count: int
) -> Measured:
    """`ask(n)` sends the n-th request and returns when its response is complete."""
    numbers = iter(range(count))
    taken: list[float] = []

    async def one_connection() -> None:
        for number in numbers:
            began = time.perf_counter()
            await ask(number)  # type: ignore[misc]  # any awaitable
            taken.append(time.perf_counter() - began)

    began = time.perf_counter()
    await asyncio.gather(*(one_connection() for _ in range(connections)))
    whole = time.perf_counter() - began
    taken.sort()
    return Measured(count / whole, taken[len(taken) // 2] * 1000, taken[int(len(taken) * 0.99)] * 1000)


async def at_rate(ask: Callable[[int], Coroutine[Any, Any, None]], per_second: int, count: int) -> list[float]:
    """Sends each request at its instant, whatever became of those before it. Returns the milliseconds from that instant
    to the complete response, by number."""
    loop = asyncio.get_running_loop()
    began = time.perf_counter() + 0.1
    taken = [0.0] * count
    sent: list[asyncio.Task[None]] = []

    async def send(number: int) -> None:
        await ask(number)
        taken[number] = (time.perf_counter() - began - number / per_second) * 1000

    def start(number: int) -> None:
        sent.append(loop.create_task(send(number)))

    def pace() -> None:
        # In a thread: the timers of an event loop are a millisecond late.
        for number in range(count):
            time.sleep(max(0.0, began + number / per_second - time.perf_counter()))
            loop.call_soon_threadsafe(start, number)

    gc.collect()
    gc.disable()
    try:
        await asyncio.to_thread(pace)
        await asyncio.gather(*sent)
    finally:
        gc.enable()
    return taken
