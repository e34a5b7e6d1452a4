"""Leases of the rate limit: the rules and the database together, held against a list of instants."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from latchkey.database.pool import Database
from latchkey.domain.leases import LATEST, LeaseState, answered, granted, plan
from latchkey.engine.admission import Caller, Limited
from latchkey.engine.rate_limits import Leases
from latchkey.engine.reads import Reader
from latchkey.engine.storage.catalog.catalogs import Catalogs
from tests.databases import hold_minute
from tests.engine.test_rate_limit import key
from tests.patience import until

WINDOW_US = 60_000_000
GRAIN_US = 500_000
TAKE = "select * from take_requests('k', $1, $2, $3, $4, $5, $6, $7)"


@dataclass
class Process:
    """A process of the model: its standing, and how far its clock is from the database's."""

    offset: float
    standing: LeaseState = field(default_factory=LeaseState)
    hand_back_at: float | None = None


@dataclass
class World:
    """Processes that share one key, with one clock. Times are in microseconds of the database."""

    connection: Any
    limit: int
    processes: list[Process]
    now: int = 1_000_000_000_000
    admitted: list[int] = field(default_factory=list)
    # Requests of leases that nobody handed back, each with the instant of its run.
    lost: list[int] = field(default_factory=list)

    def clock(self, process: Process) -> float:
        return self.now / 1_000_000 + process.offset

    async def take(self, *arguments: Any) -> Any:
        wanted, ahead, back, settled, run = arguments
        return await self.connection.fetchrow(TAKE, wanted, self.limit, self.now, ahead, back, settled, run)

    async def pass_time(self, us: int) -> None:
        """Processes hand back leases that are over, each at its time."""
        until = self.now + us
        while True:
            due = [one for one in self.processes if one.hand_back_at is not None and one.hand_back_at <= until]
            if not due:
                break
            first = min(due, key=lambda one: one.hand_back_at or 0)
            assert first.hand_back_at is not None
            self.now = max(self.now, int(first.hand_back_at) + 1)
            lease, first.hand_back_at = first.standing.lease, None
            if lease is not None:
                first.standing = first.standing._replace(lease=None)
                await self.take(0, 0, lease.left, lease.size, lease.run)
        self.now = max(self.now, until)

    async def ask(self, process: Process, amount: int, there_us: int, back_us: int) -> None:
        sent = self.clock(process)
        process.standing, count = plan(process.standing, amount, sent)
        if not count.wanted:
            self.admit(amount)
            return
        await self.pass_time(there_us)
        row = await self.take(count.wanted, count.ahead, count.back, count.settled, count.run)
        self.admit(row["granted"])
        if row["granted"] < amount:
            await self.refused(row)
        process.standing = answered(process.standing, count)
        if row["leased"]:
            assert row["leased_us"] <= GRAIN_US
            process.standing = granted(
                process.standing, row["leased_at"], row["leased"], row["leased_us"], row["used"], sent
            )
            process.hand_back_at = (sent - process.offset + LATEST) * 1_000_000 + row["leased_us"]
        await self.pass_time(back_us)

    def admit(self, amount: int) -> None:
        self.admitted += [self.now] * amount
        assert len([at for at in self.admitted if at > self.now - WINDOW_US]) <= self.limit

    def crash(self, process: Process) -> None:
        if process.standing.lease is not None:
            self.lost += [process.standing.lease.run] * process.standing.lease.left
        process.standing, process.hand_back_at = LeaseState(), None

    async def refused(self, row: Any) -> None:
        held = [at for at in (*self.admitted, *self.lost) if at > self.now - WINDOW_US - GRAIN_US]
        if row["open_us"] is not None:
            assert 0 < row["open_us"] <= GRAIN_US + 250_000
            return
        # Refused for certain: only because of requests of the last 60.5 seconds, and of processes that died.
        assert len(held) >= self.limit
        retry = row["retry_after_us"]
        for wait, expected in ((retry - 1, False), (retry, True)):
            transaction = self.connection.transaction()
            await transaction.start()
            again = await self.connection.fetchrow(TAKE, 1, self.limit, self.now + wait, 0, 0, 0, None)
            await transaction.rollback()
            assert bool(again["granted"]) is expected


steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("ask"),
            st.integers(0, 2),
            st.one_of(st.integers(1, 60), st.integers(100, 400)),
            st.integers(0, 40_000),
            st.integers(0, 40_000),
            st.one_of(st.integers(0, 30_000), st.integers(0, 700_000), st.integers(WINDOW_US - 2, WINDOW_US + 2)),
        ),
        st.tuples(st.just("crash"), st.integers(0, 2)),
    ),
    min_size=5,
    max_size=60,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=steps, limit=st.integers(601, 700), offsets=st.tuples(*[st.floats(-5_000, 5_000)] * 3))
async def test_processes_with_leases_never_admit_more_and_refuse_only_when_all_is_used(
    database: Database, steps: list[Any], limit: int, offsets: tuple[float, ...]
) -> None:
    async with database.acquire() as connection:
        await connection.execute("delete from rate_windows")
        world = World(connection, limit, [Process(offset) for offset in offsets])
        for step in steps:
            process = world.processes[step[1]]
            if step[0] == "crash":
                world.crash(process)
            else:
                _, _, amount, there_us, back_us, rest_us = step
                await world.ask(process, amount, there_us, back_us)
                await world.pass_time(rest_us)
        row = await connection.fetchrow("select total, counts, leased_out from rate_windows")
        if row is not None:
            assert row["total"] == sum(row["counts"])
            assert min(row["counts"], default=0) >= 0
            assert row["leased_out"] >= 0


async def total(database: Database) -> tuple[int, int]:
    """How many requests are counted, and how many of them are leases that are out."""
    row = await database.pool.fetchrow("select total, leased_out from rate_windows")
    assert row is not None
    return row["total"], row["leased_out"]


async def test_a_busy_key_is_counted_with_few_writes_and_its_leases_are_handed_back(database: Database) -> None:
    await hold_minute(database)
    digest = await key(database, "busy", limit=100_000)
    leases = Leases(database)
    reader = Reader(database, Catalogs(), leases)
    used = []
    for _ in range(150):
        answer = await reader.admit(digest, "nobody")
        verdict = await reader.authenticate(digest)
        assert isinstance(answer.verdict, Caller)
        assert isinstance(verdict, Caller)
        used += [answer.verdict.rate_used, verdict.rate_used]
    # What V2 tells its callers.
    assert used == list(range(1, 301))
    await leases.close()
    assert await total(database) == (300, 0)


async def test_a_lease_that_no_request_follows_is_handed_back_by_itself(database: Database) -> None:
    await hold_minute(database)
    digest = await key(database, "busy", limit=100_000)
    reader = Reader(database, Catalogs())
    leased = False
    asked = 0
    while not leased:
        await asyncio.gather(*(reader.authenticate(digest) for _ in range(30)))
        asked += 30
        leased = (await total(database))[1] > 0

    async def handed_back() -> bool:
        return await total(database) == (asked, 0)

    await until(handed_back)


async def test_a_refusal_waits_for_the_leases_of_other_processes(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process holds a lease of a key. Another one asks for everything that is left: it gets what the first has not
    used, not a refusal."""
    await hold_minute(database)
    limit = 700
    digest = await key(database, "shared", limit=limit)
    holder, patient = Leases(database, clock=lambda: 100.0), Leases(database)
    # It hands back nothing by itself, but while the other one waits.
    monkeypatch.setattr(holder, "_watch", lambda *_: None)
    waits: list[int] = []

    async def others(ms: int) -> None:
        waits.append(ms)
        await holder.close()

    monkeypatch.setattr(patient, "others", others)
    first, second = Reader(database, Catalogs(), holder), Reader(database, Catalogs(), patient)
    for _ in range(5):
        await asyncio.gather(*(first.authenticate(digest) for _ in range(20)))
    rest = await asyncio.gather(*(second.authenticate(digest) for _ in range(limit - 100)))
    refused = await second.authenticate(digest)
    assert set(waits) == {650}
    assert all(isinstance(verdict, Caller) for verdict in rest)
    assert isinstance(refused, Limited)
    assert 0 < refused.retry_after_ms <= 60_500


async def test_a_revoked_key_is_refused_at_once_although_it_has_a_lease(database: Database) -> None:
    digest = await key(database, "busy", limit=100_000)
    leases = Leases(database)
    reader = Reader(database, Catalogs(), leases)
    for _ in range(3):
        await asyncio.gather(*(reader.admit(digest, "nobody") for _ in range(30)))
        await asyncio.gather(*(reader.authenticate(digest) for _ in range(30)))
    await database.pool.execute("update api_keys set revoked_at = 1")
    assert await reader.authenticate(digest) is None
    assert (await reader.admit(digest, "nobody")).verdict is None
