"""Workers, writers and databases killed at the worst moments, receivers that misbehave: nothing is lost, order holds,
others are not slowed."""

import asyncio
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from latchkey.database.embedded.postgres import EmbeddedServer
from latchkey.database.pool import Database
from latchkey.database.sealing import Sealer
from latchkey.subjects.webhooks.rules import Setup
from latchkey.subjects.webhooks.usecases.registry import Registry
from tests.connections import migrated
from tests.databases import drained
from tests.engine.fixtures import new_project
from tests.patience import PATIENCE, until
from tests.subjects.webhooks.delivery import certificates
from tests.subjects.webhooks.delivery.chaos import run
from tests.subjects.webhooks.delivery.conftest import PROJECT, Yard
from tests.subjects.webhooks.delivery.processes import SECRET_KEY, Arrival, Receiver, Worker, Writer, in_order

# The worker has an answer and cannot record it, because the test holds the row locks.
WAITS_TO_RECORD = (
    "select count(*) from pg_stat_activity where application_name = 'latchkey delivery' and wait_event_type = 'Lock'"
)
END = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'latchkey delivery'"
# In a distributed database it waits on the node of the project.
WAITS_ON_A_NODE = "select count(*) from citus_lock_waits"
END_ON_NODES = (
    "select run_command_on_workers($$ select count(pg_terminate_backend(pid)) from pg_stat_activity"
    " where wait_event_type = 'Lock' $$)"
)


def ids(arrivals: list[Arrival]) -> set[str]:
    return {one.event_id for one in arrivals if one.taken}


async def test_killed_before_it_claims_another_worker_delivers(yard: Yard) -> None:
    receiver = yard.receiver()
    await yard.hook(receiver.url())
    yard.worker().kill()
    told = await yard.buy("ann", 3)
    yard.worker()
    await until(lambda: len(receiver.arrivals()) >= len(told))
    assert [one.event_id for one in receiver.arrivals()] == [event.id for event in told]


async def test_killed_after_the_claim_the_lease_runs_out_and_another_worker_delivers(yard: Yard) -> None:
    receiver = yard.receiver()
    await yard.hook(receiver.url())
    # A stopped receiver never completes the TLS handshake: the deliveries are claimed, and nothing is sent.
    receiver.signal(signal.SIGSTOP)
    first = yard.worker()
    told = await yard.buy("ann", 3)
    await _until_leased(yard)
    first.kill()
    await _let_leases_run_out(yard)
    receiver.signal(signal.SIGCONT)
    assert receiver.arrivals() == []
    yard.worker()
    await until(lambda: ids(receiver.arrivals()) == {event.id for event in told})
    assert in_order(receiver.arrivals())


async def test_killed_after_the_answer_and_before_it_was_recorded_the_same_is_sent_again(yard: Yard) -> None:
    receiver = yard.receiver()
    await yard.hook(receiver.url())
    # The receiver cannot answer before the test holds the locks.
    receiver.signal(signal.SIGSTOP)
    first = yard.worker()
    told = await yard.buy("ann", 2)
    await _until_leased(yard)
    async with yard.database.transaction() as connection:
        # The worker cannot record before this transaction ends; the receiver answers meanwhile.
        await connection.fetch("select from lanes where project_id = $1 for update", PROJECT)
        receiver.signal(signal.SIGCONT)
        await until(lambda: len(receiver.arrivals()) == 1)
        spread = yard.database.is_distributed
        await until(lambda: connection.fetchval(WAITS_ON_A_NODE if spread else WAITS_TO_RECORD))
        first.kill()
        # PostgreSQL would still run the statement that waits for the lock. If the worker's machine had died, it would
        # not.
        for end in (END_ON_NODES, END) if spread else (END,):
            await connection.fetch(end)
    assert await yard.count("delivered") == 0
    await _let_leases_run_out(yard)
    yard.worker()
    await until(lambda: ids(receiver.arrivals()) == {event.id for event in told})
    arrivals = receiver.arrivals()
    assert arrivals[0].event_id == arrivals[1].event_id == told[0].id
    assert in_order(arrivals)
    assert len(arrivals) == len(told) + 1


async def test_sigterm_finishes_what_is_under_way(yard: Yard) -> None:
    receiver = yard.receiver()
    await yard.hook(receiver.url("/slow/500"))
    worker = yard.worker()
    await yard.buy("ann")
    await _until_leased(yard)
    assert worker.stop() == 0
    assert await yard.leased() == 0
    assert await yard.count("delivered") >= 1


BAD = {
    "/hang": "timed out after 1 s",
    "/half": "closed the connection",
    "/garbage": "not HTTP",
    "/down": "closed the connection",
    "/status/500": "answered 500",
    "/status/204": "answered 204",
    "/redirect": "redirects are not followed",
}


