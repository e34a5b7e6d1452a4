"""Deliveries, attempts and events in several partitions: nothing is lost, doubled or out of order."""

import asyncio

import asyncpg
import pytest
from msgspec import json

from latchkey.database.errors import DatabaseBusyError, OutageError
from latchkey.database.pool import Database, connect
from latchkey.domain import partitions as rules
from latchkey.domain.retry import SCHEDULE
from latchkey.subjects.webhooks.delivery.queue.requeue_runs import resend, start_replay, work_off
from latchkey.subjects.webhooks.delivery.role import prune, turn_over
from latchkey.subjects.webhooks.rules import ReplayRange
from latchkey.subjects.webhooks.storage import delivery_rows as requeue
from latchkey.subjects.webhooks.storage import lanes as parts
from tests.patience import until
from tests.subjects.webhooks.delivery.conftest import PROJECT, Yard
from tests.subjects.webhooks.delivery.test_order import Line

DAY = 24 * 3600 * 1000
MONTH = 30 * DAY


@pytest.fixture
async def line(yard: Yard) -> Line:
    return Line(yard, await yard.hook("https://receiver.example/", retry_seconds=SCHEDULE))


async def deliver_all(line: Line, status: int = 200) -> list[tuple[int, int]]:
    """Customer and sequence of everything that is claimed, in order."""
    arrived = []
    while claims := await line.claim():
        arrived += [(one.customer_id, one.sequence) for one in claims]
        await line.record(claims, status)
    return arrived


async def tables(database: Database, kind: str) -> set[str]:
    rows = await database.pool.fetch(
        "select inhrelid::regclass::text as name from pg_inherits where inhparent = $1::text::regclass", kind
    )
    return {row["name"] for row in rows}


async def numbers(database: Database, table: str) -> list[int]:
    rows = await database.pool.fetch(f"select partition from {table} order by partition")
    return [row["partition"] for row in rows]


@pytest.mark.one_server("it calls write_changes, which is another function there")
async def test_an_event_of_an_older_partition_cannot_be_told_again(line: Line) -> None:
    """The index of a partition does not know the ids of the others."""
    told = await line.yard.buy("ann")
    database = line.yard.database
    for part in (1000, 2000):
        await parts.open_part(database, part, line.now)
        await line.yard.buy("bob")
        with pytest.raises(asyncpg.UniqueViolationError, match="exists already"):
            await tell(database, told[0].id, 1000 + part)
    with pytest.raises(asyncpg.UniqueViolationError):
        # In the newest one its index says so.
        await tell(database, (await line.yard.buy("ann"))[0].id, 5000)
    await tell(database, "an id of its own", 6000)
    assert await database.pool.fetchval("select max(position) = count(*) and count(*) = 9 from events")


async def tell(database: Database, event_id: str, sequence: int) -> None:
    event = {"who": 1, "id": event_id, "sequence": sequence, "type": "RENEWAL", "environment": "SANDBOX"}
    event |= {"occurred_at": 0, "vendor_selectors": [], "body": 1}
    changes = json.encode({"events": [event]})
    await database.pool.execute("select write_changes($1, 0, $2, $3)", PROJECT, changes, [b"{}"])


# Dropping.


class Past:
    """A part that was closed long ago: ann's deliveries succeeded then, bob's failed, eve's were finished lately."""

    def __init__(self, line: Line) -> None:
        self.line = line
        self.database = line.yard.database
        self.now = line.now + MONTH + DAY

    async def begin(self) -> None:
        for user in ("ann", "bob", "eve"):
            self.told = await self.line.yard.buy(user)
        await deliver_all(self.line)
        await self.mark("bob", "status = 'failed', error = 'answered 500'")
        await self.mark("eve", f"finished_at = {self.now - 1}")
        await parts.open_part(self.database, 1, self.line.now)

    async def mark(self, user: str, change: str) -> None:
        await self.database.pool.execute(
            f"update deliveries d set {change} from aliases a"
            " where a.project_id = d.project_id and a.customer_id = d.customer_id and a.app_user_id = $1",
            user,
        )

    async def stored(self) -> dict[str, list[int]]:
        """The parts of each customer's deliveries. Each of them has one attempt, in the same part."""
        rows = await self.database.pool.fetch(
            "select a.app_user_id, d.partition, array(select t.partition from attempts t"
            " where t.project_id = d.project_id and t.customer_id = d.customer_id and t.sequence = d.sequence)"
            " as attempts from deliveries d join aliases a using (project_id, customer_id)"
            " order by a.app_user_id, d.sequence"
        )
        found: dict[str, list[int]] = {}
        for row in rows:
            assert row["attempts"] == [row["partition"]]
            found.setdefault(row["app_user_id"], []).append(row["partition"])
        return found


@pytest.fixture
async def past(line: Line) -> Past:
    past = Past(line)
    await past.begin()
    return past


