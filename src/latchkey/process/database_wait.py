"""At the start: waits for a database that is away or busy."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar

import structlog
import typer

from latchkey.database.errors import DatabaseBusyError, WrongAddressError
from latchkey.database.transient_errors import PASSING

log = structlog.get_logger()

Answer = TypeVar("Answer")
WaitOption = Annotated[
    bool | None,
    typer.Option(
        "--wait/--no-wait",
        show_default="--wait under systemd and in a container",
        help="Wait for a database that is away, instead of failing.",
    ),
]

RETRY_SECONDS = 3.0


def waits(wanted: bool | None) -> bool:
    """Unless told, if nobody watches: systemd has started this process, or it is the first one of a container."""
    own = os.getpid()
    return wanted if wanted is not None else own == 1 or os.environ.get("SYSTEMD_EXEC_PID") == str(own)


async def until_reachable(ask: Callable[[], Awaitable[Answer]], wait: bool) -> Answer:
    """What the database answers. Time does not help against a wrong address, so that is never waited for."""
    while True:
        try:
            return await ask()
        except (*PASSING, DatabaseBusyError) as error:
            if not wait or isinstance(error, WrongAddressError):
                raise
            reason = str(error) or type(error).__name__
            log.warning("waiting for the database", reason=reason, retry_in_seconds=RETRY_SECONDS)
        await asyncio.sleep(RETRY_SECONDS)
