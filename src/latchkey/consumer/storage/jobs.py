"""Background jobs that survive a restart: a table with leases, and one job for each kind and key."""

import secrets
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct
from sqlalchemy import and_, delete, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from latchkey.consumer.rules.timestamps import Ms
from latchkey.consumer.storage.consumer_database import ConsumerDatabase
from latchkey.consumer.storage.copy_tables import jobs

ERROR_LENGTH = 500


class NewJob(Struct, frozen=True):
    kind: str
    key: str
    payload: Mapping[str, Any] = {}


class Job(Struct, frozen=True):
    id: int
    kind: str
    key: str
    payload: Mapping[str, Any]
    attempts: int
    asked: int
    lease: str


class Jobs:
    def __init__(self, database: ConsumerDatabase) -> None:
        self._database = database
        add = database.insert(jobs)
        self._add = add.on_conflict_do_update(
            index_elements=["kind", "key"],
            # Added while it is pending or running: it runs (again), at the earlier of the two times.
            set_={
                "asked": jobs.c.asked + 1,
                "payload": add.excluded.payload,
                "run_at": func.min(jobs.c.run_at, add.excluded.run_at)
                if database.is_sqlite
                else func.least(jobs.c.run_at, add.excluded.run_at),
            },
        )

    async def add(self, connection: AsyncConnection, new: Iterable[NewJob], run_at: Ms) -> None:
        """In the caller's transaction: committed jobs will run."""
        rows = [
            {"kind": job.kind, "key": job.key, "payload": dict(job.payload), "run_at": run_at, "created_at": run_at}
            # Sorted, so that two transactions never deadlock.
            for job in sorted(new, key=lambda job: (job.kind, job.key))
        ]
        if rows:
            await connection.execute(self._add, rows)

    async def claim(self, now: Ms, limit: int, lease_ms: Ms) -> list[Job]:
        """Claims due jobs with a lease. Jobs of a process that died are due again when its lease runs out."""
        due = and_(jobs.c.run_at <= now, or_(jobs.c.leased_until.is_(None), jobs.c.leased_until <= now))
        lease = secrets.token_hex(16)

        async def work(connection: AsyncConnection) -> list[Job]:
            chosen = select(jobs.c.id).where(due).order_by(jobs.c.run_at).limit(limit).with_for_update(skip_locked=True)
            ids = list((await connection.scalars(chosen)).all())
            if not ids:
                return []
            taken = (
                update(jobs)
                .where(jobs.c.id.in_(ids))
                .values(lease=lease, leased_until=now + lease_ms, attempts=jobs.c.attempts + 1)
                .returning(jobs)
            )
            rows = (await connection.execute(taken)).all()
            return [Job(r.id, r.kind, r.key, r.payload, r.attempts, r.asked, lease) for r in rows]

        # Reading is cheaper than taking SQLite's only write lock.
        next_at = await self.next_at()
        if next_at is None or next_at > now:
            return []
        return await self._database.write(work)

    async def finish(self, job: Job, now: Ms, again_at: Ms | None = None) -> None:
        """Done, or to run again at `again_at`. A job that was added again meanwhile is due at once."""
        ours = and_(jobs.c.id == job.id, jobs.c.lease == job.lease)
        unasked = jobs.c.asked == job.asked
        rested = {"lease": None, "leased_until": None, "attempts": 0, "last_error": None}

        async def work(connection: AsyncConnection) -> None:
            if again_at is None:
                await connection.execute(delete(jobs).where(ours, unasked))
            else:
                await connection.execute(update(jobs).where(ours, unasked).values(run_at=again_at, **rested))
            await connection.execute(update(jobs).where(ours).values(run_at=now, **rested))

        await self._database.write(work)

    async def postpone(self, job: Job, run_at: Ms, error: str) -> None:
        ours = and_(jobs.c.id == job.id, jobs.c.lease == job.lease)
        values = {"lease": None, "leased_until": None, "run_at": run_at, "last_error": error[:ERROR_LENGTH]}
        await self._database.write(lambda connection: connection.execute(update(jobs).where(ours).values(values)))

    async def renew(self, lease: str, until: Ms) -> None:
        """Extends everything held under this lease."""
        longer = update(jobs).where(jobs.c.lease == lease).values(leased_until=until)
        await self._database.write(lambda connection: connection.execute(longer))

    async def next_at(self) -> Ms | None:
        """When the next job is due; None if there is none."""
        due = func.min(func.coalesce(jobs.c.leased_until, jobs.c.run_at))
        async with self._database.reading() as connection:
            found: Ms | None = await connection.scalar(select(due))
            return found

    async def waiting(self) -> int:
        async with self._database.reading() as connection:
            return await connection.scalar(select(func.count()).select_from(jobs)) or 0
