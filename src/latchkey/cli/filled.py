"""A database that is being filled by `latchkey cluster`: the service waits for the switch, and starts with it."""

from __future__ import annotations

import asyncio

import structlog

from latchkey.storage.database import connect
from latchkey.storage.errors import StillFilledError, StorageError
from latchkey.storage.relocating.progress import require_filled

log = structlog.get_logger()

_AGAIN_SECONDS = 0.2


async def until_filled(url: str) -> None:
    """Returns when the database may be used, and also if it cannot be asked: what is wrong is found later."""
    said = False
    while await _is_being_filled(url):
        if not said:
            log.info("waiting", reason="the database is being filled; `latchkey cluster switch` ends this")
            said = True
        await asyncio.sleep(_AGAIN_SECONDS)


async def _is_being_filled(url: str) -> bool:
    try:
        connection = await connect(url, application_name="latchkey start")
    except StorageError:
        return False
    try:
        await require_filled(connection)
    except StillFilledError:
        return True
    finally:
        await connection.close()
    return False
