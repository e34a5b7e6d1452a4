"""The delivery queue, driven by hand: what waits for what, when a failing delivery is passed, resends and replays."""

import asyncio
from collections.abc import Sequence

import pytest
from msgspec import json

from latchkey.database.transient_errors import transaction
from latchkey.domain.events.customer_event import EventType
from latchkey.domain.instants import DAY
from latchkey.domain.retry import SCHEDULE, GiveUp, Retry, after_failure
from latchkey.subjects.customers.usecases.identities import log_in
from latchkey.subjects.webhooks.delivery import webhook_health as health
from latchkey.subjects.webhooks.delivery.queue.requeue_runs import start_replay, stop_replay, work_off
from latchkey.subjects.webhooks.delivery.role import prune
from latchkey.subjects.webhooks.rules import Replay, ReplayRange, Webhook, Which
from latchkey.subjects.webhooks.storage import delivery_rows, lanes
from latchkey.subjects.webhooks.storage import lanes as recording
from latchkey.subjects.webhooks.storage.lanes import AttemptResult, Claim, DeliveryOutcome
from latchkey.wire.event import Event
from tests.patience import until
from tests.subjects.webhooks.delivery.conftest import PROJECT, Yard, now_ms

LEASE = 75_000


class Line:
    """A worker without a network: it claims deliveries, and records the answers that the test chooses."""

    def __init__(self, yard: Yard, webhook: Webhook, number: int = 1) -> None:
        self.yard = yard
        # Of its process.
        self.number = number
        self.webhook = webhook
        # Well ahead of the real clock, so that what a test commits is due even on a slow machine; but a receiver of
        # operational events accepts timestamps that are at most five minutes ahead.
        self.now = now_ms() + 120_000

    async def claim(self, amount: int = 100) -> Sequence[Claim]:
        budgets, until = {self.webhook.key: amount}, self.now + LEASE
        return await lanes.claim_lane(self.yard.database, budgets, self.now, until, self.number)

    async def record(self, claims: Sequence[Claim], status: int = 200) -> int:
        recorded, _ = await recording.record_attempts(
            self.yard.database, [self.outcome(one, status) for one in claims], self.now
        )
        await health.note(self.yard.database, recorded, self.now)
        return len(recorded)

    async def rest(self) -> list[int]:
        """Deliver everything that is due. Returns the sequences, in order."""
        order = []
        while claims := await self.claim():
            order += sequences(claims)
            await self.record(claims)
        return order

    async def replay(self, *types: str, status: Which = "all") -> Replay:
        chosen = ReplayRange(0, None, status, types)
        replay = await start_replay(self.yard.database, PROJECT, self.webhook.id, chosen, self.now + 1000)
        while await work_off(self.yard.database, self.now):
            pass
        return replay

    def outcome(self, claim: Claim, status: int) -> DeliveryOutcome:
        answer = AttemptResult(
            self.now, 0, status, None if status == 200 else f"answered {status} instead of 200", b"{}"
        )
        if status == 200:
            return DeliveryOutcome(claim, answer, None)
        first_at = claim.tried_at if claim.tried_at is not None else self.now
        decision = after_failure(SCHEDULE, tries=claim.tries + 1, first_at=first_at, now=self.now, chance=0.5)
        return DeliveryOutcome(claim, answer, decision)


@pytest.fixture
async def line(yard: Yard) -> Line:
    return Line(yard, await yard.hook("https://receiver.example/", retry_seconds=SCHEDULE))


def sequences(claims: Sequence[Claim]) -> list[int]:
    return [one.sequence for one in claims]


