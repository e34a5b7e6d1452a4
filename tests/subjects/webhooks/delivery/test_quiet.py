"""A worker says to the database what is needed and nothing more, and still misses no delivery."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latchkey.database.pool import Database
from latchkey.database.sealing import Sealer
from latchkey.subjects.webhooks.delivery.queue import worker as queue_worker
from latchkey.subjects.webhooks.delivery.queue.dispatcher import Agenda, Capacity
from latchkey.subjects.webhooks.delivery.queue.worker import Worker, listen
from latchkey.subjects.webhooks.delivery.sending.sender import Sender
from tests.patience import PATIENCE, until
from tests.statements import counted
from tests.subjects.webhooks.delivery.conftest import Yard, now_ms
from tests.subjects.webhooks.delivery.processes import SECRET_KEY
from tests.subjects.webhooks.delivery.test_sender import LOOPBACK


@pytest.fixture(autouse=True)
def no_further_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that comes between a commit and its NOTIFY would claim before it."""
    monkeypatch.setattr(queue_worker, "SWEEP_SECONDS", PATIENCE)


@asynccontextmanager
async def working(yard: Yard, database: Database, said: list[str]) -> AsyncIterator[Worker]:
    """A worker in this process that listens and has nothing to do."""
    sender = Sender(now_ms, allowed=LOOPBACK, extra_ca=yard.certs.authority)
    worker = Worker(database, sender, Sealer(SECRET_KEY), now=now_ms, chance=lambda: 0.5)
    stop, looked = asyncio.Event(), asyncio.Event()

    async def look_around() -> None:
        await worker.sweep()
        looked.set()

    listening = asyncio.create_task(listen(database, worker.woken, look_around))
    running = asyncio.create_task(worker.run(stop, PATIENCE))
    try:
        async with asyncio.timeout(PATIENCE):
            await looked.wait()
            # The worker sweeps when it begins; so does whoever begins to listen.
            await until(lambda: _said(said, "due_webhooks", 2))
        yield worker
    finally:
        stop.set()
        await running
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
        await sender.close()


async def _said(said: list[str], name: str, times: int) -> bool:
    return said.count(name) >= times


async def delivered(yard: Yard, worker: Worker, count: int) -> None:
    async def all_of_them() -> bool:
        return await yard.count("delivered") == count

    await until(all_of_them)
    await worker.until_recorded()


@pytest.mark.one_server("it names statements, which have other texts there")
async def test_every_retry_comes_in_time_not_only_the_first_of_a_webhook(yard: Yard) -> None:
    await yard.hook(yard.receiver().url("/flaky/1"), retry_seconds=(3,), event_types=("NON_RENEWING_PURCHASE",))
    async with counted(yard.database.url) as (database, said), working(yard, database, said) as worker:
        for number in range(1, 4):
            # Each fails once, and is retried after three seconds: later than the one before. There is no sweep.
            await yard.buy(f"user{number}")
            await until(lambda: _said(said, "record_attempts", number))  # noqa: B023
        await delivered(yard, worker, 3)


class World:
    """Deliveries of a few webhooks, and everything between their commit and their record that can happen in any order:
    NOTIFY comes late, a claim sees what was committed when it began, answers come when they like."""

    KEYS = (1, 2, 3)
    LIMIT = 3

    def __init__(self) -> None:
        self.agenda = Agenda()
        self.capacity = Capacity(6, lambda _: self.LIMIT)
        self.waiting: Counter[int] = Counter()
        self.notified: list[int] = []
        self.sent: list[int] = []
        # A claim under way: what it was allowed to take, and what it has taken.
        self.claim: tuple[dict[int, int], Counter[int]] | None = None

    def commit(self, key: int) -> None:
        self.waiting[key] += 1
        self.notified.append(key)

    def notify(self) -> None:
        if self.notified:
            self.agenda.add([self.notified.pop(0)])

    def begin_claim(self) -> None:
        if self.claim is None and (budgets := self.capacity.budgets(self.agenda.turn(0))):
            taken = Counter({key: min(amount, self.waiting[key]) for key, amount in budgets.items()})
            self.waiting.subtract(taken)
            self.claim = budgets, taken

    def end_claim(self) -> None:
        if self.claim is not None:
            (budgets, taken), self.claim = self.claim, None
            self.agenda.add(self.capacity.claimed(budgets, taken))
            for key in taken.elements():
                self.capacity.begin(key)
                self.sent.append(key)

    def record(self) -> None:
        if self.sent:
            self.agenda.add(self.capacity.end([self.sent.pop(0)]))

    def settle(self) -> None:
        """Everything that is under way ends, and nothing more is committed."""
        for _ in range(1000):
            for step in (self.notify, self.begin_claim, self.end_claim, self.record):
                step()


STEPS = st.one_of(
    st.tuples(st.just("commit"), st.sampled_from(World.KEYS)),
    st.tuples(st.sampled_from(["notify", "begin_claim", "end_claim", "record"]), st.none()),
)


@given(st.lists(STEPS, max_size=80))
async def test_whatever_the_order_nothing_is_left_waiting(steps: list[tuple[str, int | None]]) -> None:
    world = World()
    for name, key in steps:
        if key is None:
            getattr(world, name)()
        else:
            world.commit(key)
    world.settle()
    assert not world.waiting.total()
    assert not world.sent
    assert world.claim is None
    assert not world.capacity.budgets(world.agenda.turn(0))
