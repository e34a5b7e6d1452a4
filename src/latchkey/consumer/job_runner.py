"""Background jobs: run at once by the process that adds them, or by another one if it dies."""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence

import structlog

from latchkey.client.client_errors import RateLimited, UnusableId
from latchkey.client.transport import RETRY_AFTER
from latchkey.consumer.rules.timestamps import Ms
from latchkey.consumer.storage.jobs import Job, Jobs

log = structlog.get_logger()

# A handler returns when to run again; None if the job is done.
Handler = Callable[[Job], Awaitable[Ms | None]]

# Renewed while the job runs, so it can be short: after a crash a user's re-read waits no longer than this.
LEASE_MS: Ms = 10_000
RENEWAL = 3.0
FIRST_BACKOFF_MS: Ms = 500
LONGEST_BACKOFF_MS: Ms = 10 * 60_000
# Jobs of other processes are found within this time.
LONGEST_NAP = 5.0


def backoff_ms(attempts: int, fraction: float) -> Ms:
    """How long to wait after attempt 1, 2, … failed."""
    full = min(FIRST_BACKOFF_MS * 2.0 ** min(attempts - 1, 30), LONGEST_BACKOFF_MS)
    return round(full * (0.5 + 0.5 * fraction))


class Runner:
    def __init__(self, jobs: Jobs, handlers: Mapping[str, Handler], now: Callable[[], Ms], *, workers: int) -> None:
        self._jobs = jobs
        self._handlers = handlers
        self._now = now
        self._workers = workers
        self._renewal = RENEWAL
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._stopping = False

    def wake(self) -> None:
        self._woken.set()

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Running jobs are finished; others stay in the table."""
        self._stopping = True
        self._woken.set()
        if self._task is not None:
            await self._task

    async def run_due(self) -> int:
        """Run the jobs that are due now; returns how many there were."""
        done = 0
        while claimed := await self._jobs.claim(self._now(), self._workers, LEASE_MS):
            finished = asyncio.Event()
            keeping = asyncio.create_task(self._keep(claimed, finished))
            try:
                await asyncio.gather(*(self._do(job) for job in claimed))
            finally:
                finished.set()
                await keeping
            done += len(claimed)
            if self._stopping:
                break
        return done

    async def _run(self) -> None:
        while not self._stopping:
            self._woken.clear()
            nap = LONGEST_NAP
            try:
                await self.run_due()
                next_at = await self._jobs.next_at()
                if next_at is not None:
                    nap = min(LONGEST_NAP, max(0.01, (next_at - self._now()) / 1000))
            except Exception:
                # The database is unreachable; the jobs are in it, so nothing is lost by waiting.
                log.exception("jobs not read")
            if not self._stopping:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._woken.wait(), nap)

    async def _keep(self, claimed: Sequence[Job], finished: asyncio.Event) -> None:
        """Renews the leases of running jobs."""
        while not finished.is_set():
            try:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(finished.wait(), self._renewal)
                    return
                await self._jobs.renew(claimed[0].lease, self._now() + LEASE_MS)
            except Exception:
                # Another process may run them again. Jobs are idempotent, and the next renewal may succeed.
                log.exception("leases not renewed")

    async def _do(self, job: Job) -> None:
        handler = self._handlers.get(job.kind)
        try:
            if handler is None:
                raise LookupError(f"There is no handler for jobs of the kind {job.kind!r}.")
            again_at = await handler(job)
        except UnusableId as error:
            log.error("job given up", kind=job.kind, key=job.key, error=str(error))
            again_at = None
        except Exception as error:
            rest = backoff_ms(job.attempts, random.random())  # noqa: S311 - jitter, not a secret
            if isinstance(error, RateLimited):
                wait = error.retry_after if error.retry_after is not None else RETRY_AFTER
                rest = max(rest, round(wait * 1000))
            log.warning("job failed", kind=job.kind, key=job.key, attempts=job.attempts, error=str(error), rest_ms=rest)
            await self._jobs.postpone(job, self._now() + rest, str(error))
            return
        await self._jobs.finish(job, self._now(), again_at)