async def test_each_attempt_of_a_batch_has_its_own_headers_and_body(line: Line) -> None:
    """A batch is recorded with each response once; most are alike, these are not."""
    for name in ("ann", "bob", "cat", "dan"):
        await line.yard.buy(name, 1)
    await line.record(await line.claim())
    claims = await line.claim()
    responses = [(b'[["x","1"]]', b"a\nb\x00"), (b"[]", b""), (b'[["x","1"]]', b""), (b'[["x","2"]]', b"a\nb\x00")]
    attempts = [
        AttemptResult(line.now, 0, 200, None, json.encode({"webhook-id": f'"\n{number}'}), headers, body)
        for number, (headers, body) in enumerate(responses)
    ]
    outcomes = [DeliveryOutcome(claim, attempt, None) for claim, attempt in zip(claims, attempts, strict=True)]
    recorded, _ = await recording.record_attempts(line.yard.database, outcomes, line.now)
    assert len(recorded) == len(claims) == 4
    logged = await line.yard.database.pool.fetch(
        "select customer_id, request_headers, response_headers, response_body from attempts where sequence = 2"
    )
    expected = [
        (claim.customer_id, attempt.request_headers, attempt.response_headers, attempt.response_body)
        for claim, attempt in zip(claims, attempts, strict=True)
    ]
    assert sorted(tuple(row) for row in logged) == sorted(expected)


async def test_one_at_a_time_for_a_customer_and_all_customers_at_once(line: Line) -> None:
    await line.yard.buy("ann", 2)
    await line.yard.buy("bob")
    claims = await line.claim()
    assert sequences(claims) == [1, 1]
    assert await line.claim() == []
    await line.record(claims)
    assert sequences(await line.claim()) == [2, 2]


async def test_the_next_waits_through_two_minutes_of_retries_and_then_passes(line: Line) -> None:
    await line.yard.buy("ann")
    began = line.now
    for tried_after in (0, 5_000, 35_000):
        line.now = began + tried_after
        claims = await line.claim()
        assert sequences(claims) == [1]
        await line.record(claims, 500)
    line.now = began + 119_000
    assert await line.claim() == []
    line.now = began + 120_000
    second = await line.claim()
    assert sequences(second) == [2]
    await line.record(second)
    line.now = began + 155_000
    again = await line.claim()
    assert [(one.sequence, one.attempts) for one in again] == [(1, 3)]
    await line.record(again)
    assert await line.yard.count("delivered") == 2
    assert await line.yard.database.pool.fetchval("select count(*) from lanes") == 0


async def test_the_next_waits_no_longer_where_the_clock_was_ahead_at_the_first_try(line: Line) -> None:
    await line.yard.buy("ann")
    began = line.now
    line.now += DAY
    await line.record(await line.claim(), 500)
    line.now = began
    async with transaction(line.yard.database) as connection:
        await delivery_rows.hurry_all(connection, PROJECT, line.webhook.key, line.now, 10)
    for tried_after in (0, 30_000):
        line.now = began + tried_after
        claims = await line.claim()
        assert sequences(claims) == [1]
        await line.record(claims, 500)
    line.now = began + 120_000
    assert sequences(await line.claim()) == [2]


async def test_an_outcome_that_comes_after_the_lease_ran_out_changes_nothing(line: Line) -> None:
    await line.yard.buy("ann")
    late = await line.claim()
    line.now += LEASE + 1
    taken_over = await line.claim()
    assert sequences(taken_over) == sequences(late) == [1]
    assert await line.record(late) == 0
    assert await line.yard.count("delivered") == 0
    assert await line.record(taken_over) == 1


async def test_what_an_ended_process_had_claimed_is_claimed_again_and_only_that(line: Line) -> None:
    ended = Line(line.yard, line.webhook, number=7)
    for name in ("ann", "bob"):
        await line.yard.buy(name)
    lost, kept = await ended.claim(1), await line.claim(1)
    assert await lanes.release_ended(line.yard.database, [7, 8]) == 1
    taken_over = await line.claim()
    assert [claim.customer_id for claim in taken_over] == [claim.customer_id for claim in lost]
    assert await ended.record(lost) == 0
    assert await line.record([*kept, *taken_over]) == 2


async def test_an_event_committed_while_the_one_before_is_recorded_is_not_stranded(line: Line) -> None:
    for _ in range(30):
        await line.yard.buy("ann")
        claims = await line.claim()
        await asyncio.gather(line.record(claims), line.yard.buy("ann"))
        for _ in range(10):
            if not (claims := await line.claim()):
                break
            await line.record(claims)
        assert await line.yard.count("waiting") == 0


