from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latchkey.domain.webhooks.health import (
    ANNOUNCE_AFTER_MS,
    FAILURES_TO_OPEN,
    HEALTHY,
    LONGEST_OPEN_MS,
    PAUSE_AFTER_MS,
    SHORTEST_OPEN_MS,
    Announcement,
    Health,
    after_failures,
    after_success,
    corrected,
    resumed,
)

NOW = 1_794_700_000_000


def test_a_few_failures_leave_the_circuit_closed() -> None:
    health, told = after_failures(HEALTHY, FAILURES_TO_OPEN - 1, NOW)
    assert health == Health(failures=FAILURES_TO_OPEN - 1, failing_since=NOW)
    assert told is None


def test_the_tenth_in_a_row_opens_it_for_a_moment() -> None:
    health, told = after_failures(Health(failures=9, failing_since=NOW - 100), 1, NOW)
    assert health.open_until == NOW + SHORTEST_OPEN_MS
    assert told is None


def test_a_success_between_them_begins_the_count_anew() -> None:
    health, _ = after_failures(HEALTHY, 9, NOW)
    health, told = after_success(health)
    assert (health, told) == (HEALTHY, None)


def test_what_was_under_way_when_it_opened_does_not_open_it_for_longer() -> None:
    opened = Health(failures=10, open_until=NOW + 4000, failing_since=NOW - 1000)
    health, _ = after_failures(opened, 50, NOW)
    assert health.open_until == NOW + 4000


def test_probes_become_rarer_the_longer_it_lasts() -> None:
    waits = []
    for lasted in (0, 60_000, 3_600_000):
        health, _ = after_failures(Health(failures=20, open_until=NOW, failing_since=NOW - lasted), 1, NOW)
        assert health.open_until is not None
        waits.append(health.open_until - NOW)
    assert waits == [SHORTEST_OPEN_MS, 15_000, LONGEST_OPEN_MS]


def test_trouble_that_lasts_is_announced_once_and_so_is_its_end() -> None:
    health = Health(failures=10, open_until=NOW, failing_since=NOW - ANNOUNCE_AFTER_MS)
    health, told = after_failures(health, 1, NOW)
    assert told is Announcement.FAILING
    health, told = after_failures(health, 1, NOW + 60_000)
    assert told is None
    health, told = after_success(health)
    assert told is Announcement.RECOVERED
    assert health == HEALTHY


def test_five_days_of_nothing_but_failures_pause_it() -> None:
    health = Health(failures=500, open_until=NOW, failing_since=NOW - PAUSE_AFTER_MS, announced_at=NOW - 1)
    health, told = after_failures(health, 1, NOW)
    assert told is Announcement.PAUSED
    assert health.paused_at == NOW


def test_a_rare_failure_every_few_days_does_not_pause_it() -> None:
    health, told = after_failures(Health(failures=2, failing_since=NOW - PAUSE_AFTER_MS), 1, NOW)
    assert (health.paused_at, told) == (None, None)


def test_resuming_forgives_and_the_first_success_is_still_told() -> None:
    health = resumed(Health(500, NOW, NOW, NOW, NOW))
    assert health == Health(announced_at=NOW)
    assert after_success(health)[1] is Announcement.RECOVERED


@pytest.mark.parametrize(("open_until", "after"), [(None, None), (NOW - 1, NOW - 1), (NOW, NOW), (NOW + 60_000, NOW)])
def test_after_a_correction_the_next_probe_is_at_once_and_failures_still_count(
    open_until: int | None, after: int | None
) -> None:
    assert corrected(Health(12, open_until, NOW - 5, NOW - 1), NOW) == Health(12, after, NOW - 5, NOW - 1)


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
