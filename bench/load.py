"""A load generator: a number of connections, each sending the next request after its response."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyreqwest.client import Client, ClientBuilder
from pyreqwest.response import Response


@dataclass(frozen=True, slots=True)
class Measured:
    per_second: float
    p50_ms: float
    p99_ms: float


def client(authority: Path, key: str = "") -> Client:
    builder = ClientBuilder().add_root_certificate_pem(authority.read_bytes()).http1_only()
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