async def test_the_limit_of_a_webhook_holds_over_all_workers(line: Line) -> None:
    await line.yard.webhooks.change(PROJECT, line.webhook.id, line.now, in_flight_limit=3)
    for number in range(8):
        await line.yard.buy(f"user{number}")
    taken = await asyncio.gather(*(line.claim(2) for _ in range(6)))
    assert sum(map(len, taken)) <= 3
    assert sum(map(len, taken)) + len(await line.claim()) == 3


@pytest.mark.parametrize(
    ("change", "probes"),
    [({"url": "https://receiver.example/elsewhere"}, 1), ({"authorization": "Bearer new"}, 1), ({"name": "other"}, 0)],
)
async def test_a_correction_of_a_failing_webhook_is_probed_at_once(
    line: Line, change: dict[str, str], probes: int
) -> None:
    for number in range(12):
        await line.yard.buy(f"user{number}")
    await line.record(await line.claim(10), 500)
    line.now += 1_000
    assert await line.claim() == []
    updated = await line.yard.webhooks.change(PROJECT, line.webhook.id, line.now, **change)
    assert updated.health.failures == 10
    assert len(await line.claim()) == probes
    assert await line.claim() == []


async def test_a_replay_of_what_failed_leaves_the_rest_alone_and_goes_before_what_waits(line: Line) -> None:
    await line.yard.buy("ann", 2)
    first = await line.claim()
    await recording.record_attempts(
        line.yard.database,
        [DeliveryOutcome(first[0], AttemptResult(line.now, 0, 500, "answered 500", b"{}"), GiveUp())],
        line.now,
    )
    await line.record(await line.claim())
    held = await line.claim()
    assert sequences(held) == [3]
    await line.replay(status="failed")
    await line.record(held)
    assert await line.rest() == [1, 4]


async def test_a_replay_that_adds_what_comes_before_the_one_under_way_is_sent_whole(line: Line) -> None:
    await line.yard.buy("ann", 2)
    await line.rest()
    await line.replay("NON_RENEWING_PURCHASE")
    await line.record(await line.claim())
    held = await line.claim()
    assert sequences(held) == [3]
    await line.replay("VIRTUAL_CURRENCY_TRANSACTION")
    await line.record(held)
    assert await line.rest() == [2, 4]


async def test_an_outcome_that_comes_after_its_replay_was_stopped_strands_nothing(line: Line) -> None:
    await line.yard.buy("ann")
    await line.record(await line.claim())
    replay = await line.replay("NON_RENEWING_PURCHASE")
    late = await line.claim()
    assert sequences(late) == [1]
    line.now += LEASE + 1
    await stop_replay(line.yard.database, PROJECT, line.webhook.id, replay.id, line.now)
    assert await line.record(late) == 0
    assert await line.rest() == [2]


async def test_a_replay_that_is_stopped_takes_back_the_lane_of_a_delivery_under_way(line: Line) -> None:
    await line.yard.buy("ann", 2)
    await line.rest()
    replay = await line.replay()
    under_way = await line.claim()
    assert sequences(under_way) == [1]
    await line.yard.buy("ann")
    woken: list[list[int]] = []
    async with lanes.listening(line.yard.database, woken.append):
        assert await stop_replay(line.yard.database, PROJECT, line.webhook.id, replay.id, line.now) == 4
        # The lane goes on at once, and not with the next sweep.
        await until(lambda: [line.webhook.key] in woken)
    assert await line.record(under_way) == 0
    assert await line.rest() == [5, 6]
    assert await line.yard.database.pool.fetchval("select count(*) from lanes") == 0


async def test_a_replay_that_is_stopped_leaves_no_wait_for_the_retry_of_what_it_has_taken_back(line: Line) -> None:
    await line.yard.buy("ann", 2)
    await line.rest()
    replay = await line.replay()
    [first] = await line.claim()
    failed = AttemptResult(line.now, 0, 500, "answered 500", b"{}")
    outcome = DeliveryOutcome(first, failed, Retry(line.now + 60_000))
    await recording.record_attempts(line.yard.database, [outcome], line.now)
    await line.yard.buy("ann")
    assert await stop_replay(line.yard.database, PROJECT, line.webhook.id, replay.id, line.now) == 4
    assert sequences(await line.claim()) == [5]