async def test_dropping_a_part_keeps_what_failed_and_what_was_finished_lately(past: Past) -> None:
    await turn_over(past.database, past.now - 2 * DAY, MONTH)
    assert await past.stored() == {"ann": [0, 0], "bob": [0, 0], "eve": [0, 0]}
    await turn_over(past.database, past.now, MONTH)
    assert await past.stored() == {"bob": [-1, -1], "eve": [-1, -1]}
    assert await tables(past.database, "deliveries") == {"deliveries_kept", "deliveries_1"}
    assert await tables(past.database, "attempts") == {"attempts_kept", "attempts_1"}
    assert await past.database.pool.fetchval("select count(*) from events") == 6
    # Later eve's are old too, and are deleted one by one. What failed is kept.
    await turn_over(past.database, past.now, MONTH)
    assert await prune(past.database, past.now, MONTH) == 0
    assert await prune(past.database, past.now + MONTH, MONTH) == 2
    assert await past.stored() == {"bob": [-1, -1]}


async def test_a_part_is_kept_while_one_of_its_deliveries_is_pending(past: Past) -> None:
    line = past.line
    await past.mark("ann", "status = 'waiting'")
    await past.database.pool.execute(
        "insert into lanes (project_id, customer_id, webhook_key, waiting, done, next_at)"
        " select project_id, customer_id, webhook_key, 2, 0, 0 from deliveries d"
        " join aliases a using (project_id, customer_id) where a.app_user_id = 'ann' and sequence = 1"
    )
    await turn_over(past.database, past.now, MONTH)
    assert "deliveries_0" in await tables(past.database, "deliveries")
    # The others are deleted one by one, a little later than usual.
    assert await prune(past.database, past.now, MONTH) == 0
    assert await prune(past.database, past.now + 2 * MONTH, MONTH) == 2
    assert [sequence for _, sequence in await deliver_all(line)] == [1, 2]
    await turn_over(past.database, past.now, MONTH)
    assert "deliveries_0" not in await tables(past.database, "deliveries")


async def test_what_is_sent_again_from_a_closed_part_outlives_it(past: Past) -> None:
    line = past.line
    assert await resend(past.database, PROJECT, line.webhook.id, past.told[0].id, line.now)
    assert (await past.stored())["eve"] == [-1, 0]
    await past.mark("eve", "finished_at = 0")
    await turn_over(past.database, past.now, MONTH)
    claims = await line.claim()
    assert [(one.event_id, one.attempts, one.part) for one in claims] == [(past.told[0].id, 1, -1)]
    await line.record(claims)
    rows = await past.database.pool.fetch(
        "select partition, number from attempts where partition = -1 and customer_id = $1 order by number",
        claims[0].customer_id,
    )
    assert [tuple(row) for row in rows] == [(-1, 1), (-1, 2)]


@pytest.mark.one_server("it waits for a lock, which is on a node there")
async def test_two_who_resend_the_same_old_delivery_at_once_both_succeed(past: Past) -> None:
    line, event_id = past.line, past.told[0].id
    pool = past.database.pool
    async with past.database.transaction() as connection:
        await requeue.resend(connection, PROJECT, line.webhook.id, event_id, line.now)
        other = asyncio.create_task(resend(past.database, PROJECT, line.webhook.id, event_id, line.now))
        blocked = "select count(*) from pg_locks where not granted"
        await until(lambda: pool.fetchval(blocked))
    assert await other
    assert [one.event_id for one in await line.claim()] == [event_id]


@pytest.mark.parametrize("dropped", [False, True])
async def test_a_replay_reaches_what_was_dropped_and_what_was_not(past: Past, dropped: bool) -> None:
    line = past.line
    fresh = await line.yard.buy("ann")
    await deliver_all(line)
    if dropped:
        await turn_over(past.database, past.now, MONTH)
    for _ in range(2):
        await start_replay(past.database, PROJECT, line.webhook.id, ReplayRange(0, None, "all"), line.now)
    while await work_off(past.database, line.now):
        pass
    arrived = await deliver_all(line)
    assert len(arrived) == len(set(arrived)) == 6 + len(fresh)
    for customer in {customer for customer, _ in arrived}:
        mine = [sequence for one, sequence in arrived if one == customer]
        assert mine == sorted(mine)
    stored = await past.database.pool.fetch("select customer_id, sequence from deliveries where status = 'delivered'")
    assert len(stored) == len(arrived)
    # Those of the newest part stay where they are.
    assert await numbers(past.database, "deliveries") == [-1] * 6 + [1] * 2


