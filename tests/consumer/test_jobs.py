"""Background jobs: run at once, retried later, and taken over from a process that died."""

import asyncio

import pytest

from latchkey.client.client_errors import RateLimited
from latchkey.consumer.job_runner import LEASE_MS, backoff_ms
from latchkey.consumer.reference_consumer import Consumer
from latchkey.consumer.rules.timestamps import DAY
from latchkey.consumer.storage.copy_tables import jobs as jobs_table
from latchkey.consumer.storage.jobs import Job, NewJob
from tests.consumer.world import NOW, World, both_databases, event, settings, world
from tests.patience import PATIENCE


@both_databases
async def test_a_job_is_done_once_however_often_it_is_asked_for(here: World) -> None:
    here.service.holds["ada"] = {"pro": None}
    for _ in range(3):
        await here.consumer.later(NewJob("reread", "ada"))
    await here.jobs_done()
    assert len(here.service.asked) == 2  # V2, and V1 beside it
    assert (await here.counts())["billing_jobs"] == 0


@both_databases
async def test_a_job_that_fails_is_tried_again_later_and_remembers_why(here: World) -> None:
    here.service.holds["ada"] = {"pro": None}
    here.service.status = 418
    await here.consumer.later(NewJob("reread", "ada"))
    await here.jobs_done()
    (row,) = await here.rows(jobs_table)
    assert (row["attempts"], row["lease"]) == (1, None)
    assert "418" in row["last_error"]
    assert row["run_at"] > NOW
    await here.jobs_done()
    assert (await here.rows(jobs_table))[0]["attempts"] == 1
    here.service.status = 200
    here.clock.now = row["run_at"]
    await here.jobs_done()
    assert (await here.copy()).subscription.is_active


async def test_a_rate_limited_job_waits_for_its_retry_after(here: World) -> None:
    async def limited(_: Job) -> None:
        raise RateLimited(429, "", retry_after=90)

    here.consumer._runner._handlers = {"reread": limited}
    await here.consumer.later(NewJob("reread", "ada"))
    await here.jobs_done()
    assert (await here.rows(jobs_table))[0]["run_at"] == NOW + 90_000


@both_databases
async def test_a_job_of_a_dead_process_is_done_by_the_next(here: World) -> None:
    here.service.holds["ada"] = {"pro": None}
    await here.consumer.later(NewJob("reread", "ada"))
    claimed = await here.consumer._store.jobs.claim(NOW, 10, LEASE_MS)
    assert [job.key for job in claimed] == ["ada"]
    await here.jobs_done()
    assert here.service.asked == []
    here.clock.now += LEASE_MS
    await here.jobs_done()
    assert (await here.copy()).subscription.is_active
    # The first process was only slow; what it reports now is ignored.
    await here.consumer._store.jobs.postpone(claimed[0], NOW, "too late")
    assert (await here.counts())["billing_jobs"] == 0


@both_databases
async def test_a_job_that_outlasts_its_lease_stays_with_its_holder(here: World) -> None:
    renewed = asyncio.Event()
    runs = 0

    async def long(_: Job) -> None:
        nonlocal runs
        runs += 1
        here.clock.now += LEASE_MS - 1
        await asyncio.wait_for(renewed.wait(), PATIENCE)
        # Without the renewal, another process could claim it now.
        here.clock.now += LEASE_MS - 1
        assert await here.consumer._store.jobs.claim(here.clock.now, 10, LEASE_MS) == []

    renew = here.consumer._store.jobs.renew

    async def watched(lease: str, until: int) -> None:
        await renew(lease, until)
        renewed.set()

    here.consumer._store.jobs.renew = watched  # type: ignore[method-assign]  # only to know when
    here.consumer._runner._renewal = 0.01
    here.consumer._runner._handlers = {"long": long}
    await here.consumer.later(NewJob("long", "x"))
    await here.jobs_done()
    assert runs == 1
    assert (await here.counts())["billing_jobs"] == 0


@both_databases
async def test_a_job_asked_for_while_it_runs_runs_again(here: World) -> None:
    here.service.holds["ada"] = {}

    async def meanwhile() -> None:
        here.service.holds["ada"] = {"pro": None}
        await here.consumer.later(NewJob("reread", "ada"))

    here.service.meanwhile = meanwhile
    await here.consumer.later(NewJob("reread", "ada"))
    await here.jobs_done()
    assert (await here.copy()).subscription.is_active
    assert (await here.counts())["billing_jobs"] == 0


@both_databases
async def test_two_processes_share_the_work_and_never_do_it_twice(url: str) -> None:
    done: list[str] = []

    async def note(job: Job) -> None:
        await asyncio.sleep(0)
        done.append(job.key)

    async with world(url, jobs={"note": note}) as left, world(url, jobs={"note": note}) as right:
        for number in range(20):
            await left.consumer.later(NewJob("note", str(number)))
        await asyncio.gather(left.jobs_done(), right.jobs_done())
        assert sorted(done, key=int) == [str(number) for number in range(20)]


async def test_a_real_runner_wakes_at_once_and_finds_what_was_left(url: str) -> None:
    async with world(url) as before:
        await before.consumer.later(NewJob("note", "left behind"))
    done: list[str] = []
    both = asyncio.Event()

    async def note(job: Job) -> None:
        done.append(job.key)
        if len(done) == 2:
            both.set()

    consumer = Consumer(settings(url), jobs={"note": note}, now=lambda: NOW)
    async with consumer.lifespan():
        await consumer.later(NewJob("note", "new"))
        await asyncio.wait_for(both.wait(), PATIENCE)
    assert sorted(done) == ["left behind", "new"]


async def test_an_unusable_id_is_given_up(here: World) -> None:
    await here.deliver(event("TRANSFER", transferred_from=[".."]))
    await here.jobs_done()
    assert (await here.counts())["billing_jobs"] == 0


async def test_a_job_of_an_unknown_kind_stays_for_a_newer_version(here: World) -> None:
    await here.consumer.later(NewJob("of the future", "x", {"a": 1}))
    await here.jobs_done()
    (row,) = await here.rows(jobs_table)
    assert row["payload"] == {"a": 1}
    assert "of the future" in row["last_error"]


@both_databases
async def test_one_sweep_waits_for_all_processes(url: str) -> None:
    async with world(url, sweep_seconds=300) as left, world(url, sweep_seconds=300) as right:
        assert (await left.counts())["billing_jobs"] == 1
        left.clock.now = right.clock.now = NOW + 300_000
        await asyncio.gather(left.jobs_done(), right.jobs_done())
        (row,) = await left.rows(jobs_table)
        assert row["run_at"] == NOW + 600_000


@both_databases
async def test_a_sweep_that_a_clock_ahead_had_put_off_runs_soon_after_the_next_start(url: str) -> None:
    async with world(url, sweep_seconds=300) as before:
        before.clock.now = NOW + 365 * DAY
        await before.jobs_done()
    async with world(url, sweep_seconds=300) as after:
        (row,) = await after.rows(jobs_table)
        assert row["run_at"] == NOW + 300_000


@pytest.mark.parametrize(
    ("attempts", "fraction", "ms"), [(1, 0, 250), (1, 1, 500), (2, 1, 1000), (5, 1, 8000), (99, 1, 600_000)]
)
def test_the_backoff_grows_and_ends(attempts: int, fraction: float, ms: int) -> None:
    assert backoff_ms(attempts, fraction) == ms
