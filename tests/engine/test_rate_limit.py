"""The rate limit in the database, held against a list of instants, and the limit on receipts."""

from __future__ import annotations

import asyncio
import hashlib
import multiprocessing
from multiprocessing.synchronize import Barrier

import asyncpg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from latchkey.database.pool import Database
from latchkey.domain.instants import DAY, MINUTE
from latchkey.domain.leases import LeaseCount
from latchkey.engine.admission import Caller, Limited, Verdict
from latchkey.engine.rate_limits import Leases, PhoneLimit
from latchkey.engine.reads import Reader
from latchkey.engine.storage.catalog.catalogs import Catalogs
from latchkey.engine.storage.read_rows import admit
from latchkey.subjects.purchase_intake.usecases.receipts import ReceiptLimit
from tests.databases import hold_minute

WINDOW_US = 60_000_000
TAKE = "select granted, retry_after_us from take_requests($1, $2, $3, $4)"


async def key(database: Database, name: str, *, limit: int = 480) -> bytes:
    digest = hashlib.sha256(name.encode()).digest()
    await database.pool.execute(
        "insert into projects (id, name, created_at) values ('proj', 'Demo', 0) on conflict do nothing"
    )
    await database.pool.execute(
        "insert into api_keys (id, project_id, kind, name, scopes, hash, hint, rate_limit, created_at)"
        " values ($1, 'proj', 'secret', $1, '{read,write}', $2, 'sk_', $3, 0)",
        name,
        digest,
        limit,
    )
    return digest


# Steps between batches, so that runs crowd together, meet in one instant, and leave the window.
steps = st.lists(
    st.tuples(
        st.one_of(st.integers(0, 3), st.integers(0, 2_000_000), st.integers(WINDOW_US - 2, WINDOW_US + 2)),
        st.integers(1, 12),
    ),
    min_size=1,
    max_size=25,
)
relaxed = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@relaxed
@given(steps=steps, limit=st.integers(1, 20))
async def test_up_to_600_a_minute_it_is_exactly_the_sliding_window(
    database: Database, steps: list[tuple[int, int]], limit: int
) -> None:
    accepted: list[int] = []
    now = 1_000_000_000_000
    await database.pool.execute("delete from rate_windows")
    for step, wanted in steps:
        now += step
        recent = [instant for instant in accepted if instant > now - WINDOW_US]
        expected = min(wanted, limit - len(recent))
        accepted += [now] * expected
        granted, retry_after_us = await database.pool.fetchrow(TAKE, "k", wanted, limit, now)  # type: ignore[misc]
        assert granted == expected
        if granted < wanted:
            recent += [now] * expected
            assert retry_after_us == min(recent) + WINDOW_US - now
        else:
            assert retry_after_us is None


@relaxed
@given(steps=steps, limit=st.integers(601, 640), crowd=st.integers(50, 300))
async def test_above_600_a_minute_it_never_lets_more_through_and_gives_back_at_most_half_a_second_late(
    database: Database, steps: list[tuple[int, int]], limit: int, crowd: int
) -> None:
    accepted: list[int] = []
    now = 1_000_000_000_000
    await database.pool.execute("delete from rate_windows")
    for step, wanted in steps:
        now += step
        granted, retry_after_us = await database.pool.fetchrow(TAKE, "k", wanted * crowd, limit, now)  # type: ignore[misc]
        accepted += [now] * granted
        recent = [instant for instant in accepted if instant > now - WINDOW_US]
        assert len(recent) <= limit
        if granted < wanted * crowd:
            # A refusal is always the doing of requests of the last 60.5 seconds, and ends when one of them leaves.
            held = [instant for instant in accepted if instant > now - WINDOW_US - 500_000]
            assert len(held) >= limit
            assert 0 < retry_after_us <= max(held) + WINDOW_US + 500_000 - now
        runs = await database.pool.fetchval("select cardinality(buckets) from rate_windows")
        assert runs <= 122


async def test_a_limit_that_was_lowered_holds_at_once_and_says_truly_when_it_opens(database: Database) -> None:
    now = 1_000_000_000_000
    for n in range(10):
        assert await database.pool.fetchval(TAKE, "k", 1, 10, now + n) == 1
    row = await database.pool.fetchrow(TAKE, "k", 1, 4, now + 10)
    assert row is not None
    # Seven of the ten must leave before fewer than four are left.
    assert tuple(row) == (0, now + 6 + WINDOW_US - (now + 10))


async def test_a_clock_set_back_by_an_hour_does_not_lock_a_key_out_for_an_hour(database: Database) -> None:
    now = 1_000_000_000_000
    assert await database.pool.fetchval(TAKE, "k", 5, 5, now) == 5
    earlier = now - 3600 * 1_000_000
    assert await database.pool.fetchval(TAKE, "k", 1, 5, earlier) == 0
    assert await database.pool.fetchval(TAKE, "k", 5, 6, earlier + 1) == 1
    assert await database.pool.fetchval(TAKE, "k", 5, 5, earlier + WINDOW_US + 1) == 5