async def test_a_table_in_use_is_dropped_later_and_nobody_waits_long(
    past: Past, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "LOCK_TIMEOUT_MS", 20)
    monkeypatch.setattr("latchkey.subjects.webhooks.delivery.role._TRIES", 2)
    monkeypatch.setattr("latchkey.subjects.webhooks.delivery.role._BUSY_SECONDS", 0)
    async with past.database.transaction() as reader:
        await reader.execute("select from deliveries where partition = 1")
        await turn_over(past.database, past.now, MONTH)
        assert "deliveries_0" in await tables(past.database, "deliveries")
        await past.line.yard.buy("ann")
    await turn_over(past.database, past.now, MONTH)
    assert "deliveries_0" not in await tables(past.database, "deliveries")
    assert len(await deliver_all(past.line)) == 2


async def test_only_one_process_at_a_time_opens_and_drops(past: Past, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "LOCK_TIMEOUT_MS", 20)
    async with past.database.transaction() as other:
        await other.execute("lock table partitions in share row exclusive mode")
        with pytest.raises(DatabaseBusyError):
            await parts.open_part(past.database, 2, past.now)
        # New events need no lock for that.
        await past.line.yard.buy("ann")
    await parts.open_part(past.database, 2, past.now)
    await parts.open_part(past.database, 2, past.now)
    await parts.open_part(past.database, 1, past.now)
    assert [one.number for one in await parts.known(past.database)] == [-1, 0, 1, 2]


@pytest.mark.one_server("a user needs a password file on every node there")
async def test_a_user_who_may_not_create_tables_goes_on_with_the_part_there_is(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules, "SMALLEST", 0)
    database = line.yard.database
    await line.yard.buy("ann")
    await deliver_all(line)
    await database.pool.execute("create role plain_user")
    await database.pool.execute("grant select, insert, update, delete on all tables in schema public to plain_user")
    try:
        async with Database(database.url, max_size=1) as plain:
            await plain.pool.execute("set role plain_user")
            await turn_over(plain, line.now + 10 * MONTH, MONTH)
            assert await prune(plain, line.now + 10 * MONTH, MONTH) == 2
    finally:
        await database.pool.execute("drop owned by plain_user")
        await database.pool.execute("drop role plain_user")
    assert await tables(database, "deliveries") == {"deliveries_0"}


@pytest.mark.parametrize("statement", ["select open_partition(2, 0)", "select drop_partition(0, 0)"])
async def test_a_process_that_dies_while_it_opens_or_drops_leaves_everything_as_it_was(
    past: Past, statement: str
) -> None:
    dying = await connect(past.database.url)
    transaction = dying.transaction()
    await transaction.start()
    await dying.execute(statement)
    buying = asyncio.create_task(past.line.yard.buy("ann"))
    await past.database.pool.fetchval("select pg_terminate_backend($1::integer)", dying.get_server_pid())
    assert len(await buying) == 2
    assert len(await deliver_all(past.line)) == 2
    assert await past.stored() == {"ann": [0, 0, 1, 1], "bob": [0, 0], "eve": [0, 0]}
    dying.terminate()
    await turn_over(past.database, past.now, MONTH)
    assert await past.stored() == {"ann": [1, 1], "bob": [-1, -1], "eve": [-1, -1]}
    assert await past.database.pool.fetchval("select count(*) from events") == 8


async def test_parts_come_and_go_while_many_buy_and_nothing_is_lost_or_doubled(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The chore as often as it can, with every part large enough and old at once, beside buyers and a worker."""
    monkeypatch.setattr(rules, "SMALLEST", 0)
    database, users = line.yard.database, [f"user{n}" for n in range(6)]
    arrived: list[tuple[int, int]] = []
    times = 12

    async def send() -> None:
        while True:
            try:
                claims = await line.claim()
                arrived.extend((one.customer_id, one.sequence) for one in claims)
                await line.record(claims)
            except OutageError:
                # A lease that was not recorded runs out.
                line.now += 80_000
            await asyncio.sleep(0)

    sending = asyncio.create_task(send())
    for day in range(1, times + 1):
        # Each time every part before the newest is old.
        turning = turn_over(database, line.now + day * 10 * MONTH, MONTH)
        await asyncio.gather(turning, *(line.yard.buy(user) for user in users))
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    line.now += 80_000
    arrived += await deliver_all(line)
    rows = await database.pool.fetch(
        "select position, id, customer_id, sequence, partition from events order by position"
    )
    assert [row["position"] for row in rows] == list(range(1, 2 * times * len(users) + 1))
    assert len({row["id"] for row in rows}) == len(rows)
    assert [row["partition"] for row in rows] == sorted(row["partition"] for row in rows)
    assert len({row["partition"] for row in rows}) > 2
    # At least once, and in order.
    assert {(row["customer_id"], row["sequence"]) for row in rows} == set(arrived)
    for customer in {row["customer_id"] for row in rows}:
        mine = [sequence for one, sequence in arrived if one == customer]
        assert mine == sorted(mine)
    assert await database.pool.fetchval("select count(*) from deliveries where status <> 'delivered'") == 0
    assert len(await tables(database, "deliveries")) < times
