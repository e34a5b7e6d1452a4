"""Keeps the embedded PostgreSQL of `latchkey up` running, like the supervisor does for the other processes."""

import asyncio
import contextlib
import time
from collections.abc import Callable

import structlog

from latchkey.database.embedded.postgres import EmbeddedServer
from latchkey.database.errors import StorageError
from latchkey.process.supervision.stop_signal import StopSignal
from latchkey.process.supervision.supervisor import FIRST_DELAY, HEALTHY_AFTER, LONGEST_DELAY

log = structlog.get_logger()

_LOOKED_EVERY = 0.2


async def keep_running(server: EmbeddedServer, signal: StopSignal, said: Callable[[str], None]) -> None:
    """Until stopped. The other processes reconnect by themselves: the address stays the same.

    Never gives up: the cause (most likely a full disk) can be fixed while it retries.
    """
    failures, began = 0, time.monotonic()
    while not await _asked(signal, _LOOKED_EVERY):
        if not server.failed():
            continue
        if time.monotonic() - began > HEALTHY_AFTER:
            failures = 0
        said(f"PostgreSQL ended by itself; starting it again. Its log is {server.log}")
        try:
            await asyncio.to_thread(server.restart, said, signal.asked.is_set)
        except (StorageError, OSError) as error:
            delay = min(FIRST_DELAY * 2**failures, LONGEST_DELAY)
            failures += 1
            log.error("database not started", reason=_short(error), again_in_seconds=delay)
            await _asked(signal, delay)
        else:
            began = time.monotonic()
            said("PostgreSQL is running again")


async def _asked(signal: StopSignal, seconds: float) -> bool:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(signal.asked.wait(), seconds)
    return signal.asked.is_set()


def _short(error: Exception) -> str:
    """The line of PostgreSQL's log that says why."""
    lines = str(error).splitlines() or [type(error).__name__]
    return next((line.partition("FATAL:")[2].strip() for line in reversed(lines) if "FATAL:" in line), lines[0])