async def test_keys_do_not_share_a_window_and_strangers_have_none(database: Database) -> None:
    first, second = await key(database, "first", limit=2), await key(database, "second", limit=1)
    reader = Reader(database, Catalogs())
    stranger = hashlib.sha256(b"stranger").digest()
    asked = [first, second, stranger, first, second, first]
    verdicts: list[Verdict] = await asyncio.gather(*(reader.authenticate(digest) for digest in asked))
    assert [type(verdict).__name__ for verdict in verdicts] == [
        "Caller",
        "Caller",
        "NoneType",
        "Caller",
        "Limited",
        "Limited",
    ]
    assert await database.pool.fetchval("select count(*) from rate_windows") == 2


def hammer(url: str, digests: list[bytes], start: Barrier, granted: multiprocessing.Queue[list[int]]) -> None:
    async def run() -> list[int]:
        async with Database(url, max_size=2) as database:
            leases = Leases(database)
            reader = Reader(database, Catalogs(), leases)
            counts = [0] * len(digests)
            for number in range(100):
                # Both begin together, and neither goes on before the other has asked: on a busy machine one could be
                # through before the other was scheduled.
                if number < 2:
                    await asyncio.to_thread(start.wait, 300)
                for place, digest in enumerate(digests):
                    verdicts = await asyncio.gather(*(reader.authenticate(digest) for _ in range(7)))
                    counts[place] += sum(isinstance(verdict, Caller) for verdict in verdicts)
            await leases.close()
            return counts

    granted.put(asyncio.run(run()))


@pytest.mark.processes
async def test_two_processes_together_get_exactly_what_one_would(database: Database) -> None:
    """A limit that is counted exactly, and one that allows leases."""
    await hold_minute(database)
    exact, leased = await key(database, "exact", limit=480), await key(database, "leased", limit=900)
    context = multiprocessing.get_context("spawn")
    results: multiprocessing.Queue[list[int]] = context.Queue()
    start = context.Barrier(2)
    arguments = database.url, [exact, leased], start, results
    processes = [context.Process(target=hammer, args=arguments) for _ in range(2)]
    for process in processes:
        process.start()
    counts = [await asyncio.to_thread(results.get, True, 300) for _ in processes]
    for process in processes:
        await asyncio.to_thread(process.join)
    assert sum(count for count, _ in counts) == 480
    assert min(min(count) for count in counts) > 0
    # A process that the machine stopped for a moment hands back its lease late, and the other may have been refused
    # meanwhile. So what is left is asked for here, and then nothing is left.
    left = 900 - sum(count for _, count in counts)
    assert left >= 0
    reader = Reader(database, Catalogs())
    verdicts = await asyncio.gather(*(reader.authenticate(leased) for _ in range(left + 1)))
    assert [type(verdict) for verdict in verdicts] == [Caller] * left + [Limited]
    assert isinstance(verdicts[-1], Limited)
    assert 0 < verdicts[-1].retry_after_ms <= 60_500


async def test_many_connections_in_different_orders_never_lock_each_other(database: Database) -> None:
    digests = [await key(database, f"key {n}", limit=100_000) for n in range(6)]
    catalogs = Catalogs()

    async def take(order: list[bytes]) -> None:
        connection = await asyncpg.connect(database.url)
        for _ in range(30):
            await admit(connection, catalogs, {digest: LeaseCount(1) for digest in order}, [1] * 6, [None] * 6)
        await connection.close()

    await asyncio.gather(take(digests), take(digests[::-1]), take(digests[3:] + digests[:3]))
    assert await database.pool.fetchval("select sum(total) from rate_windows") == 3 * 30 * 6


NOW = 1_800_000_000_000


def test_nobody_uses_up_the_receipts_of_a_user_at_another_address() -> None:
    limit = ReceiptLimit(0, per_user=2, per_address=5)
    assert [limit.takes("p", "victim", "192.0.2.66", NOW) for _ in range(3)] == [True, True, False]
    assert limit.takes("p", "victim", "192.0.2.1", NOW)


def test_what_is_no_id_is_not_remembered() -> None:
    limit = PhoneLimit(per_address=0)
    assert [limit.wait_ms("app", 1, "x" * length, "192.0.2.1", NOW) is None for length in (100, 100, 101, 101)] == [
        True, False, True, True,
    ]  # fmt: skip


def test_an_address_has_a_limit_of_its_own_and_a_new_minute_begins_anew() -> None:
    limit = ReceiptLimit(0, per_user=2, per_address=3)
    assert [limit.takes("p", f"user{number}", "192.0.2.1", NOW) for number in range(4)] == [True, True, True, False]
    assert limit.takes("p", "user9", "192.0.2.1", NOW + MINUTE)


def test_what_nobody_has_verified_has_a_budget_for_each_app_and_address_and_day() -> None:
    limit = ReceiptLimit(unverified_bytes=10_000)
    here = ("app", "192.0.2.1")
    assert [limit.keeps(*here, 4_000, NOW) for _ in range(3)] == [True, True, False]
    # What does not fit counts nothing.
    assert not limit.keeps(*here, 4_000, NOW)
    assert limit.keeps("app", "192.0.2.2", 4_000, NOW)
    assert limit.keeps("other", "192.0.2.1", 4_000, NOW)
    assert limit.keeps(*here, 4_000, NOW + DAY)
