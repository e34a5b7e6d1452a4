"""Copies a plain database into a cluster, and follows its changes until the switch.

The slot is created first, then the snapshot of the copy. So a transaction may be in both: the ids of transactions tell
which (`progress.visible`). Every batch of changes is one transaction in the cluster that also notes how far it is.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from latchkey.storage.distribution.distribute import require_cluster, undistributed
from latchkey.storage.distribution.nodes import is_distributed
from latchkey.storage.errors import NotRelocatableError
from latchkey.storage.migrate import pending_after, require_current
from latchkey.storage.relocating import applying, comparing, connections, copying, fence, progress, slot, tables
from latchkey.storage.relocating.decoding import Transaction
from latchkey.storage.relocating.merging import merged
from latchkey.storage.relocating.progress import Progress, visible
from latchkey.storage.relocating.tables import LATER, Described

Told = Callable[[str], None]

# Changes of one batch. A larger transaction is a batch of its own.
BATCH = 5_000


class Following:
    def __init__(self, source: Any, target: Any, source_url: str, described: dict[str, Described]) -> None:
        self.source = source
        self.target = target
        self._url = source_url
        self.tables = described
        self._keys = {name: one.key for name, one in described.items()}
        self._progress: Progress | None = None

    @property
    def logged(self) -> list[Described]:
        """The tables whose changes are noted."""
        return [one for one in self.tables.values() if not one.unlogged]

    async def resume(self) -> None:
        """Go on where it was interrupted. Raises if there is nothing to go on with."""
        self._progress = progress.require_following(await progress.load(self.target), await slot.system_of(self.source))
        if self._progress.state != progress.DONE and not await slot.exists(self.source):
            raise NotRelocatableError(
                "The old server does not keep its changes for us any more. Begin again: "
                "`latchkey admin cluster cancel`, then `latchkey admin cluster follow`."
            )

    @property
    def state(self) -> str:
        assert self._progress is not None
        return self._progress.state

    async def begin(self, told: Told) -> None:
        """Copy all rows, as of one moment."""
        await slot.drop(self.source)
        await progress.prepare(self.target)
        begun = Progress(progress.COPYING, await slot.system_of(self.source), "1:1:", 0, frozenset())
        await progress.save(self.target, begun)
        await copying.empty(self.target, [name for name in self.tables if name != "parts"])
        await slot.create(self.source, self.logged)
        async with self._snapshot() as (reader, snapshot):
            await tables.follow_parts(self.target, await tables.parts_of(reader))
            for table in self.logged:
                async with self.target.transaction():
                    await copying.without_triggers(self.target)
                    if table.name == "parts":
                        await self.target.execute("delete from parts")
                    rows = await copying.copy(reader, self.target, table)
                if rows:
                    told(f"{table.name}: {rows:,} rows copied")
        await self.target.execute("analyze")
        self._progress = replace(begun, state=progress.FOLLOWING, snapshot=snapshot)
        await progress.save(self.target, self._progress)

    async def step(self) -> int:
        """Apply the next changes; how many transactions there were to look at."""
        reached = await slot.flushed(self.source)
        found = await slot.peek(self.source, most=BATCH)
        await self._apply(found)
        assert self._progress is not None
        if not self._progress.held:
            await slot.advance(self.source, found[-1].end if found else reached)
        return len(found)

    async def until_close(self, most: int = 1_000_000) -> None:
        """Until only so many bytes of changes have not been applied."""
        while await self.step() and await slot.behind(self.source) > most:
            pass

    async def drain(self) -> None:
        """Apply everything. Nobody writes any more."""
        end = await slot.written(self.source)
        while await slot.flushed(self.source) < end:
            # What was committed without waiting for the disk gets there with the next commit that waits.
            await self.source.execute("select pg_logical_emit_message(true, 'latchkey', '')")
        while await self.step():
            pass

    async def compare(self, told: Told) -> Mapping[str, comparing.Sum]:
        """All rows of both databases as of one moment, while the service goes on. Transactions that this moment has not
        seen are put off until afterwards."""
        async with self._snapshot() as (reader, snapshot):
            end = await slot.written(self.source)
            while await slot.flushed(self.source) < end:
                await self.source.execute("select pg_logical_emit_message(true, 'latchkey', '')")
            found = await slot.peek(self.source, up_to=end)
            await self._apply(found, lambda one: visible(snapshot, one.xid))
            sums = await comparing.compare(reader, self.target, self.logged)
            await comparing.compare_feeds(reader, self.target)
        told(f"{len(sums)} tables with {sum(one.rows for one in sums.values()):,} rows compared: the same")
        return sums

    async def copy_unlogged(self, *, later: bool) -> None:
        """What PostgreSQL does not note: counters of the last minute, and logs."""
        for table in self.tables.values():
            if table.unlogged and (table.name in LATER) is later:
                async with self.target.transaction():
                    if not later:
                        # Of an earlier try.
                        await copying.empty(self.target, [table.name])
                    await copying.copy(self.source, self.target, table)

    async def _apply(self, found: Sequence[Transaction], now: Callable[[Transaction], bool] = lambda _: True) -> None:
        assert self._progress is not None
        wanted = [one for one in found if self._progress.wants(one.xid, one.lsn)]
        put_off = frozenset(one.xid for one in wanted if not now(one))
        batch: list[Transaction] = []
        for one in [one for one in wanted if one.xid not in put_off]:
            if applying.touches_parts(one):
                await self._commit(batch, put_off)
                await applying.follow_parts(self.target, one)
                batch = []
            batch.append(one)
        await self._commit(batch, put_off)

    async def _commit(self, batch: Sequence[Transaction], put_off: frozenset[int]) -> None:
        assert self._progress is not None
        if not batch:
            return
        held = (self._progress.held | put_off) - {one.xid for one in batch}
        reached = replace(self._progress, lsn=max(self._progress.lsn, batch[-1].lsn), held=held)
        async with self.target.transaction():
            await copying.without_triggers(self.target)
            await applying.apply(self.target, merged(batch, self._keys), self.tables)
            await progress.save(self.target, reached)
        self._progress = reached

    @asynccontextmanager
    async def _snapshot(self) -> AsyncIterator[tuple[Any, str]]:
        """Another connection to the old database that sees one moment."""
        reader = await connections.connect(self._url)
        try:
            async with reader.transaction(isolation="repeatable_read", readonly=True):
                yield reader, await reader.fetchval("select pg_current_snapshot()::text")
        finally:
            await reader.close()


async def require_fit(source: Any, target: Any) -> dict[str, Described]:
    """Raise unless rows can be taken over from this database into that one; the tables."""
    if await is_distributed(source):
        raise NotRelocatableError("LATCHKEY_DATABASE_URL names a database that is distributed already.")
    await require_cluster(target)
    for connection in (source, target):
        await require_current(connection)
        if waiting := await pending_after(connection):
            raise NotRelocatableError(f"{waiting[0].label} is pending. Run `latchkey migrate --after` first.")
    if not await is_distributed(target) or await undistributed(target):
        raise NotRelocatableError(
            "The new database is not distributed yet. Run `latchkey migrate --distributed` on it."
        )
    await slot.require_fit(source)
    if not await target.fetchval("select has_parameter_privilege('session_replication_role', 'set')"):
        raise NotRelocatableError(
            "This user may not switch foreign keys off in the cluster: run `grant set on parameter "
            "session_replication_role to <user>` on every node."
        )
    return await tables.compared(source, target)


async def opened(source: Any, target: Any, source_url: str) -> Following:
    """Checked, and alone at work."""
    described = await require_fit(source, target)
    await connections.take_turn(target)
    await connections.spread_settings(target)
    return Following(source, target, source_url, described)


async def begin_or_resume(following: Following, told: Told) -> None:
    found = await progress.load(following.target)
    if found is None or found.state == progress.COPYING:
        if found is None and await following.target.fetchval("select exists (select from projects)"):
            raise NotRelocatableError(
                "The new database has projects already. Rows can be copied into an empty one only."
            )
        await following.begin(told)
    else:
        await following.resume()


async def cancel(source: Any, target: Any) -> None:
    """Give the copy up. The old database goes on as if nothing had been."""
    found = await progress.load(target)
    if found is not None and found.state == progress.DONE:
        raise NotRelocatableError("The switch was made. The new database is in use, and nothing can be cancelled.")
    await connections.take_turn(target)
    await slot.drop(source)
    if await fence.is_up(source):
        await fence.take_down(source)
    if found is not None:
        await connections.spread_settings(target)
        await copying.empty(target, [name for name in await tables.compared(source, target) if name != "parts"])
        await progress.forget(target)
