"""A process that commits a change and delivers: it sends at once what its own statement has leased to it."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
from msgspec import json

from latchkey.database.sealing import Sealer
from latchkey.engine.changes import Changes
from latchkey.engine.storage.writes import DeliveryLease, Written
from latchkey.subjects.webhooks.delivery.queue.worker import Worker
from latchkey.subjects.webhooks.delivery.sending.sender import Sender
from latchkey.subjects.webhooks.storage import lanes
from latchkey.subjects.webhooks.storage.lanes import Claim
from tests.patience import PATIENCE, until
from tests.subjects.webhooks.delivery.conftest import PROJECT, Yard, now_ms
from tests.subjects.webhooks.delivery.processes import SECRET_KEY
from tests.subjects.webhooks.delivery.test_order import LEASE, Line
from tests.subjects.webhooks.delivery.test_sender import LOOPBACK


class Committer:
    """A process that takes its deliveries, and then does nothing: it might have been killed."""

    def __init__(self, yard: Yard) -> None:
        self.written: list[Written] = []
        self.leases: list[DeliveryLease] = []
        yard.changes = Changes(yard.database, now_ms, deliverer=self)

    def lease(self) -> DeliveryLease | None:
        self.leases.append(DeliveryLease(now_ms() + LEASE, token=len(self.leases) + 1))
        return self.leases[-1]

    def committed(self, project_id: str, lease: DeliveryLease, written: Written) -> None:
        assert (project_id, lease) == (PROJECT, self.leases[-1])
        self.written.append(written)

    def claims(self) -> Sequence[Claim]:
        return lanes.leased(PROJECT, self.leases[-1], self.written[-1])


@pytest.fixture
def committer(yard: Yard) -> Committer:
    return Committer(yard)


def leased(written: Written) -> list[tuple[int, int]]:
    """Webhook and sequence."""
    return [(one.webhook_key, one.sequence) for one in written.leased or ()]


async def test_the_first_event_of_a_change_is_leased_to_who_commits_it(yard: Yard, committer: Committer) -> None:
    line = Line(yard, await yard.hook("https://receiver.example/"))
    told = await yard.buy("ann")
    [written] = committer.written
    assert leased(written) == [(line.webhook.key, 1)]
    assert [json.decode(body)["id"] for body in written.bodies.values()] == [event.id for event in told]
    assert not written.woken
    line.now = now_ms()
    assert await line.claim() == []

    # After its lease another worker sends what the process has not.
    line.now += LEASE
    [claim] = await line.claim()
    assert (claim.sequence, claim.event) == (1, written.bodies[told[0].id])
    assert await line.record(committer.claims()) == 0
    assert await line.record([claim]) == 1


async def test_an_outcome_of_a_leased_delivery_is_recorded_and_its_lane_goes_on(
    yard: Yard, committer: Committer
) -> None:
    line = Line(yard, await yard.hook("https://receiver.example/"))
    await yard.buy("ann")
    assert await line.record(committer.claims()) == 1
    [second] = await line.claim()
    assert second.sequence == 2
    await line.record([second])
    await yard.buy("ann")
    assert leased(committer.written[1]) == [(line.webhook.key, 3)]


async def test_a_customer_whose_events_wait_already_is_left_to_the_queue(yard: Yard, committer: Committer) -> None:
    webhook = await yard.hook("https://receiver.example/")
    await yard.buy("ann")
    await yard.buy("ann")
    assert leased(committer.written[1]) == []
    assert committer.written[1].woken == [webhook.key]


@pytest.mark.parametrize(
    "state",
    ["paused_at = 1", "failing_since = 1", f"open_until = {10**15}", "in_flight_limit = 63"],
)
async def test_a_webhook_with_failures_or_a_low_limit_is_left_to_the_queue(
    yard: Yard, committer: Committer, state: str
) -> None:
    webhook = await yard.hook("https://receiver.example/")
    await yard.database.pool.execute(f"update webhooks set {state}")
    await yard.buy("ann")
    assert leased(committer.written[0]) == []
    assert committer.written[0].woken == [webhook.key]


async def test_where_many_wait_new_ones_wait_behind_them(yard: Yard, committer: Committer) -> None:
    await yard.hook("https://receiver.example/")
    for number in range(36):
        await yard.buy(f"user{number}")
    assert [bool(leased(written)) for written in committer.written] == [True] * 32 + [False] * 4


@asynccontextmanager
async def running_worker(yard: Yard, drain_seconds: float = PATIENCE) -> AsyncIterator[Worker]:
    sender = Sender(now_ms, allowed=LOOPBACK, extra_ca=yard.certs.authority)
    worker = Worker(yard.database, sender, Sealer(SECRET_KEY), now=now_ms, chance=lambda: 0.5)
    yard.changes = Changes(yard.database, now_ms, deliverer=worker)
    stop = asyncio.Event()
    running = asyncio.create_task(worker.run(stop, drain_seconds))
    await asyncio.sleep(0)
    try:
        yield worker
    finally:
        stop.set()
        await running
        await sender.close()


async def test_a_process_sends_what_it_commits_without_claiming_it(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    receiver = yard.receiver()
    await yard.hook(receiver.url())

    async def no_claim(*_: object) -> list[Claim]:
        return []

    monkeypatch.setattr(lanes, "claim_lane", no_claim)
    async with running_worker(yard):
        told = [(await yard.buy(f"user{number}"))[0] for number in range(10)]
        await until(lambda: len(receiver.arrivals()) == 10)
    assert {arrival.event_id for arrival in receiver.arrivals()} == {event.id for event in told}
    assert await yard.count("delivered") == 10


async def test_one_process_sends_all_events_of_its_customers_in_order(yard: Yard) -> None:
    receiver = yard.receiver()
    await yard.hook(receiver.url())
    async with running_worker(yard):
        told = [event.id for _ in range(5) for event in await yard.buy("ann")]
        await until(lambda: len(receiver.arrivals()) == len(told))
    assert [arrival.event_id for arrival in receiver.arrivals()] == told
    assert await yard.leased() == 0


async def test_what_a_stopping_process_commits_is_left_to_the_others(yard: Yard) -> None:
    receiver = yard.receiver()
    webhook = await yard.hook(receiver.url())
    async with running_worker(yard) as worker:
        lease = worker.lease()
        assert lease is not None
    assert worker.lease() is None
    heard: list[list[int]] = []
    async with lanes.listening(yard.database, heard.append):
        await yard.buy("ann")
        await until(lambda: heard == [[webhook.key]])
    assert await yard.leased() == 0


async def test_several_processes_keep_the_limit_of_a_webhook_together(yard: Yard) -> None:
    receiver = yard.receiver()
    line = Line(yard, await yard.hook(receiver.url("/hang"), in_flight_limit=64))
    async with running_worker(yard, drain_seconds=0):
        first = yard.changes
        async with running_worker(yard, drain_seconds=0):
            for number in range(60):
                await yard.buy(f"user{number}", by=first)
                await yard.buy(f"other{number}")
            await until(lambda: len(receiver.arrivals()) >= 64)
            line.now = now_ms()
            assert await line.claim() == []
            assert (await yard.leased(), len(receiver.arrivals())) == (64, 64)