async def test_a_delivery_that_leaves_its_lane_while_its_replay_is_stopped_is_not_counted_there(line: Line) -> None:
    for name in ("ann", "bob"):
        await line.yard.buy(name)
    await line.rest()
    replay = await line.replay()
    await line.yard.buy("bob")
    late = sorted(await line.claim(), key=lambda claim: claim.customer_id)
    assert sequences(late) == [1, 1]
    line.now += LEASE + 1
    stop = stop_replay(line.yard.database, PROJECT, line.webhook.id, replay.id, line.now)
    async with transaction(line.yard.database) as connection:
        await connection.fetch("select from lanes where customer_id = $1 for update", late[0].customer_id)
        stopping = asyncio.create_task(stop)
        blocked = (
            "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
        )
        await until(lambda: line.yard.database.pool.fetchval(blocked))
        failed = AttemptResult(line.now, 0, 500, "answered 500", b"{}")
        later = DeliveryOutcome(late[1], failed, Retry(line.now + 600_000, line.now))
        assert len((await recording.record_attempts(line.yard.database, [later], line.now))[0]) == 1
    await stopping
    assert await line.rest() == [3, 4]
    assert await line.yard.database.pool.fetchval("select count(*) from lanes") == 0


async def test_pruning_takes_what_was_delivered_long_ago_and_nothing_else(line: Line) -> None:
    await line.yard.buy("ann", 2)
    await line.record(await line.claim())
    assert await prune(line.yard.database, line.now, 60_000) == 0
    assert await prune(line.yard.database, line.now + 1000, 0) == 1
    assert await line.yard.database.pool.fetchval("select count(*) from attempts") == 0
    assert await line.yard.database.pool.fetchval("select count(*) from events") == 4
    assert await line.yard.count("waiting") == 3
    await line.yard.webhooks.delete(PROJECT, line.webhook.id, line.now)
    await prune(line.yard.database, 0, 0)
    assert await line.yard.database.pool.fetchval("select count(*) from webhooks") == 0
    assert await line.yard.database.pool.fetchval("select count(*) from deliveries") == 0


async def test_after_a_merge_every_number_tells_what_was_before_it(line: Line) -> None:
    """Pending deliveries of the absorbed customer stay in a lane of their own. They may arrive late, but never with a
    sequence that looks newer than the merge. The event of the merge comes after everything pending for the surviving
    customer."""
    anonymous = "$RCAnonymousID:" + "a" * 32
    await line.yard.buy(anonymous, 2)
    await line.yard.buy("bob")
    await log_in(line.yard.changes, PROJECT, anonymous, "bob")
    await line.yard.buy("bob")
    arrived: list[Event] = []
    while claims := await line.claim():
        arrived += [json.decode(one.event, type=Event) for one in claims]
        await line.record(claims)
    assert len(arrived) == 4 + 2 + 1 + 2
    of_bob = [event for event in arrived if event.app_user_id == "bob"]
    assert [event.sequence for event in of_bob] == [1, 2, 5, 6, 7]
    (alias,) = (event for event in arrived if event.type == "SUBSCRIBER_ALIAS")
    assert alias.sequence == 5
    assert {event.sequence for event in arrived if event.app_user_id == anonymous} == {1, 2, 3, 4}


async def test_a_webhook_gets_the_event_of_a_merge_unless_it_was_left_out(line: Line) -> None:
    chosen = tuple(type for type in EventType if type != "SUBSCRIBER_ALIAS")
    without = await line.yard.hook("https://other.example/", event_types=chosen)
    for user in ("$RCAnonymousID:" + "a" * 32, "bob"):
        await line.yard.buy(user)
    await log_in(line.yard.changes, PROJECT, "$RCAnonymousID:" + "a" * 32, "bob")
    rows = await line.yard.database.pool.fetch(
        "select webhook_key from deliveries where event_type = 'SUBSCRIBER_ALIAS'"
    )
    assert [row["webhook_key"] for row in rows] == [line.webhook.key]
    assert without.event_types == chosen
