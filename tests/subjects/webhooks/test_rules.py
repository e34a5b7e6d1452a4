"""A webhook's health, its retries, and when a part of the delivery log begins and is dropped."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latchkey.domain.partitions import (
    KEPT,
    LARGE,
    LARGEST_OF_EVENTS,
    SMALLEST,
    Partition,
    Sizes,
    deleted_before,
    next_part,
    to_drop,
)
from latchkey.domain.retry import (
    JITTER,
    LONGEST_WAIT_MS,
    PATIENCE_MS,
    SCHEDULE,
    Decision,
    GiveUp,
    Retry,
    after_failure,
)
from latchkey.subjects.webhooks.rules import (
    ANNOUNCE_AFTER_MS,
    FAILURES_TO_OPEN,
    HEALTHY,
    LONGEST_OPEN_MS,
    PAUSE_AFTER_MS,
    SHORTEST_OPEN_MS,
    Announcement,
    WebhookHealth,
    after_failures,
    after_success,
    corrected,
    resumed,
)

NOW = 1_794_700_000_000


@pytest.mark.parametrize(
    ("before", "count", "after", "announced"),
    [
        # A few failures leave the circuit closed.
        (HEALTHY, FAILURES_TO_OPEN - 1, WebhookHealth(FAILURES_TO_OPEN - 1, failing_since=NOW), None),
        # The tenth in a row opens it for a moment.
        (WebhookHealth(9, None, NOW - 100), 1, WebhookHealth(10, NOW + SHORTEST_OPEN_MS, NOW - 100), None),
        # What was under way when it opened does not open it for longer.
        (WebhookHealth(10, NOW + 4000, NOW - 1000), 50, WebhookHealth(60, NOW + 4000, NOW - 1000), None),
        # Five days of nothing but failures pause it; a rare failure every few days does not.
        (
            WebhookHealth(500, NOW, NOW - PAUSE_AFTER_MS, NOW - 1),
            1,
            WebhookHealth(501, NOW + LONGEST_OPEN_MS, NOW - PAUSE_AFTER_MS, NOW - 1, NOW),
            Announcement.PAUSED,
        ),
        (WebhookHealth(2, None, NOW - PAUSE_AFTER_MS), 1, WebhookHealth(3, None, NOW - PAUSE_AFTER_MS), None),
    ],
)
def test_failures_open_the_circuit_and_pause(
    before: WebhookHealth, count: int, after: WebhookHealth, announced: Announcement | None
) -> None:
    assert after_failures(before, count, NOW) == (after, announced)


def test_a_success_between_them_begins_the_count_anew() -> None:
    health, _ = after_failures(HEALTHY, 9, NOW)
    health, told = after_success(health)
    assert (health, told) == (HEALTHY, None)


def test_probes_become_rarer_the_longer_it_lasts() -> None:
    waits = []
    for lasted in (0, 60_000, 3_600_000):
        health, _ = after_failures(WebhookHealth(failures=20, open_until=NOW, failing_since=NOW - lasted), 1, NOW)
        assert health.open_until is not None
        waits.append(health.open_until - NOW)
    assert waits == [SHORTEST_OPEN_MS, 15_000, LONGEST_OPEN_MS]


def test_trouble_that_lasts_is_announced_once_and_so_is_its_end() -> None:
    health = WebhookHealth(failures=10, open_until=NOW, failing_since=NOW - ANNOUNCE_AFTER_MS)
    health, told = after_failures(health, 1, NOW)
    assert told is Announcement.FAILING
    health, told = after_failures(health, 1, NOW + 60_000)
    assert told is None
    health, told = after_success(health)
    assert told is Announcement.RECOVERED
    assert health == HEALTHY


def test_resuming_forgives_and_the_first_success_is_still_told() -> None:
    health = resumed(WebhookHealth(500, NOW, NOW, NOW, NOW))
    assert health == WebhookHealth(announced_at=NOW)
    assert after_success(health)[1] is Announcement.RECOVERED


@pytest.mark.parametrize(("open_until", "after"), [(None, None), (NOW - 1, NOW - 1), (NOW, NOW), (NOW + 60_000, NOW)])
def test_after_a_correction_the_next_probe_is_at_once_and_failures_still_count(
    open_until: int | None, after: int | None
) -> None:
    assert corrected(WebhookHealth(12, open_until, NOW - 5, NOW - 1), NOW) == WebhookHealth(12, after, NOW - 5, NOW - 1)


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 20), st.integers(0, 3_600_000)), max_size=200))
def test_whatever_happens_announcements_take_turns_and_the_circuit_opens_for_a_minute_at_most(
    history: list[tuple[bool, int, int]],
) -> None:
    health, now, told = HEALTHY, NOW, []
    for success, count, later in history:
        now += later
        health, announcement = after_success(health) if success else after_failures(health, count, now)
        if announcement is not None:
            told.append(announcement)
        assert health.open_until is None or health.open_until <= now + LONGEST_OPEN_MS
        assert (health.open_until is not None) <= (health.failures >= FAILURES_TO_OPEN)
        if health.paused_at is not None:
            break
    for first, second in pairwise(told):
        assert (first is Announcement.FAILING) == (second in (Announcement.RECOVERED, Announcement.PAUSED))


S, M, H = 1000, 60_000, 3_600_000

# Tries so far, age of the first try, Retry-After; wait until the next try, wait until later events may pass.
TABLE: list[tuple[int, int, int | None, int | None, int | None]] = [
    (1, 0, None, 5 * S, None),
    (2, 5 * S, None, 30 * S, None),
    (3, 35 * S, None, 2 * M, 85 * S),
    (4, 155 * S, None, 5 * M, 0),
    (5, 8 * M, None, 10 * M, 0),
    (6, 18 * M, None, 20 * M, 0),
    (7, 38 * M, None, 40 * M, 0),
    (8, 78 * M, None, 80 * M, 0),
    (9, 3 * H, None, 3 * H, 0),
    (10, 6 * H, None, 6 * H, 0),
    (11, 12 * H, None, 12 * H, 0),
    (12, 24 * H, None, 24 * H, 0),
    (13, 48 * H, None, None, None),
    # A Retry-After counts when it is longer than the step, and up to a day.
    (1, 0, 1 * S, 5 * S, None),
    (1, 0, 10 * S, 10 * S, None),
    (1, 0, 3 * M, 3 * M, 2 * M),
    (1, 0, 100 * H, 24 * H, 2 * M),
    (12, 24 * H, 30 * H, 24 * H, 0),
]


@pytest.mark.parametrize(("tries", "since", "retry_after", "next_in", "others_in"), TABLE)
def test_after_each_failure(
    tries: int, since: int, retry_after: int | None, next_in: int | None, others_in: int | None
) -> None:
    decided = after_failure(
        SCHEDULE, tries=tries, first_at=NOW - since, now=NOW, chance=0.5, retry_after_ms=retry_after
    )
    expected: Decision = GiveUp()
    if next_in is not None:
        expected = Retry(NOW + next_in, NOW + others_in if others_in is not None else None)
    assert decided == expected


@given(st.integers(1, 12), st.floats(0, 1))
def test_jitter_moves_a_retry_by_a_fifth_at_most(tries: int, chance: float) -> None:
    decided = after_failure(SCHEDULE, tries=tries, first_at=NOW, now=NOW, chance=chance)
    assert isinstance(decided, Retry)
    step = SCHEDULE[tries - 1] * S
    assert step * (1 - JITTER) - 1 <= decided.at - NOW <= step * (1 + JITTER) + 1


@given(
    st.lists(st.integers(1, 100_000), max_size=15),
    st.integers(1, 20),
    # Negative: the clock was ahead.
    st.integers(-10 * H, 10 * H),
    st.floats(0, 1),
    st.none() | st.integers(0, 100 * H),
)
def test_the_others_wait_two_minutes_and_never_longer(
    schedule: list[int], tries: int, since: int, chance: float, retry_after: int | None
) -> None:
    first_at = NOW - since
    decided = after_failure(
        schedule, tries=tries, first_at=first_at, now=NOW, chance=chance, retry_after_ms=retry_after
    )
    if isinstance(decided, GiveUp):
        assert tries > len(schedule)
        return
    assert NOW < decided.at <= NOW + max(LONGEST_WAIT_MS, round(schedule[tries - 1] * S * (1 + JITTER)))
    others_go_on = decided.others_at if decided.others_at is not None else decided.at
    patience_ends = min(first_at, NOW) + PATIENCE_MS
    assert others_go_on <= max(NOW, patience_ends)
    assert (decided.others_at is not None) == (decided.at > patience_ends)


DAY = 24 * 3600 * 1000
TODAY = 1000 * DAY
MONTH = 30 * DAY


@pytest.mark.parametrize(
    ("number", "age", "sizes", "opened"),
    [
        # A small installation stays with its first part.
        (0, 999 * DAY, Sizes(SMALLEST - 1, LARGEST_OF_EVENTS - 1), None),
        (0, MONTH // 4, Sizes(SMALLEST, 0), 1),
        (0, MONTH // 4 - 1, Sizes(SMALLEST, 0), None),
        (7, 1 * DAY, Sizes(LARGE, 0), 8),
        (7, 1 * DAY - 1, Sizes(LARGE, 0), None),
        # Events alone: without webhooks there are no deliveries.
        (7, 0, Sizes(0, LARGEST_OF_EVENTS), 1000),
        (999, MONTH // 4, Sizes(SMALLEST, 0), 1000),
        (1003, 0, Sizes(0, LARGEST_OF_EVENTS), 2000),
        # A clock that was ahead when the part was opened.
        (7, -999 * DAY, Sizes(LARGE, 0), None),
    ],
)
def test_a_part_begins_when_the_one_before_is_old_and_large_enough(
    number: int, age: int, sizes: Sizes, opened: int | None
) -> None:
    assert next_part(Partition(number, TODAY - age), sizes, TODAY, MONTH) == opened


def test_what_is_kept_for_a_few_days_is_not_cut_into_hours() -> None:
    assert next_part(Partition(0, TODAY - DAY + 1), Sizes(SMALLEST, 0), TODAY, 2 * DAY) is None
    assert next_part(Partition(0, TODAY - DAY), Sizes(SMALLEST, 0), TODAY, 2 * DAY) == 1


def test_a_part_is_dropped_when_the_next_one_is_older_than_what_is_kept() -> None:
    parts = [
        Partition(KEPT, 0),
        Partition(0, 0),
        Partition(1, TODAY - 36 * DAY),
        Partition(2, TODAY - 31 * DAY),
        Partition(1000, TODAY - 30 * DAY),
    ]
    assert to_drop(parts, TODAY, MONTH) == [0, 1]
    assert to_drop(parts, TODAY + 1, MONTH) == [0, 1, 2]
    # Neither the newest, nor the one that keeps what outlives the others.
    assert to_drop(parts, TODAY + 999 * DAY, MONTH) == [0, 1, 2]
    assert to_drop(parts[:2], TODAY + 999 * DAY, MONTH) == []


def test_deliveries_of_a_closed_part_wait_for_it_to_be_dropped() -> None:
    parts = [Partition(KEPT, 0), Partition(0, 0), Partition(1, TODAY - DAY)]
    assert deleted_before(KEPT, parts, TODAY, MONTH) == deleted_before(1, parts, TODAY, MONTH) == TODAY - MONTH
    assert deleted_before(0, parts, TODAY, MONTH) == TODAY - 40 * DAY
