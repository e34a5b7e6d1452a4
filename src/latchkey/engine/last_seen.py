"""When and from where customers were last seen. A read keeps it in memory; it is written later, in batches.

A crash loses the last second, so that `last_seen` is slightly too old. Writing it with the read would cost every read a
commit.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

import structlog

from latchkey.database.pool import Database
from latchkey.domain.customers.customer import LastSeen, merged_visits
from latchkey.engine.storage import read_rows

log = structlog.get_logger()


class Presence:
    def __init__(
        self,
        database: Database,
        *,
        every: float = 1.0,
        most: int = 100_000,
        chunk: int = 500,
        dropped: Callable[[], None] = lambda: None,
    ) -> None:
        self._database = database
        self._every = every
        self._most = most
        self._chunk = chunk
        self._dropped = dropped
        self._notes: dict[tuple[str, int], LastSeen] = {}
        self._task: asyncio.Task[None] | None = None
        self._writing = asyncio.Lock()

    def note(self, project_id: str, key: int, seen: LastSeen) -> None:
        place = project_id, key
        known = self._notes.get(place)
        if known is None:
            if len(self._notes) >= self._most:
                self._dropped()
                return
            self._notes[place] = seen
        else:
            self._notes[place] = merged_visits(known, seen)

    async def flush(self) -> None:
        """Writes everything collected so far. What cannot be written is kept for the next time."""
        # Also waits for a write that has begun: whoever stops the process closes the database next.
        async with self._writing:
            notes, self._notes = self._notes, {}
            places = sorted(notes)
            for start in range(0, len(places), self._chunk):
                chunk = places[start : start + self._chunk]
                try:
                    await read_rows.write(self._database, [(place, notes[place]) for place in chunk])
                except Exception:
                    for place in places[start:]:
                        newer = self._notes.get(place)
                        self._notes[place] = notes[place] if newer is None else merged_visits(notes[place], newer)
                    raise

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Stop the background writing and write what is left."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None
        await self._flush_quietly()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._every)
            # Shielded, so that stopping in the middle of a write loses nothing.
            await asyncio.shield(self._flush_quietly())

    async def _flush_quietly(self) -> None:
        if not self._notes and not self._writing.locked():
            return
        try:
            await self.flush()
        except Exception as error:
            log.warning("last seen not written", waiting=len(self._notes), error=str(error))