async def test_bad_receivers_are_retried_in_order_and_slow_nobody(yard: Yard) -> None:
    bad, good = yard.receiver(), yard.receiver()
    hooks = {behaviour: await yard.hook(bad.url(behaviour), retry_seconds=(1,) * 99) for behaviour in BAD}
    await yard.hook(good.url())
    yard.worker(LATCHKEY_WEBHOOK_TIMEOUT_MS="1000")
    told = [event for user in ("ann", "bob") for event in await yard.buy(user, 3)]
    # While the others are bad. On a busy machine an attempt may time out and be repeated.
    await until(lambda: ids(good.arrivals()) == {event.id for event in told})
    for behaviour, hook in hooks.items():
        failed = "select count(*) from attempts where webhook_key = $1 and error like $2"
        pattern = f"%{BAD[behaviour]}%"
        await until(lambda: yard.database.pool.fetchval(failed, hook.key, pattern), behaviour)  # noqa: B023 - awaited at once
        repaired = good.url(f"/repaired{behaviour}")
        await yard.database.pool.execute(
            "update webhooks set url = $2, version = version + 1 where key = $1", hook.key, repaired
        )
    for behaviour in BAD:
        path = f"/repaired{behaviour}"
        await until(lambda: ids(good.arrivals(path)) == {event.id for event in told})  # noqa: B023 - awaited at once
        assert in_order(good.arrivals(path))


@pytest.mark.parametrize(
    ("certificate", "words"), [("expired", "certificate expired"), ("stranger", "certificate not trusted")]
)
async def test_a_certificate_that_does_not_hold_is_never_spoken_to(yard: Yard, certificate: str, words: str) -> None:
    receiver, good = yard.receiver(getattr(yard.certs, certificate)), yard.receiver()
    await yard.hook(receiver.url())
    await yard.hook(good.url())
    yard.worker()
    told = await yard.buy("ann")
    await _until_delivered(yard, len(told))
    failed = "select min(error) from attempts where error is not null"
    error = await until(lambda: yard.database.pool.fetchval(failed))
    assert words in error
    assert receiver.arrivals() == []


async def _until_leased(yard: Yard) -> None:
    await until(yard.leased, "nothing was claimed")


async def _let_leases_run_out(yard: Yard) -> None:
    await yard.database.pool.execute("update lanes set lease_until = 1")


async def _until_delivered(yard: Yard, count: int) -> None:
    async def delivered() -> bool:
        return await yard.count("delivered") >= count

    await until(delivered, f"fewer than {count} were delivered")


async def test_workers_writer_and_database_killed_at_random_lose_nothing(short_folder: Path) -> None:
    figures: Counter[str] = Counter()
    await run(short_folder / "chaos", 7, 6, figures)
    assert figures["kills"] > 0, figures


PATHS = ("/", "/slow/20")


async def test_a_database_restarted_under_load_loses_nothing(
    short_folder: Path, certs: certificates.Certificates
) -> None:
    folder = short_folder / "restart"
    folder.mkdir()
    server = EmbeddedServer(folder / "server")
    await asyncio.to_thread(server.start)
    try:
        await migrated(server.url())
        with Receiver(folder, certs.good) as receiver:
            async with Database(server.url()) as database:
                await new_project(database, "proj_shop", 0)
                for path in PATHS:
                    setup = Setup(name=path, url=receiver.url(path), retry_seconds=(1,) * 30)
                    await Registry(database, Sealer(SECRET_KEY)).add("proj_shop", setup, 0)
            with Worker(folder, server.url(), certs.authority, LATCHKEY_WEBHOOK_TIMEOUT_MS="5000") as worker:
                with Writer(folder, server.url(), 100, seed=5) as writer:
                    before = await _until_arrived(receiver, 30)
                    await asyncio.to_thread(server.stop)
                    await asyncio.to_thread(server.start)
                    # The same worker and writer reconnect by themselves.
                    await _until_arrived(receiver, before + 60)
                    assert writer.stop() == 0
                async with Database(server.url()) as database:
                    await drained(database)
                    committed = {row["id"] for row in await database.pool.fetch("select id from events")}
                assert worker.stop() == 0
            for path in PATHS:
                arrivals = receiver.arrivals(path)
                assert {one.event_id for one in arrivals if one.taken} == committed
                assert in_order(arrivals)
    finally:
        await asyncio.to_thread(server.stop)


async def _until_arrived(receiver: Receiver, count: int) -> int:
    ends = time.monotonic() + PATIENCE
    while (arrived := len(receiver.arrivals("/"))) < count:
        assert time.monotonic() < ends, f"{arrived} of {count} arrived"
        await asyncio.sleep(0.05)
    return arrived
