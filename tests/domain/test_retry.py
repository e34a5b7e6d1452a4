from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latchkey.domain.webhooks.retry import (
    JITTER,
    LONGEST_WAIT_MS,
    PATIENCE_MS,
    SCHEDULE,
    Decision,
    GiveUp,
    Retry,
    after_failure,
    parse_retry_after,
)

NOW = 1_794_700_000_000
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
    st.integers(0, 10 * H),
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
    assert others_go_on <= max(NOW, first_at + PATIENCE_MS)
    assert (decided.others_at is not None) == (decided.at > first_at + PATIENCE_MS)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        ("120", 120 * S),
        (" 7 ", 7 * S),
        ("Sat, 15 Nov 2026 00:30:00 GMT", None),
        ("", None),
        ("soon", None),
        ("-5", None),
        ("1.5", None),
        ("٣", None),
        ("9" * 5000, int("9" * 12) * S),
        ("Sun, 15 Nov 1994 08:12:31 GMT", 0),
    ],
)
def test_retry_after_in_seconds_or_as_a_date(value: str | None, expected: int | None) -> None:
    if value is not None and value.startswith("Sat"):
        assert parse_retry_after(value, 1_794_702_600_000 - 90 * S) == 90 * S
    else:
        assert parse_retry_after(value, NOW) == expected
