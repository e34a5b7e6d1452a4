"""A small export as one file, to be downloaded at once. Larger ones are for a schedule or the command line."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path

from latchkey.domain.instants import Ms
from latchkey.domain.refusal import Refusal
from latchkey.storage.database import Database
from latchkey.storage.exports import reading
from latchkey.usecases.exports.destination import Folder
from latchkey.usecases.exports.engine import Order, checked_what, run
from latchkey.usecases.exports.formats import Format

MOST_CUSTOMERS = 5_000
MOST_EVENTS = 20_000


async def download(
    database: Database, project_id: str, what: str, format: Format, now: Callable[[], Ms]
) -> tuple[str, bytes]:
    """The name of the file, and its content."""
    [wanted] = checked_what((what,))
    async with database.acquire() as connection:
        customers, events = await reading.size(connection, project_id, MOST_CUSTOMERS + 1)
    if (events if wanted == "events" else customers) > (MOST_EVENTS if wanted == "events" else MOST_CUSTOMERS):
        raise Refusal(
            f"There are more than {MOST_CUSTOMERS:,} customers or {MOST_EVENTS:,} events: too much to download here. "
            "Set up an export, or use `latchkey export`."
        )
    with tempfile.TemporaryDirectory(prefix="latchkey-download-") as folder:
        manifest = await run(database, Order(project_id, (wanted,), format), Folder(Path(folder)), now)
        [file] = manifest.files
        path = Path(folder) / project_id / manifest.id / file.name
        content = await asyncio.to_thread(path.read_bytes)
    return f"{wanted}-{manifest.id}.{format}", content
